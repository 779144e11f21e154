"""What benchmarks of decisions share: an observation of a full batch, and the timing of deciding in it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coda_jax.types import TOKENS, Observation


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
