"""Policy steps a CPU-second, one core: the native simulator, the official environment, and MuJoCo alone on the same states."""

from __future__ import annotations

import dataclasses
import statistics
import time

import mujoco
import numpy as np

from benchmarks.libero.official import Official
from coda_jax.scenes.libero import importing, tasks
from coda_jax.sim.libero.control import SUBSTEPS
from coda_jax.sim.libero.scene_model import SceneModel
from coda_jax.sim.libero.simulator import LiberoSimulator
from coda_jax.sim.simulator import Episode
from coda_jax.types import SimState

CHUNK = 5  # policy steps of a call
MOTION = 0.3  # largest random action
ROUNDS = 5


@dataclasses.dataclass(frozen=True)
class Rates:
    """CPU milliseconds of one policy step of one world: medians over ROUNDS rounds that take turns. compile_s: of all the scenes."""

    native: float
    official: float
    bare: float
    compile_s: float
    tasks: int


def _bare(scene: SceneModel, state: SimState, row: int, steps: int) -> float:
    """CPU seconds of ``steps`` times 25 mj_steps from one world's state, under the command that holds there."""
    model, data = scene.model, mujoco.MjData(scene.model)
    sensors = model.opt.disableflags
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_SENSOR
    data.qpos[:], data.qvel[:] = state.physics["qpos"][row, : model.nq], state.physics["qvel"][row, : model.nv]
    data.ctrl[:] = state.physics["ctrl"][row]
    data.qacc_warmstart[:] = state.physics["qacc_warmstart"][row, : model.nv]
    before = time.process_time()
    for _ in range(steps):
        mujoco.mj_step(model, data, SUBSTEPS)
    spent = time.process_time() - before
    model.opt.disableflags = sensors
    return spent


def measure(suite: str, worlds: int, steps: int, seed: int = 0) -> Rates:
    """One suite: its tasks by turns in ``worlds`` worlds, ``steps`` official steps in every round."""
    listed = tasks.tasks(suite)
    begun = time.perf_counter()
    specs = [importing.initial_scene(listed[i % len(listed)], i // len(listed), seed=i) for i in range(worlds)]
    sim = LiberoSimulator(worlds, threads=1)
    batch = sim.compile([Episode(s, (s.task.goal,), 10**6) for s in specs])
    compile_s = time.perf_counter() - begun
    state = sim.reset(batch)
    rng = np.random.default_rng(seed)
    official = Official(listed[0])
    scenes: tuple[SceneModel, ...] = batch.models
    official.start(scenes[0].start, scenes[0].model)
    for _ in range(tasks.SETTLE_STEPS):
        official.step(np.zeros(7))
    native, theirs, bare = [], [], []
    try:
        for r in range(ROUNDS):
            bare.append(sum(_bare(s, state, w, CHUNK) for w, s in enumerate(scenes)) / (worlds * CHUNK))
            chunk = rng.uniform(-MOTION, MOTION, (worlds, CHUNK, 7))
            before = time.process_time()
            state, trace = sim.step_chunk(batch, state, chunk)
            spent = time.process_time() - before
            native.append(spent / max(int(trace.executed.sum()), 1))
            before = time.process_time()
            for _ in range(steps):
                official.step(rng.uniform(-MOTION, MOTION, 7))
            theirs.append((time.process_time() - before) / steps)
            if r == 0:  # the predicates' executable is built in the first call
                native.clear()
    finally:
        official.close()

    def middle(seconds: list[float]) -> float:
        return 1e3 * statistics.median(seconds)

    return Rates(middle(native), middle(theirs), middle(bare), compile_s, len({s.task.key for s in scenes}))
