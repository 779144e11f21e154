"""The staged potential from raw values: Phi(s) = completed subgoals + progress inside the current one (METHOD section 2).

Array functions of numpy and jax alike, over any leading axes. Padding stages have done = progress = 0.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from coda_jax.types import Array

BELOW_ONE = 1.0 - 2.0**-20  # float32 can still tell 3 + this from 4


def stage_of(done: Float[Array, "*rows m"]) -> Int[Array, "*rows"]:
    """n = max{i : p_i}, 0 where none holds: a subgoal counts while its condition or a later one holds (suffix closure), int32.

    done: 0 or 1 for p_1..p_m.
    """
    numbers = np.arange(1, done.shape[-1] + 1, dtype=np.int32)
    return ((done > 0.5) * numbers).max(-1).astype(np.int32)


def latch(stage: Int[Array, "*rows t"]) -> Int[Array, "*rows t"]:
    """z: the running maximum of n along the control steps of an episode, the last axis."""
    if isinstance(stage, jax.Array):
        return jax.lax.cummax(stage, axis=stage.ndim - 1)
    return np.maximum.accumulate(stage, -1)


def latch_rows(stage: Int[np.ndarray, " n"], episode: Int[np.ndarray, " n"], latched: Bool[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """``latch`` for episodes that lie one after the other, where ``latched``; each episode's control steps are together and in order."""
    change = np.r_[True, episode[1:] != episode[:-1]]
    shift = np.cumsum(change) * (int(stage.max(initial=0)) + 1)  # the maximum of an earlier episode never reaches into a later one
    running = np.maximum.accumulate(stage + shift) - shift
    return np.where(latched, running, stage).astype(np.int32)


def current_progress(stage: Int[Array, "*rows"], progress: Float[Array, "*rows m"]) -> Float[Array, "*rows"]:
    """g_{n+1} in [0, 1): progress toward the next subgoal, 0 after the last."""
    xp: Any = jnp if isinstance(progress, jax.Array) or isinstance(stage, jax.Array) else np
    most = progress.shape[-1]
    chosen = xp.take_along_axis(progress, xp.minimum(stage, most - 1)[..., None], -1)[..., 0]
    return xp.where(stage < most, xp.clip(chosen, 0.0, BELOW_ONE), 0.0).astype(progress.dtype)


def potential(stage: Int[Array, "*rows"], progress: Float[Array, "*rows m"]) -> Float[Array, "*rows"]:
    """Phi = n + g_{n+1}, m at n = m; in [0, m]. ``stage``: n, or z where the program is latched."""
    return stage.astype(progress.dtype) + current_progress(stage, progress)
