"""One measurement of one backend: worlds that step under a hand that moves at random."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.simulator import Episode, SceneBatch
from coda_jax.types import ACTION_DIM, CONTROL_HZ, SUBSTEPS

_CHUNK = 1  # control steps of a call: the wide batches of a CPU take a minute for each


def simulator(backend: str, bucket: Bucket, worlds: int, catalogue: Catalogue) -> Any:
    """ "native", on one thread, or "mjx"."""
    if backend == "native":
        from coda_jax.sim.native import NativeSimulator

        return NativeSimulator(catalogue, bucket, worlds, threads=1)
    from coda_jax.sim.mjx import MjxSimulator

    return MjxSimulator(catalogue, bucket, worlds, _CHUNK)


def measure(sim: Any, episodes: Sequence[Episode], seconds: float) -> dict[str, Any]:
    """Rates of ``worlds`` worlds of the episodes, repeated to fill them.

    Returns:
      control_steps_s: of all worlds, a second of wall time. cpu: simulated seconds a CPU-second. compile_s: of the executable. build_s:
      of the scenes.
    """
    import jax

    filled = [episodes[i % len(episodes)] for i in range(sim.worlds)]
    start = time.perf_counter()
    batch = sim.compile(filled)
    build_s = time.perf_counter() - start
    built: list[Any] = []
    if hasattr(sim, "build"):
        sim.build(filled[0], built.append)
    state = sim.reset(batch)
    rng = np.random.default_rng(0)
    state = _step(sim, batch, state, rng)
    jax.block_until_ready(state)
    steps, cpu, start = 0, time.process_time(), time.perf_counter()
    while not steps or time.perf_counter() - start < seconds:
        state = _step(sim, batch, state, rng)
        jax.block_until_ready(state.view.pos)
        steps += _CHUNK
    cpu, wall = time.process_time() - cpu, time.perf_counter() - start
    flagged = int((np.asarray(state.health) != 0).sum())
    return {
        "control_steps_s": steps * sim.worlds / wall,
        "physics_steps_s": steps * sim.worlds * SUBSTEPS / wall,
        "cpu": steps * sim.worlds / CONTROL_HZ / cpu,
        "compile_s": sum(b.lower_s + b.compile_s for b in built),
        "build_s": build_s,
        "flagged": flagged,
    }


def _step(sim: Any, batch: SceneBatch, state: Any, rng: np.random.Generator) -> Any:
    chunk = rng.uniform(-0.3, 0.3, (sim.worlds, _CHUNK, ACTION_DIM)).astype(np.float32)
    return sim.step_chunk(batch, state, chunk)[0]
