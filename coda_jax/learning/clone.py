"""Cloning: train the policy on demonstrations, in blocks of steps between which progress is shown and state is saved."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from coda_jax.learning import pictures as seen_lib
from coda_jax.learning.dataset import Dataset
from coda_jax.learning.pictures import PictureTable
from coda_jax.learning.policies.flow import FlowPolicy
from coda_jax.learning.policies.grounding import LanguageSet
from coda_jax.learning.steps import Training, TrainState, init_state, set_statistics, train_steps

BLOCK = 50  # updates per call of the device
STATISTICS_ROWS = 4096


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where training stands: losses are means over the last block, rate in updates per second, left_s an estimate."""

    step: int
    steps: int
    motor_loss: float
    grounding_loss: float
    language_loss: float
    rate: float
    left_s: float


class DivergedError(RuntimeError):
    """A loss became NaN or infinite; the last saved state is the one to continue from."""


def start(policy: FlowPolicy, training: Training, data: Dataset, seed: int) -> TrainState:
    """A fresh state whose action statistics come from ``data``."""
    init_key, rows_key = jax.random.split(jax.random.fold_in(jax.random.key(seed), 0))
    rows = jax.random.randint(rows_key, (STATISTICS_ROWS,), 0, data.size)
    return init_state(policy, training, set_statistics(policy, policy.init(init_key), data, rows))


def clone(
    policy: FlowPolicy,
    training: Training,
    data: Dataset,
    language: LanguageSet | None,
    seed: int,
    state: TrainState | None = None,
    progress: Callable[[Progress], None] | None = None,
    save: Callable[[TrainState], None] | None = None,
    save_every: int = 0,
    pictures: PictureTable | None = None,
) -> TrainState:
    """Train until ``training.steps``, from a fresh state or from a saved one (then bit for bit as if never interrupted, on CPU).

    The buffers of ``state`` are consumed. ``save`` is called at every multiple of ``save_every`` steps and at the end.
    pictures: for a policy of pictures, which learns from their rows alone.

    Raises:
      DivergedError: a loss is not finite.
    """
    current = start(policy, training, data, seed) if state is None else state
    key = jax.random.fold_in(jax.random.key(seed), 1)
    first = step = int(current.step)
    began = time.monotonic()
    while step < training.steps:
        until = min(step + (seen_lib.BLOCK if pictures else BLOCK), training.steps)
        if save_every:
            until = min(until, step + save_every - step % save_every)
        seen = pictures.block(key, step, training.batch) if pictures else None
        current, losses = train_steps(policy, training, current, data, language, key, jnp.asarray(until - step, jnp.int32), seen)
        motor, words, sentences = np.asarray(losses).tolist()
        if not np.isfinite([motor, words, sentences]).all():
            raise DivergedError(
                f"losses at step {until} are {motor}, {words}, {sentences}: lower training.learning_rate ({training.learning_rate}) or "
                "look for odd demonstrations"
            )
        step = until
        if progress is not None:
            rate = (step - first) / max(time.monotonic() - began, 1e-9)
            progress(Progress(step, training.steps, motor, words, sentences, rate, (training.steps - step) / rate))
        if save is not None and (step == training.steps or (save_every and step % save_every == 0)):
            save(current)
    return current
