"""What asking a critic costs a decision: ``python -m benchmarks.acting [--worlds=64] [--repeats=50]``.

The plain policy's sample is the peer, in the same process. Times are CPU and wall milliseconds of one decision of all worlds, compiling
apart. Parameters are random: no time depends on them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.learning.actor import Actor, act
from coda_jax.learning.critic.batch import ProgramInput
from coda_jax.loop import improvement, parts
from coda_jax.programs.training.limits import CODE_DIM
from coda_jax.types import TOKENS, Observation

_WORLDS = flags.DEFINE_integer("worlds", 64, "Worlds that decide together.", lower_bound=1)
_REPEATS = flags.DEFINE_integer("repeats", 50, "Decisions timed.", lower_bound=1)
_WIDTH = flags.DEFINE_integer("width", 64, "Of the critic.", lower_bound=8)
_LAYERS = flags.DEFINE_integer("layers", 4, "Of the critic.", lower_bound=1)
_CANDIDATES = flags.DEFINE_list("candidates", ["4", "8"], "Candidates to choose among.")


def observation(worlds: int, text_dim: int) -> Observation:
    """Some observation of scenes in which every token is present."""
    rng = np.random.default_rng(0)
    unit = np.array([1.0, 0.0, 0.0, 0.0])
    fields: dict[str, Any] = {
        "ee_pos": rng.uniform(0.3, 0.6, (worlds, 3)),
        "ee_quat": np.tile(unit, (worlds, 1)),
        "gripper_opening": np.full(worlds, 0.08),
        "pos": rng.uniform(-0.3, 0.6, (worlds, TOKENS, 3)),
        "quat": np.tile(unit, (worlds, TOKENS, 1)),
        "linvel": np.zeros((worlds, TOKENS, 3)),
        "angvel": np.zeros((worlds, TOKENS, 3)),
        "half_extent": np.full((worlds, TOKENS, 3), 0.03),
        "articulation": np.zeros((worlds, TOKENS)),
        "articulation_range": np.zeros((worlds, TOKENS, 2)),
        "text": rng.normal(size=(worlds, TOKENS, text_dim)),
        "instruction": rng.normal(size=(worlds, text_dim)),
    }
    arrays = {name: jnp.asarray(value, jnp.float32) for name, value in fields.items()}
    return Observation(**arrays, present=jnp.ones((worlds, TOKENS), bool))


def timed(decide: Callable[[], Any], repeats: int) -> tuple[float, float, float]:
    """Compile time in s, CPU and wall time of a decision in ms."""
    begun = time.perf_counter()
    jax.block_until_ready(decide())
    compiled = time.perf_counter() - begun
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        jax.block_until_ready(decide())
    return compiled, 1e3 * (time.process_time() - cpu) / repeats, 1e3 * (time.perf_counter() - wall) / repeats


def main(_: list[str]) -> None:
    config = settings.default()
    policy = parts.policy_of(config)
    config.critic.update({"width": _WIDTH.value, "layers": _LAYERS.value})
    critic = improvement.critic_of(config)
    worlds, repeats = _WORLDS.value, _REPEATS.value
    obs, keys = observation(worlds, policy.text_dim), jax.random.split(jax.random.key(0), worlds)
    params = policy.init(jax.random.key(1))
    critic_params = critic.init(jax.random.key(2), params)
    program = ProgramInput(jnp.zeros(worlds, jnp.int32), jnp.zeros(worlds), jnp.zeros((worlds, CODE_DIM)))
    rows = [("policy, one sample", timed(lambda: policy.sample(params, obs, keys, 1), repeats))]
    for j in map(int, _CANDIDATES.value):
        rows.append((f"policy, {j} samples", timed(lambda j=j: policy.sample(params, obs, keys, j), repeats)))
        for mode in ("sample", "argmax", "average"):
            actor = Actor(mode=mode, candidates=j, temperature=0.5, temperature_unit="std", least_sd=0.02)
            decide = lambda actor=actor: act(actor, policy, params, critic, critic_params, obs, program, keys)  # noqa: E731
            rows.append((f"{mode} of {j}", timed(decide, repeats)))
    device = jax.devices()[0]
    print(f"{worlds} worlds, policy width {policy.width}, critic width {critic.width} with {critic.layers} layers; ", end="")
    print(f"{device.platform} ({device.device_kind}), jax {jax.__version__}, Python {sys.version.split()[0]}\n")
    print("| a decision of all worlds | compile, s | CPU, ms | wall, ms |\n|---|---|---|---|")
    for name, (compiled, cpu, wall) in rows:
        print(f"| {name} | {compiled:.1f} | {cpu:.1f} | {wall:.1f} |")


if __name__ == "__main__":
    runtime.setup()
    app.run(main)
