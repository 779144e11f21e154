"""Suites as environments of gymnasium, one world or many: ``pip install '.[gym]'``; docs/doors.md.

``gymnasium.make("coda_jax.doors.gym:coda_jax/Suite-v0", family="pick_place", suite="id")`` makes one,
``gymnasium.make_vec(..., num_envs=8)`` a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coda_jax import config as settings
from coda_jax.doors.functions import Outcome, State, Worlds, suite_scenes
from coda_jax.evaluation.wording import counted
from coda_jax.learning.encoders.minilm import TEXT_DIM
from coda_jax.sim.recording import FIELD_SHAPES
from coda_jax.types import ACTION_DIM, EPISODE_FIELDS, STEP_FIELDS, TOKENS, Observation

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise ImportError("gymnasium is not installed: pip install '.[gym]'") from error

ID = "coda_jax/Suite-v0"
_METADATA: dict[str, Any] = {"render_modes": []}
_SHAPES: dict[str, tuple[int, ...]] = {name: FIELD_SHAPES[name] for name in (*STEP_FIELDS, *EPISODE_FIELDS) if name != "present"}
_SHAPES |= {"text": (TOKENS, TEXT_DIM), "instruction": (TEXT_DIM,)}


def observation_space() -> spaces.Dict:
    """Of one world: the fields of types.py: Observation, base frame, SI units, float32; ``present`` is int8, 1 for a real object."""
    boxes = {name: spaces.Box(-np.inf, np.inf, shape, np.float32) for name, shape in _SHAPES.items()}
    return spaces.Dict({**boxes, "present": spaces.MultiBinary(TOKENS)})


def action_space() -> spaces.Box:
    """Of one world: 7 numbers in [-1, 1], LIBERO's convention (docs/simulation.md)."""
    return spaces.Box(-1.0, 1.0, (ACTION_DIM,), np.float32)


def one_action(action: Any, space: gymnasium.Space[Any]) -> np.ndarray:
    """The action as an array of the space's shape; chunks are for doors/functions.py.

    Raises:
      ValueError: of another shape.
    """
    found = np.asarray(action, np.float32)
    if found.shape != space.shape:
        raise ValueError(f"the action has shape {found.shape}; one control step takes {space.shape}: step a chunk one action at a time")
    return found


def _arrays(obs: Observation) -> dict[str, np.ndarray]:
    """Fresh arrays [b, ...] of an observation, which the caller may keep."""
    found = {name: np.array(getattr(obs, name), np.float32) for name in _SHAPES}
    return found | {"present": np.array(obs.present, np.int8)}


class SuiteVectorEnv(VectorEnv):
    """``num_envs`` worlds of the scenes of a suite; every episode begins in a scene drawn by its world's own generator.

    reset(seed=s) seeds world i with s + i (or with s[i] of a sequence); without a seed the generators go on. options: ``scenes``,
    [num_envs] numbers of the scenes to begin in (read for the worlds that are reset); ``reset_mask``, [num_envs] bool.
    Rewards are 1 at success, which terminates; a horizon that ran out, or a simulation that failed (info ``health``), truncates.
    infos: ``scene`` and ``instruction`` of worlds that begin; ``success`` and ``health`` of worlds that acted; each with its mask
    ``_name``; in autoreset mode SAME_STEP also ``final_obs`` and ``final_info``.

    Args:
      config: of the project, its defaults where None (``sim``, ``horizon``, ``robot`` are read).

    Raises:
      SuiteError: there is no such suite.
    """

    metadata: dict[str, Any] = _METADATA | {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        num_envs: int = 1,
        family: str = "pick_place",
        suite: str = "id",
        split: str = "validation",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        config: settings.Config | None = None,
        render_mode: str | None = None,
    ):
        if render_mode is not None:
            raise ValueError(f"render_mode is {render_mode!r}; these environments draw nothing: leave it out")
        self.num_envs, self.render_mode = num_envs, None
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = self.metadata | {"autoreset_mode": self.autoreset_mode}
        self.scenes = suite_scenes(family, suite, split)
        self.single_observation_space, self.single_action_space = observation_space(), action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._worlds = Worlds(self.scenes, num_envs, config)
        self.metadata = self.metadata | {"render_fps": self._worlds.control_hz}
        self._state: State | None = None
        self._drawn = np.zeros(num_envs, np.int64)
        self._seed_all(None)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        options = options or {}
        if unknown := options.keys() - {"scenes", "reset_mask"}:
            raise ValueError(f"options has {sorted(unknown)}; there are: scenes, reset_mask")
        mask = self._mask(options.get("reset_mask"))
        self._seed_all(seed)
        scenes = options.get("scenes")
        if scenes is not None:
            scenes = np.asarray(scenes)
            if scenes.shape != (self.num_envs,) or scenes.dtype.kind not in "iu" or not ((scenes >= 0) & (scenes < len(self.scenes))).all():
                raise ValueError(f"options['scenes'] must be {self.num_envs} numbers from 0 to {len(self.scenes) - 1}; got {scenes}")
        return _arrays(self._begin(mask, scenes)), self._infos_of_scenes(mask)

    def step(self, actions: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self._state is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        ended = self._state.ended
        if self.autoreset_mode == AutoresetMode.DISABLED and ended.any():
            raise gymnasium.error.ResetNeeded(
                f"worlds {np.flatnonzero(ended).tolist()} have ended: reset them with options={{'reset_mask': ...}} before the next step"
            )
        self._state, obs, outcome = self._worlds.step(self._state, one_action(actions, self.action_space))
        now, same_step = self._state.ended, self.autoreset_mode == AutoresetMode.SAME_STEP
        infos = self._infos_of_steps(outcome, ~ended & ~now if same_step else ~ended)
        if self.autoreset_mode == AutoresetMode.NEXT_STEP and ended.any():
            obs = self._begin(ended, None)
            infos |= self._infos_of_scenes(ended)
        if same_step and now.any():
            infos |= {"final_obs": self._each(_arrays(obs), now), "_final_obs": now.copy()}
            infos |= {"final_info": self._infos_of_steps(outcome, now), "_final_info": now.copy()}
            obs = self._begin(now, None)
            infos |= self._infos_of_scenes(now)
        return _arrays(obs), outcome.reward.astype(np.float64), outcome.terminated.copy(), outcome.truncated.copy(), infos

    def _mask(self, mask: Any) -> np.ndarray:
        if mask is None:
            return np.ones(self.num_envs, bool)
        if not isinstance(mask, np.ndarray) or mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
            raise ValueError(f"options['reset_mask'] must be a bool array of shape ({self.num_envs},) with a True in it; got {mask!r}")
        if self._state is None and not mask.all():
            raise gymnasium.error.ResetNeeded("the first reset is of all worlds: leave reset_mask out")
        return mask

    def _seed_all(self, seed: int | Sequence[int | None] | None) -> None:
        """Give the worlds their generators; those without a seed keep theirs."""
        if seed is None and hasattr(self, "_generators"):
            return
        seeds = [None if seed is None else seed + i for i in range(self.num_envs)] if seed is None or isinstance(seed, int) else list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"{counted(len(seeds), 'seed')} for {counted(self.num_envs, 'world')}: give one number, or one for each world")
        old = getattr(self, "_generators", [None] * self.num_envs)
        pairs = zip(old, seeds, strict=True)
        self._generators = [np.random.default_rng(s) if s is not None or g is None else g for g, s in pairs]

    def _begin(self, mask: np.ndarray, scenes: np.ndarray | None) -> Observation:
        """The worlds of ``mask`` at the start of new episodes."""
        for world in np.flatnonzero(mask):
            self._drawn[world] = self._generators[world].integers(len(self.scenes)) if scenes is None else scenes[world]
        chosen = [self.scenes[self._drawn[world]] for world in np.flatnonzero(mask)]
        if self._state is None:
            self._state, obs = self._worlds.place(chosen)
        else:
            self._state, obs = self._worlds.restart(self._state, mask, chosen)
        return obs

    def _infos_of_scenes(self, mask: np.ndarray) -> dict[str, Any]:
        words = np.full(self.num_envs, None, object)
        for world in np.flatnonzero(mask):
            words[world] = self.scenes[self._drawn[world]].task.instruction
        return {
            "scene": np.where(mask, self._drawn, 0),
            "_scene": mask.copy(),
            "instruction": words,
            "_instruction": mask.copy(),
        }

    def _infos_of_steps(self, outcome: Outcome, acted: np.ndarray) -> dict[str, Any]:
        if not acted.any():
            return {}
        success, health = outcome.terminated & acted, np.where(acted, outcome.health, 0)
        return {"success": success, "_success": acted.copy(), "health": health, "_health": acted.copy()}

    def _each(self, arrays: dict[str, np.ndarray], mask: np.ndarray) -> np.ndarray:
        found = np.full(self.num_envs, None, object)
        for world in np.flatnonzero(mask):
            found[world] = {name: np.array(array[world]) for name, array in arrays.items()}
        return found


class SuiteEnv(gymnasium.Env):
    """One world of the scenes of a suite; as SuiteVectorEnv, without autoreset. options: ``scene``, the number of the one to begin in."""

    metadata: dict[str, Any] = _METADATA

    def __init__(
        self,
        family: str = "pick_place",
        suite: str = "id",
        split: str = "validation",
        config: settings.Config | None = None,
        render_mode: str | None = None,
    ):
        if render_mode is not None:
            raise ValueError(f"render_mode is {render_mode!r}; these environments draw nothing: leave it out")
        self.render_mode = None
        self.observation_space, self.action_space = observation_space(), action_space()
        self.scenes = suite_scenes(family, suite, split)
        self._worlds = Worlds(self.scenes, 1, config)
        self.metadata = self.metadata | {"render_fps": self._worlds.control_hz}
        self._state: State | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        options = options or {}
        if unknown := options.keys() - {"scene"}:
            raise ValueError(f"options has {sorted(unknown)}; there is: scene, the number of the one to begin in")
        drawn = int(options["scene"]) if "scene" in options else int(self.np_random.integers(len(self.scenes)))
        if not 0 <= drawn < len(self.scenes):
            raise ValueError(f"options['scene'] is {drawn}; it must be from 0 to {len(self.scenes) - 1}")
        spec = self.scenes[drawn]
        if self._state is None:
            self._state, obs = self._worlds.place([spec])
        else:
            self._state, obs = self._worlds.restart(self._state, np.ones(1, bool), [spec])
        return self._one(obs), {"scene": drawn, "instruction": spec.task.instruction}

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        if self._state is None or self._state.ended[0]:
            raise gymnasium.error.ResetNeeded("call reset before step: there is no episode, or it has ended")
        self._state, obs, outcome = self._worlds.step(self._state, one_action(action, self.action_space)[None])
        info = {"success": bool(outcome.terminated[0]), "health": int(outcome.health[0])}
        return self._one(obs), float(outcome.reward[0]), bool(outcome.terminated[0]), bool(outcome.truncated[0]), info

    def _one(self, obs: Observation) -> dict[str, Any]:
        return {name: np.array(array[0]) for name, array in _arrays(obs).items()}  # an array also where it is one number


gymnasium.register(ID, entry_point=f"{__name__}:SuiteEnv", vector_entry_point=f"{__name__}:SuiteVectorEnv")
