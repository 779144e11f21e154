"""LIBERO's scenes behind the Simulator Protocol: worlds of any tasks mixed, one MuJoCo batch for each structure among them."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

import jax
import numpy as np

from coda_jax.programs import expressions
from coda_jax.scenes.libero import tasks
from coda_jax.sim import recording
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import SceneError
from coda_jax.sim.libero import scene_model
from coda_jax.sim.libero.control import SUBSTEPS, USERDATA
from coda_jax.sim.libero.scene_model import SceneModel
from coda_jax.sim.libero.view import Reader
from coda_jax.sim.libero.worlds import STATE_FIELDS, Worlds
from coda_jax.sim.simulator import Episode, SceneBatch
from coda_jax.types import ACTION_DIM, HEALTH_NAN, Array, ChunkTrace, SimState, WorldView

BUCKET = Bucket(7, 40, True)  # seven free things, forty boxes in a bowl: every scene of LIBERO counts as this one
NO_COMMAND = np.array([0.0, 0, 0, 0, 0, 0, -1])  # what the official evaluation sends while things come to rest; it opens the gripper
WIDTHS = {"qpos": 58, "qvel": 51, "qacc_warmstart": 51, "ctrl": 9, "time": 1, "userdata": USERDATA}  # of the largest structure


def _with_rows(leaf: np.ndarray, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    leaf = leaf.copy()
    leaf[rows] = values
    return leaf


class _Group:
    """The worlds of one structure: a batch, and which world stands in which place of it."""

    def __init__(self, scenes: Mapping[int, SceneModel], threads: int, callback: bool | None):
        self.rows = np.array(sorted(scenes), np.int64)
        self._place = np.full(max(scenes) + 1, -1)  # of a world number in the batch
        self._place[self.rows] = np.arange(len(self.rows))
        self.scenes = [scenes[r] for r in self.rows]
        self.worlds = Worlds([s.task for s in self.scenes], threads, callback)
        self.fit(scenes)

    def fits(self, scenes: Mapping[int, SceneModel]) -> bool:
        return sorted(scenes) == list(self.rows)

    def fit(self, scenes: Mapping[int, SceneModel]) -> None:
        """Take up the scenes of the same rows."""
        self.scenes = [scenes[r] for r in self.rows]
        self.worlds.set_tasks([s.task for s in self.scenes], [s.model for s in self.scenes])

    def places(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places in the batch of those of ``rows`` (world numbers) that are here, and these rows."""
        places = self._place[rows[rows < len(self._place)]]
        places = np.sort(places[places >= 0])
        return places, self.rows[places]


class LiberoSimulator:
    """Simulator Protocol at 20 Hz: 25 physics steps of 2 ms in every control step.

    A reset puts a scene at its start and runs the official evaluation's ten steps without a command; they count for nothing.
    Coordinates in SimState and ChunkTrace are padded to those of the largest structure.

    Args:
      worlds: W. threads: 0 uses every core. callback: see Worlds. few: scenes with few primitives (surrogates/model.py).
      mjx: these, and policy steps on the device (surrogates/mjx_worlds.py).
    """

    def __init__(self, worlds: int, threads: int = 0, callback: bool | None = None, few: bool = False, mjx: bool = False):
        self.worlds, self.bucket = worlds, BUCKET
        self.physics_steps = 0  # counted over the life of the simulator, worlds times substeps
        self._threads, self._callback, self._few = threads, callback, few or mjx
        self._mjx, self._device = mjx, None
        self._groups: list[_Group] = []
        self._reader: Reader | None = None
        self._loaded: tuple[SceneModel, ...] = ()
        self._scenes: OrderedDict[str, SceneModel] = OrderedDict()
        self._settled: OrderedDict[str, tuple[dict[str, np.ndarray], WorldView, int]] = OrderedDict()
        self._evaluated: tuple[expressions.Table, WorldView, np.ndarray] | None = None

    def compile(self, episodes: Sequence[Episode]) -> SceneBatch:
        """See the Protocol; raises InputError beside, as ``scene_model.build``."""
        if not 1 <= len(episodes) <= self.worlds:
            raise SceneError(f"{len(episodes)} episodes for {self.worlds} worlds: give 1 to {self.worlds}")
        full = [*episodes, *[episodes[0]] * (self.worlds - len(episodes))]
        scenes = tuple(self._scene(e) for e in full)
        return SceneBatch(
            bucket=self.bucket,
            episodes=(*episodes, *[None] * (self.worlds - len(episodes))),
            models=scenes,
            table=jax.device_put(_tables(full, scenes)),
            horizon=np.array([e.horizon for e in full], np.int32),
            mask=np.arange(self.worlds) < len(episodes),
        )

    def reset(self, batch: SceneBatch) -> SimState:
        self._load(batch.models)
        physics = {name: np.zeros((self.worlds, width)) for name, width in WIDTHS.items()}
        zeros = np.zeros(self.worlds, np.int32)
        return self._place(batch, SimState(physics, self._read(zeros), zeros, zeros), np.arange(self.worlds))

    def replace(
        self, batch: SceneBatch, state: SimState, worlds: Sequence[int], episodes: Sequence[Episode]
    ) -> tuple[SceneBatch, SimState]:
        rows = np.asarray(worlds, np.int32)
        models, kept = list(batch.models), list(batch.episodes)
        for world, episode in zip(worlds, episodes, strict=True):
            models[world], kept[world] = self._scene(episode), episode
        fresh = _tables(episodes, [models[w] for w in worlds])
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
        return batch, self._place(batch, state, rows)

    def step_chunk(self, batch: SceneBatch, state: SimState, chunk: Array, record: bool = False) -> tuple[SimState, ChunkTrace]:
        self._load(batch.models)
        chunk = np.asarray(chunk, np.float64)
        b, e = chunk.shape[:2]
        if chunk.shape != (self.worlds, e, ACTION_DIM):
            raise ValueError(f"a chunk is [{self.worlds}, e, {ACTION_DIM}] here, not {list(chunk.shape)}")
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
                health[ids] |= self._advance(ids, chunk[ids, i])
                step = view.control_step.copy()
                step[ids] += 1
                view = _updated(view, self._read(step), ids)
                values = self._values(batch, view)
            predicates.append(values)
            qpos.append(self._gathered("qpos").astype(np.float32))
            views.append(view)
        terminated = batch.mask & (values[:, 0] > 0.5) & (health == 0)
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
        return SimState(self._physics(), view, state.stage, health), trace

    def _values(self, batch: SceneBatch, view: WorldView) -> np.ndarray:
        """Predicates [b, p] of a view; those of the view that was evaluated last are remembered, for chunk follows chunk."""
        if self._evaluated is None or self._evaluated[0] is not batch.table or self._evaluated[1] is not view:
            self._evaluated = batch.table, view, np.asarray(expressions.evaluate(batch.table, view))
        return self._evaluated[2]

    def _scene(self, episode: Episode) -> SceneModel:
        key = episode.spec.scene_id
        if key not in self._scenes:
            scene = scene_model.build(episode.spec, self._few)
            model = scene.model
            if model.nq > WIDTHS["qpos"] or model.nv > WIDTHS["qvel"]:
                raise SceneError(f"{scene.task.key} has {model.nq} coordinates, at most {WIDTHS['qpos']} are kept: use {tasks.FAMILIES}")
            self._scenes[key] = scene
            while len(self._scenes) > 3 * self.worlds:  # a model takes 3 MB, and milliseconds to be made again
                self._scenes.popitem(last=False)
        self._scenes.move_to_end(key)
        return self._scenes[key]

    def _load(self, scenes: tuple[SceneModel, ...]) -> None:
        """Arrange the batches for these scenes; a batch whose worlds stay is kept."""
        if self._loaded is scenes:
            return
        wanted: dict[str, dict[int, SceneModel]] = {}
        for row, scene in enumerate(scenes):
            wanted.setdefault(scene.task.structure, {})[row] = scene
        before = {g.scenes[0].task.structure: g for g in self._groups}
        self._groups = []
        for structure, members in wanted.items():
            group = before.get(structure)
            if group is not None and group.fits(members):
                if [id(s) for s in group.scenes] != [id(members[r]) for r in group.rows]:
                    group.fit(members)
            else:
                group = _Group(members, self._threads, self._callback)
            self._groups.append(group)
        if self._mjx:
            from coda_jax.sim.libero.surrogates.mjx_worlds import DeviceSteps  # imports MJX, which takes seconds

            self._device = DeviceSteps([g.worlds for g in self._groups], self.worlds)
        self._reader = Reader([(g.worlds, g.rows) for g in self._groups], [s.layout for s in scenes], np.stack([s.scale for s in scenes]))
        self._loaded = scenes

    def _gathered(self, name: str) -> np.ndarray:
        out = np.zeros((self.worlds, WIDTHS[name]))
        for group in self._groups:
            field = getattr(group.worlds.batch, name).reshape(len(group.rows), -1)
            out[group.rows, : field.shape[1]] = field
        return out

    def _physics(self) -> dict[str, np.ndarray]:
        return {name: self._gathered(name) for name in STATE_FIELDS}

    def _write(self, physics: Mapping[str, np.ndarray], rows: np.ndarray) -> None:
        for group in self._groups:
            places, members = group.places(rows)
            for name in STATE_FIELDS:
                field = getattr(group.worlds.batch, name)
                shape = (len(places), *field.shape[1:])
                field[places] = physics[name][members, : int(np.prod(field.shape[1:]))].reshape(shape)

    def _advance(self, ids: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Run one control step of the given worlds; returns their health flags."""
        flags = np.zeros(self.worlds, np.int32)
        given = np.zeros((self.worlds, ACTION_DIM))
        given[ids] = actions
        self.physics_steps += len(ids) * SUBSTEPS
        placed = {group: found for group in self._groups if len((found := group.places(ids))[0])}
        work = {group.worlds: (places, given[members]) for group, (places, members) in placed.items()}
        if self._device is None:
            found = {worlds: worlds.step_flags(own, places) for worlds, (places, own) in work.items()}
        else:
            found = self._device.step(work)
        for group, (_, members) in placed.items():
            flags[members] = found[group.worlds]
        return flags[ids]

    def _read(self, control_step: np.ndarray) -> WorldView:
        assert self._reader is not None, "compile and reset come first"
        return self._reader.read(control_step)

    def _place(self, batch: SceneBatch, state: SimState, rows: np.ndarray) -> SimState:
        """Put ``rows`` at their scenes' starts, settled; the others keep what they have."""
        ids = [batch.models[r].spec.scene_id for r in rows]
        first: dict[str, int] = {}
        for row, scene_id in zip(rows, ids, strict=True):
            if scene_id not in self._settled:
                first.setdefault(scene_id, int(row))
        if first:
            fresh = np.array(sorted(first.values()), np.int64)
            health = self._start(batch, fresh)
            for _ in range(tasks.SETTLE_STEPS):
                sound = fresh[health[fresh] == 0]
                health[sound] |= self._advance(sound, np.tile(NO_COMMAND, (len(sound), 1)))
            physics, view = self._physics(), self._read(np.zeros(self.worlds, np.int32))
            for scene_id, row in first.items():
                kept = {name: values[row].copy() for name, values in physics.items()}
                self._settled[scene_id] = kept, jax.tree.map(lambda leaf, row=row: leaf[row].copy(), view), int(health[row])
        settled = [self._settled[i] for i in ids]
        while len(self._settled) > 8 * self.worlds:
            self._settled.popitem(last=False)
        physics = {n: _with_rows(state.physics[n], rows, np.stack([s[0][n] for s in settled])) for n in WIDTHS}
        view = jax.tree.map(lambda leaf, *new: _with_rows(leaf, rows, np.stack(new)), state.view, *[s[1] for s in settled])
        self._write(physics, np.arange(self.worlds))
        zeros = np.zeros(len(rows), np.int32)
        return SimState(
            physics, view, _with_rows(state.stage, rows, zeros), _with_rows(state.health, rows, np.array([s[2] for s in settled]))
        )

    def _start(self, batch: SceneBatch, rows: np.ndarray) -> np.ndarray:
        """Put ``rows`` at their scenes' starts; returns the health flags [W]."""
        flags = np.zeros(self.worlds, np.int32)
        for group in self._groups:
            places, members = group.places(rows)
            if len(places):
                stopped = group.worlds.place(np.stack([batch.models[r].start for r in members]), places)
                flags[group.rows[stopped]] = HEALTH_NAN
        return flags


def _updated(view: WorldView, fresh: WorldView, rows: np.ndarray) -> WorldView:
    """``view`` with ``rows`` of a fresh one, and the poses at its own reset; a world that stands still keeps what it showed."""
    fresh = dataclasses.replace(fresh, pos0=view.pos0, quat0=view.quat0)
    return jax.tree.map(lambda old, new: _with_rows(old, rows, new[rows]), view, fresh)


def _tables(episodes: Iterable[Episode], scenes: Iterable[SceneModel]) -> expressions.Table:
    return expressions.stack([expressions.encode(e.predicates, s.layout.index) for e, s in zip(episodes, scenes, strict=True)])
