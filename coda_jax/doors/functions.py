"""Worlds as plain functions: ``reset(scenes, key) -> state, obs`` and ``step(state, action) -> state, outcome``; docs/doors.md.

A state is a value: it may be kept and stepped again, with the same result.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from coda_jax import config as settings
from coda_jax.evaluation.wording import counted
from coda_jax.evaluation.words import Words
from coda_jax.loop import parts
from coda_jax.scenes import suites
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim import platforms
from coda_jax.sim.compile import SceneError
from coda_jax.sim.mjx_state import native_qpos
from coda_jax.sim.observe import observe
from coda_jax.sim.panda import PANDA
from coda_jax.sim.simulator import Episode, SceneBatch, episode_of
from coda_jax.types import ACTION_DIM, Array, Observation, SimState

_MOST_QUOTED = 60  # characters of a caller's value in a message


@dataclasses.dataclass(frozen=True)
class State:
    """``b`` worlds between actions. ended: [b] bool, nothing moves there until ``restart``."""

    batch: SceneBatch
    simulated: SimState
    words: Words
    ended: np.ndarray

    @property
    def scenes(self) -> tuple[SceneSpec, ...]:
        """The scene of each world."""
        return tuple(e.spec for e in self.batch.episodes if e is not None)

    @property
    def models(self) -> list[mujoco.MjModel]:
        """MuJoCo's model of each world's scene, all of one layout, with the catalogue's own shapes."""
        if isinstance(self.batch.models, tuple):
            return [scene.model for scene in self.batch.models]
        catalogue = Catalogue.all()  # MJX simulates stand-ins
        return [platforms.of(spec).drawable(spec, catalogue, self.batch.bucket, PANDA).model for spec in self.scenes]

    @property
    def qpos(self) -> np.ndarray:
        """Generalised coordinates of ``models`` now, [b, q]."""
        physics = self.simulated.physics
        if isinstance(physics, dict):
            return np.array(physics["qpos"])
        return native_qpos(self.batch.bucket.articulated, np.asarray(physics.qpos))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What an action led to in ``b`` worlds; all zero or False in worlds that had ended before.

    reward: [b] float32, 1 where success was reached, else 0. terminated: [b] bool, it was. truncated: [b] bool, the horizon ran out, or
    the world became unhealthy. health: [b] int32 flags of types.py. predicates: [b, p] float32, success first, then the family's phases and
    measured quantities, padded.
    """

    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    health: np.ndarray
    predicates: np.ndarray


def suite_scenes(family: str, suite: str, split: str = "validation") -> tuple[SceneSpec, ...]:
    """The frozen scenes of a suite; "test" is for a last measurement, all tuning is done on "validation".

    Raises:
      SuiteError: there is no such suite.
    """
    return suites.load(family, suite, split)


class Worlds:
    """A fixed number of worlds for scenes of one pool.

    Args:
      scenes: every scene that will be asked for; they settle platform and bucket. worlds: how many.
      config: of the project, its defaults where None; ``sim`` (backend, threads), ``horizon`` and ``robot`` are read.

    Raises:
      SceneError: a scene fits no bucket, or none that the backend has.
    """

    def __init__(self, scenes: Sequence[SceneSpec], worlds: int, config: settings.Config | None = None):
        if not scenes:
            raise ValueError("no scenes: give at least one, e.g. suite_scenes('pick_place', 'id')")
        if worlds < 1:
            raise ValueError(f"worlds is {worlds}; it must be at least 1")
        own: settings.Config = settings.default() if config is None else config.copy_and_resolve_references()
        own.sim.worlds = own.sim.mjx_worlds = worlds
        own.evaluate.executed = 1
        own.family = ",".join(dict.fromkeys(spec.task.family for spec in scenes))
        self.worlds, self.catalogue = worlds, Catalogue.all()
        self._platform = platforms.of(scenes[0])
        self.control_hz = self._platform.control_hz
        self._horizon, self._encode = parts.horizon_of(own), parts.encoder_of().encode
        self._sim = parts.simulator(own, self.catalogue, parts.common_bucket(list(scenes), self.catalogue), spread=False)

    def reset(self, scenes: Sequence[SceneSpec], key: jax.Array) -> tuple[State, Observation]:
        """Every world at the settled start of a scene, drawn from ``scenes`` by ``key``: nothing else of a start is random.

        Raises:
          ValueError: no scenes, or ``key`` is no key of jax. TypeError, SceneError: as ``place``.
        """
        if not len(scenes):
            raise ValueError("no scenes: give at least one, e.g. suite_scenes('pick_place', 'id')")
        if not isinstance(key, jax.Array) or not (jnp.issubdtype(key.dtype, jax.dtypes.prng_key) or key.shape == (2,)):
            raise ValueError(f"key is {quoted(key)}; it must be a key of jax, e.g. jax.random.key(0)")
        return self.place([scenes[i] for i in np.asarray(jax.random.randint(key, (self.worlds,), 0, len(scenes)))])

    def place(self, scenes: Sequence[SceneSpec]) -> tuple[State, Observation]:
        """World w at the settled start of ``scenes[w]``.

        Raises:
          ValueError: there is not one scene for each world. TypeError: one is no scene. SceneError: one does not fit the bucket.
        """
        if len(scenes) != self.worlds:
            raise ValueError(f"{counted(len(scenes), 'scene')} for {counted(self.worlds, 'world')}: give one for each")
        episodes = [self._episode(spec) for spec in scenes]
        batch = self._sim.compile(episodes)
        words = Words(self.worlds, self.catalogue, self._encode)
        words.put(range(self.worlds), episodes)
        state = State(batch, self._sim.reset(batch), words, np.zeros(self.worlds, bool))
        return state, self.observe(state)

    def restart(self, state: State, which: np.ndarray | Sequence[bool], scenes: Sequence[SceneSpec]) -> tuple[State, Observation]:
        """The worlds ``which`` [b] bool at the start of new scenes, one for each of them; the others stay as they are.

        Raises:
          ValueError: ``which`` is of another shape or not of bool, or there is not one scene for each. TypeError, SceneError: as ``place``.
        """
        which = np.asarray(which)
        if which.shape != (self.worlds,) or which.dtype != np.bool_:
            raise ValueError(
                f"which is {which.dtype} of shape {which.shape}; it must be bool of shape ({self.worlds},), True for each world to restart"
            )
        rows = np.flatnonzero(which).tolist()
        if len(rows) != len(scenes):
            raise ValueError(f"{counted(len(scenes), 'scene')} for {counted(len(rows), 'world')} to restart: give one for each")
        if rows:
            episodes = [self._episode(spec) for spec in scenes]
            batch, simulated = self._sim.replace(state.batch, state.simulated, rows, episodes)
            words = copy.copy(state.words)  # put replaces its arrays, it does not write into them
            words.put(rows, episodes)
            state = State(batch, simulated, words, state.ended & ~which)
        return state, self.observe(state)

    def step(self, state: State, action: Array) -> tuple[State, Observation, Outcome]:
        """One control step of 0.1 s under ``action`` [b, 7], or several under a chunk [b, e, 7]; entries are clipped to [-1, 1].

        Raises:
          ValueError: of another shape, or not finite.
        """
        action = np.asarray(action, np.float32)
        chunk = action[:, None] if action.ndim == 2 else action
        if chunk.ndim != 3 or chunk.shape[0] != self.worlds or chunk.shape[2] != ACTION_DIM or not chunk.shape[1]:
            raise ValueError(f"action has shape {action.shape}; it must be ({self.worlds}, {ACTION_DIM}), or with chunk steps between")
        if not np.isfinite(chunk).all():
            raise ValueError(f"action is not finite in worlds {np.flatnonzero(~np.isfinite(chunk).all((1, 2))).tolist()}")
        simulated, trace = self._sim.step_chunk(state.batch, state.simulated, chunk)
        health, before = np.asarray(simulated.health), state.ended
        terminated = np.asarray(trace.terminated) & ~before
        truncated = (np.asarray(trace.truncated) | (health != 0)) & ~terminated & ~before
        outcome = Outcome(
            reward=terminated.astype(np.float32),
            terminated=terminated,
            truncated=truncated,
            health=np.where(before, 0, health),
            predicates=np.where(before[:, None], 0, np.asarray(trace.predicates)[:, -1]),
        )
        state = State(state.batch, simulated, state.words, before | terminated | truncated)
        return state, self.observe(state), outcome

    def observe(self, state: State) -> Observation:
        """What a policy may see now."""
        return observe(state.simulated.view, state.words.text, state.words.instruction)

    def _episode(self, spec: SceneSpec) -> Episode:
        if not isinstance(spec, SceneSpec):
            raise TypeError(f"{quoted(spec)} is no scene: give SceneSpec, e.g. those of suite_scenes('pick_place', 'id')")
        platform, room = platforms.of(spec), self._sim.bucket
        if platform is not self._platform:
            other = f"scene {spec.scene_id} of family {spec.task.family} is simulated on another platform than these worlds"
            raise SceneError(f"{other}: make Worlds of its own for it")
        needed = platform.bucket([spec], self.catalogue)
        if needed.free > room.free or needed.geoms > room.geoms or (needed.articulated and not room.articulated):
            raise SceneError(
                f"scene {spec.scene_id} of family {spec.task.family} needs bucket {needed.name}, these worlds have {room.name}: make "
                "Worlds with all the scenes that will be asked for"
            )
        return episode_of(spec, self._horizon(spec), (0, 0))


def quoted(value: object) -> str:
    """A caller's value in a message, cut."""
    text = repr(value)
    return text if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]}..."
