"""The native backend: MuJoCo's own batch on CPU threads, one model per world, bit-identical at any thread count."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import mujoco
import mujoco.batch
import numpy as np

from coda_jax.programs import expressions
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim import control, recording
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import CompiledScene, SceneError, compile_scene
from coda_jax.sim.panda import PANDA
from coda_jax.sim.robot import Robot
from coda_jax.sim.simulator import Episode, SceneBatch
from coda_jax.sim.state import ViewBuilder
from coda_jax.types import HEALTH_NAN, HEALTH_OVERFLOW, SUBSTEPS, Array, ChunkTrace, SimState, WorldView

SETTLE_STEPS = 100  # physics steps (0.5 s) before the first decision
PHYSICS_FIELDS = ("qpos", "qvel", "qacc_warmstart", "ctrl", "time")
_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
_NAN_WARNINGS = [int(w) for w in (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC)]
_FULL_WARNINGS = [int(w) for w in (mujoco.mjtWarning.mjWARN_CONTACTFULL, mujoco.mjtWarning.mjWARN_CNSTRFULL)]

Build = Callable[[SceneSpec, Catalogue, Bucket, Robot], CompiledScene]


def _with_rows(leaf: np.ndarray, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    leaf = leaf.copy()
    leaf[rows] = values
    return leaf


def physics_steps(control_steps: int, scenes: int) -> int:
    """What a simulator of its own counts for ``control_steps`` over all worlds in so many different scenes, each settled once."""
    return control_steps * SUBSTEPS + scenes * SETTLE_STEPS


class NativeSimulator:
    """Simulator Protocol on ``mujoco.batch.Batch``.

    Args:
      catalogue: assets by id. bucket: structure of every scene. worlds: W. threads: 0 uses every core. robot: who acts in them.
      build: makes the models; another one simulates what another backend sees (mjx_model.compiled).
    """

    def __init__(
        self, catalogue: Catalogue, bucket: Bucket, worlds: int, threads: int = 0, robot: Robot = PANDA, build: Build = compile_scene
    ):
        self.catalogue, self.bucket, self.worlds, self.robot, self._build = catalogue, bucket, worlds, robot, build
        self.physics_steps = 0  # counted over the life of the simulator, worlds times substeps
        self._threads = threads
        self._batch: mujoco.batch.Batch | None = None
        self._loaded: tuple[CompiledScene, ...] = ()
        self._builder: ViewBuilder | None = None
        self._evaluated: tuple[expressions.Table, WorldView, np.ndarray] | None = None
        self._settled: dict[str, dict[str, np.ndarray]] = {}
        self._scenes: dict[str, CompiledScene] = {}

    def compile(self, episodes: Sequence[Episode]) -> SceneBatch:
        if not 1 <= len(episodes) <= self.worlds:
            raise SceneError(f"{len(episodes)} episodes for {self.worlds} worlds: give 1 to {self.worlds}")
        padding = self.worlds - len(episodes)
        full = [*episodes, *[episodes[0]] * padding]
        scenes = tuple(self._compiled(e) for e in full)
        return SceneBatch(
            bucket=self.bucket,
            episodes=(*episodes, *[None] * padding),
            models=scenes,
            table=jax.device_put(expressions.stack([expressions.encode(e.predicates, s.index) for e, s in zip(full, scenes, strict=True)])),
            horizon=np.array([e.horizon for e in full], np.int32),
            mask=np.arange(self.worlds) < len(episodes),
        )

    def reset(self, batch: SceneBatch) -> SimState:
        self._load(batch.models)
        physics = {name: np.empty((self.worlds, size)) for name, size in self._sizes().items()}
        state = SimState(physics, self._empty_view(), np.zeros(self.worlds, np.int32), np.zeros(self.worlds, np.int32))
        return self._place(batch, state, np.arange(self.worlds), start=None)

    def replace(
        self, batch: SceneBatch, state: SimState, worlds: Sequence[int], episodes: Sequence[Episode]
    ) -> tuple[SceneBatch, SimState]:
        rows = np.asarray(worlds, np.int32)
        scenes = [self._compiled(e) for e in episodes]
        models, kept = list(batch.models), list(batch.episodes)
        for world, episode, scene in zip(worlds, episodes, scenes, strict=True):
            models[world], kept[world] = scene, episode
        fresh = expressions.stack([expressions.encode(e.predicates, s.index) for e, s in zip(episodes, scenes, strict=True)])
        table = jax.tree.map(lambda leaf, new: _with_rows(np.asarray(leaf), rows, np.asarray(new)), batch.table, fresh)
        batch = dataclasses.replace(
            batch,
            episodes=tuple(kept),
            models=tuple(models),
            table=jax.device_put(table),
            horizon=_with_rows(batch.horizon, rows, np.array([e.horizon for e in episodes], np.int32)),
            mask=_with_rows(batch.mask, rows, np.ones(len(rows), bool)),
        )
        self._load(batch.models)
        return batch, self._place(batch, state, rows, start=state.view)

    def step_chunk(self, batch: SceneBatch, state: SimState, chunk: Array, record: bool = False) -> tuple[SimState, ChunkTrace]:
        self._load(batch.models)
        simulation = self._simulation()
        chunk = np.asarray(chunk, np.float64)
        b, e = chunk.shape[:2]
        self._write(state.physics, np.arange(b))
        view, health = state.view, state.health.copy()
        values = self._values(batch, view)
        active = np.zeros((b, e), bool)
        predicates, qpos, views = [], [], []
        clipped = np.zeros(b, np.int32)
        for i in range(e):
            ids = np.flatnonzero(batch.mask & (values[:, 0] < 0.5) & (health == 0) & (view.control_step < batch.horizon))
            if len(ids):
                active[ids, i] = True
                clipped[ids] += (np.abs(chunk[ids, i]) > 1.0 + 1e-6).sum(1, dtype=np.int32)
                command = control.control_ramp(self.robot, simulation.qpos[ids, : self.robot.dof], simulation.ctrl[ids], chunk[ids, i])
                health[ids] |= self._advance(ids, command)
                step = view.control_step.copy()
                step[ids] += 1
                view = self._read(step, start=view)
                values = self._values(batch, view)
            predicates.append(values)
            qpos.append(simulation.qpos.astype(np.float32))
            views.append(view)
        terminated = batch.mask & (values[:, 0] > 0.5) & (health == 0)
        state = SimState(self._physics(), view, state.stage, health)
        trace = ChunkTrace(
            active=active,
            executed=active.sum(1, dtype=np.int32),
            predicates=np.stack(predicates, 1),
            qpos=np.stack(qpos, 1),
            terminated=terminated,
            truncated=batch.mask & ~terminated & (view.control_step >= batch.horizon),
            clipped=clipped,
            moving=recording.chunk_of(views) if record else None,
        )
        return state, trace

    def _values(self, batch: SceneBatch, view: WorldView) -> np.ndarray:
        """Predicates [b, p] of a view; those of the view that was evaluated last are remembered, for chunk follows chunk."""
        if self._evaluated is None or self._evaluated[0] is not batch.table or self._evaluated[1] is not view:
            self._evaluated = batch.table, view, np.asarray(expressions.evaluate(batch.table, view))
        return self._evaluated[2]

    def _compiled(self, episode: Episode) -> CompiledScene:
        key = episode.spec.scene_id
        if key not in self._scenes:
            if len(self._scenes) >= 8 * self.worlds:  # bound the memory of long runs; a scene compiles again in a millisecond
                self._scenes.pop(next(iter(self._scenes)))
            self._scenes[key] = self._build(episode.spec, self.catalogue, self.bucket, self.robot)
            option = self._scenes[key].model.opt
            # A state that diverges is evidence: keep it, where MuJoCo would silently reset it.
            option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
            # Dense rows are summed in groups of four degrees of freedom, so that parked slots would change the last bits of the others.
            option.jacobian = mujoco.mjtJacobian.mjJAC_SPARSE
        return self._scenes[key]

    def _simulation(self) -> mujoco.batch.Batch:
        assert self._batch is not None, "compile and reset come first"
        return self._batch

    def _load(self, scenes: tuple[CompiledScene, ...]) -> None:
        if self._loaded is scenes:
            return
        if self._batch is None:
            batch = self._batch = mujoco.batch.Batch(scenes[0].model, self.worlds, nthread=self._threads)
            self._sensors, self._sites, self._orientation = batch.bind("sensordata"), batch.bind("site_xpos"), batch.bind("xquat")
            self._hand = scenes[0].model.body("hand").id
        self._simulation().set_models([s.model for s in scenes])
        self._builder = ViewBuilder(self.bucket, scenes)
        self._loaded = scenes

    def _sizes(self) -> dict[str, int]:
        model = self._loaded[0].model
        return {"qpos": model.nq, "qvel": model.nv, "qacc_warmstart": model.nv, "ctrl": model.nu, "time": 1}

    def _physics(self) -> dict[str, np.ndarray]:
        simulation = self._simulation()
        return {name: np.array(getattr(simulation, name)).reshape(self.worlds, -1) for name in PHYSICS_FIELDS}

    def _write(self, physics: Mapping[str, np.ndarray], rows: np.ndarray) -> None:
        simulation = self._simulation()
        for name in PHYSICS_FIELDS:
            field = getattr(simulation, name)
            field[rows] = physics[name][rows].reshape(len(rows), *field.shape[1:])

    def _advance(self, ids: np.ndarray, command: np.ndarray) -> np.ndarray:
        """Run one control step of the given worlds; returns their health flags."""
        simulation = self._simulation()
        before = simulation.warning[ids].copy()
        with self._without_sensors():
            simulation.rollout(SUBSTEPS, command, record=(), ids=ids)
        simulation.forward(ids, stage=mujoco.mjtStage.mjSTAGE_POS)
        self.physics_steps += len(ids) * SUBSTEPS
        raised = (simulation.warning[ids] > before).any(-1)
        flags = np.where(raised[:, _NAN_WARNINGS].any(1) | ~np.isfinite(simulation.qpos[ids]).all(1), HEALTH_NAN, 0)
        return (flags | np.where(raised[:, _FULL_WARNINGS].any(1), HEALTH_OVERFLOW, 0)).astype(np.int32)

    @contextlib.contextmanager
    def _without_sensors(self) -> Iterator[None]:
        """Inside, steps measure no contacts between bodies: nothing reads them before the forward pass that follows, and with six things
        they cost a sixth of a step."""
        options = [scene.model.opt for scene in {id(s): s for s in self._loaded}.values()]
        for option in options:
            option.disableflags |= _SENSORS
        try:
            yield
        finally:
            for option in options:
                option.disableflags &= ~_SENSORS

    def _read(self, control_step: np.ndarray, start: WorldView | None) -> WorldView:
        simulation, builder = self._simulation(), self._builder
        assert builder is not None
        return builder.build(
            simulation.qpos, simulation.qvel, self._sensors, self._sites[:, 0], self._orientation[:, self._hand], control_step, start
        )

    def _empty_view(self) -> WorldView:
        return self._read(np.zeros(self.worlds, np.int32), start=None)

    def _place(self, batch: SceneBatch, state: SimState, rows: np.ndarray, start: WorldView | None) -> SimState:
        """Put ``rows`` at their scenes' settled states, from the cache where a scene was settled before."""
        simulation = self._simulation()
        unknown = [r for r in rows if batch.models[r].spec.scene_id not in self._settled]
        first: dict[str, int] = {}
        for r in unknown:
            first.setdefault(batch.models[r].spec.scene_id, r)
        if first:
            ids = np.array(sorted(first.values()), np.int32)
            saved = {name: np.array(getattr(simulation, name)) for name in PHYSICS_FIELDS}
            simulation.qpos[ids] = np.stack([batch.models[r].qpos for r in ids])
            simulation.qvel[ids] = 0.0
            simulation.qacc_warmstart[ids] = 0.0
            simulation.ctrl[ids] = self.robot.home_command
            simulation.time[ids] = 0.0
            with self._without_sensors():
                simulation.step(ids, nstep=SETTLE_STEPS)
            self.physics_steps += len(ids) * SETTLE_STEPS
            for scene_id, r in first.items():
                self._settled[scene_id] = {name: np.array(getattr(simulation, name)[r]).reshape(-1) for name in PHYSICS_FIELDS}
            for name in PHYSICS_FIELDS:
                getattr(simulation, name)[...] = saved[name]
        physics = {
            name: _with_rows(state.physics[name], rows, np.stack([self._settled[batch.models[r].spec.scene_id][name] for r in rows]))
            for name in PHYSICS_FIELDS
        }
        while len(self._settled) > 8 * self.worlds:  # only now: the rows need all of theirs
            self._settled.pop(next(iter(self._settled)))
        self._write(physics, np.arange(self.worlds))
        simulation.forward(stage=mujoco.mjtStage.mjSTAGE_POS)
        step = state.view.control_step.copy()
        step[rows] = 0
        view = self._read(step, start)
        view = dataclasses.replace(
            view, pos0=_with_rows(view.pos0, rows, view.pos[rows]), quat0=_with_rows(view.quat0, rows, view.quat[rows])
        )
        return SimState(
            physics, view, _with_rows(state.stage, rows, np.zeros(len(rows))), _with_rows(state.health, rows, np.zeros(len(rows)))
        )
