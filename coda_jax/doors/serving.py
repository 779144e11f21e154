"""``--mode=serve``: the trained policy of a run, served to anybody who speaks openpi's websocket protocol (docs/serving.md)."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import coda_jax
from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.doors.observations import MOST_TEXT, ObservationError, fields_of, noise_key, observation_of
from coda_jax.doors.server import PolicyServer, ServeSettings
from coda_jax.evaluation.words import EmbedFn
from coda_jax.learning import lora
from coda_jax.learning.policies.base import Params
from coda_jax.learning.policies.flow import FlowPolicy
from coda_jax.learning.policies.messages import KEY, PIXELS, PREFIX, PROMPT, WORDS
from coda_jax.learning.policies.pixels import PixelPolicy
from coda_jax.learning.policies.remote import VOLATILE
from coda_jax.loop import cloning, parts
from coda_jax.loop.journal import read_commits
from coda_jax.runtime import InputError
from coda_jax.sim.cameras import OBSERVED
from coda_jax.sim.recording import FIELD_SHAPES
from coda_jax.types import ACTION_DIM, TOKENS

Translate = Callable[[Mapping[str, Any]], Mapping[str, Any]]
PROTOCOL = 1  # raised where the entries of an observation change
_MOST_TEXTS = 20_000  # different ones that a server embeds and keeps; each takes some 6 kB of memory and disk
_STREAM = 2**21  # of the seed: the noise of clients that send no key


class Texts:
    """Embeds clients' texts, and refuses what would fill memory and disk with ever new ones."""

    def __init__(self, embed: EmbedFn):
        self._embed, self._met = embed, set()

    def __call__(self, sentences: Any) -> np.ndarray:
        """Embeddings [n, d] of n sentences. Raises ObservationError once too many different ones were sent."""
        new = set(sentences) - self._met
        if len(self._met) + len(new) > _MOST_TEXTS:
            raise ObservationError(f"this server has met {_MOST_TEXTS} different texts, and takes no new ones; start it again")
        self._met |= new
        return self._embed(sentences)


class ServedPolicy:
    """A policy of ours as a function from a client's message to an answer.

    seed: of the noise of clients that send no key of their own. about: entries of the metadata that say whose policy it is.
    translate: gives messages of another simulator our entries; None where the policy knows none but ours.
    """

    def __init__(
        self, policy: FlowPolicy, params: Params, embed: EmbedFn, seed: int, about: Mapping[str, Any], translate: Translate | None = None
    ):
        self._translate = translate
        self._policy, self._params, self._texts = policy, lora.merged(params), Texts(embed)
        self._pixels = (len(OBSERVED), policy.height, policy.columns, 3) if isinstance(policy, PixelPolicy) else None
        self._noise = self._keys(jax.random.fold_in(jax.random.key(seed), _STREAM))
        fields: dict[str, list[int]] = {PREFIX + name: list(FIELD_SHAPES[name]) for name in fields_of(self._pixels)}
        if self._pixels is not None:
            fields[PIXELS] = list(self._pixels)
        timing = {"compile_s": self._timed(), "infer_ms": 1000 * self._timed()}
        self.metadata: dict[str, Any] = {
            "server": "coda_jax",
            "protocol": PROTOCOL,
            "observes": "state" if self._pixels is None else "pixels",
            "texts": [PROMPT] if self._pixels is not None else [PROMPT, WORDS],
            "tokens": TOKENS,
            "fields": fields,
            "chunk": policy.chunk,
            "action_dim": ACTION_DIM,
            **about,
            VOLATILE: timing,
        }

    def infer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """ "actions" float32 [h, 7], LIBERO's convention, for a client's message.

        Raises:
          ObservationError: the message cannot be used.
        """
        if self._translate is not None:
            message = self._translate(message)
        key = noise_key(message)
        obs = observation_of(message, self._pixels, self._texts)
        keys = jax.random.wrap_key_data(jnp.asarray(key)[None]) if key is not None else next(self._noise)[None]
        return {"actions": np.asarray(self._policy.sample(self._params, obs, keys, 1)[0, 0], np.float32)}

    @staticmethod
    def _keys(base: jax.Array) -> Iterator[jax.Array]:
        number = 0
        while True:
            yield jax.random.fold_in(base, number)
            number += 1

    def _timed(self) -> float:
        """Seconds that a decision takes now, of a world without objects."""
        began = time.perf_counter()
        message: dict[str, Any] = {PREFIX + name: np.zeros(FIELD_SHAPES[name], np.float32) for name in fields_of(self._pixels)}
        message |= {PREFIX + "ee_quat": np.array([1, 0, 0, 0], np.float32), WORDS: [""] * TOKENS, PROMPT: "none"}
        if self._pixels is not None:
            message[PIXELS] = np.zeros(self._pixels, np.uint8)
        self.infer(message | {KEY: np.zeros(2, np.uint32)})
        return time.perf_counter() - began


def of_run(config: settings.Config, workdir: Path) -> ServedPolicy:
    """The last committed policy of a run.

    Raises:
      InputError: there is none.
    """
    commits = read_commits(workdir)
    if not commits or commits[-1].checkpoint is None or cloning.NAME not in commits[-1].done:
        raise InputError(f"{workdir} has no trained policy yet: let --mode=run finish with this workdir first")
    commit = commits[-1]
    encoder = parts.encoder_of()
    encoder.prepare()
    about = {
        "version": runtime.package_version("coda-jax") or coda_jax.__name__,
        "families": list(settings.families(config)),
        "control_hz": parts.platform_of(config).control_hz,
        "executed": config.evaluate.executed,  # actions of a chunk that its evaluations carry out
        "step": commit.checkpoint,
        "policy_sha256": commit.checkpoint_sha256,
        "most_text": MOST_TEXT,
    }
    translate = None
    if settings.of_libero(config):
        from coda_jax.doors.libero import translator

        translate = translator()
        about["reports"] = "libero"
    state = cloning.committed_state(config, workdir, commit)
    return ServedPolicy(parts.policy_of(config), state.ema, encoder.encode, config.seed, about, translate)


def run(config: settings.Config, workdir: Path, ready: Callable[[PolicyServer], None] = lambda _: None) -> None:
    """Serve until Ctrl-C or SIGTERM. ready: called once clients are let in.

    Raises:
      InputError: there is no policy, or the address cannot be listened at.
    """
    print(f"reading the policy of {workdir} and compiling its decision, some ten seconds", file=sys.stderr, flush=True)
    with parts.mendable():
        served = of_run(config, workdir)
    stop = threading.Event()
    previous = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with PolicyServer(served.infer, served.metadata, settings.build(ServeSettings, config.serve)) as server:
            timing = served.metadata[VOLATILE]
            print(
                f"policy of {workdir} (update {served.metadata['step']}, observes {served.metadata['observes']}) at "
                f"ws://{config.serve.host}:{server.port}, {timing['infer_ms']:.1f} ms a decision; Ctrl-C ends it",
                flush=True,
            )
            ready(server)
            while not stop.wait(0.5):
                if not server.listening:
                    raise InputError("the system has no room for another connection: raise its limit of open files (ulimit -n)")
        print(f"served {server.answered} decisions, refused {server.refused} messages", flush=True)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
