"""What the cameras see of running worlds: a simulator that remembers their states, and renders them when somebody looks."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.cameras import OBSERVED, Camera
from coda_jax.sim.compile import CompiledScene, compile_scene
from coda_jax.sim.frames import Frames
from coda_jax.sim.mjx_state import native_qpos
from coda_jax.sim.robot import Robot
from coda_jax.sim.simulator import Episode, SceneBatch, Simulator
from coda_jax.sim.watching import Watching
from coda_jax.types import Array, ChunkTrace, SimState


class Renderer(Protocol):
    """Draws stored states."""

    def __call__(self, scenes: Sequence[CompiledScene], qpos: np.ndarray, camera: Camera, height: int, width: int) -> np.ndarray:
        """[n, height, width, 3] uint8 of the states ``qpos`` [n, q] of ``scenes`` [n], all of one bucket."""
        ...


@dataclasses.dataclass(frozen=True)
class Batched:
    """Renderer by ``frames`` (raycast.frames or warp_render.frames), of ``states`` together: any number of them needs one executable a
    camera."""

    frames: Callable[..., Frames]
    states: int

    def __call__(self, scenes: Sequence[CompiledScene], qpos: np.ndarray, camera: Camera, height: int, width: int) -> np.ndarray:
        out = np.empty((len(qpos), height, width, 3), np.uint8)
        for first in range(0, len(qpos), self.states):
            part = slice(first, first + self.states)
            missing = self.states - len(qpos[part])
            models = [s.model for s in scenes[part]] + [scenes[first].model] * missing
            padded = np.concatenate([qpos[part], np.repeat(qpos[first : first + 1], missing, axis=0)])
            out[part] = self.frames(models, padded, camera, height=height, width=width).rgb[: self.states - missing]
        return out


def observed(renderer: Renderer, scenes: Sequence[CompiledScene], qpos: np.ndarray, height: int, width: int) -> np.ndarray:
    """What a policy of pictures sees of states [n, q]: [n, cameras, height, width, 3] uint8."""
    return np.stack([renderer(scenes, qpos, camera, height, width) for camera in OBSERVED], axis=1)


class Eyes(Watching):
    """A Simulator around ``sim`` whose worlds can be looked at, as they stand between two chunks.

    seconds: spent on rendering so far. frames: drawn so far.
    """

    def __init__(self, sim: Simulator, catalogue: Catalogue, robot: Robot, renderer: Renderer, height: int, width: int):
        super().__init__(sim)
        self._catalogue, self._robot, self._renderer = catalogue, robot, renderer
        self.seconds, self.frames = 0.0, 0
        self._size = height, width
        self._scenes: list[CompiledScene | None] = [None] * sim.worlds
        self._state: SimState | None = None
        self._mask = np.zeros(sim.worlds, bool)

    @property
    def physics_steps(self) -> int:
        """As far as ``sim`` counts them."""
        return getattr(self._sim, "physics_steps", 0)

    def compile(self, episodes: Sequence[Episode]) -> SceneBatch:
        batch = super().compile(episodes)
        self._look_at(batch, range(len(episodes)), episodes)
        return batch

    def replace(
        self, batch: SceneBatch, state: SimState, worlds: Sequence[int], episodes: Sequence[Episode]
    ) -> tuple[SceneBatch, SimState]:
        batch, self._state = super().replace(batch, state, worlds, episodes)
        self._look_at(batch, worlds, episodes)
        return batch, self._state

    def reset(self, batch: SceneBatch) -> SimState:
        self._state = super().reset(batch)
        return self._state

    def step_chunk(self, batch: SceneBatch, state: SimState, chunk: Array, record: bool = False) -> tuple[SimState, ChunkTrace]:
        self._mask = np.array(batch.mask)
        self._state, trace = super().step_chunk(batch, state, chunk, record)
        return self._state, trace

    def look(self) -> np.ndarray:
        """Pictures [W, cameras, height, width, 3] uint8 of the worlds' present states; black where nobody acts any more."""
        began = time.perf_counter()
        pixels = np.zeros((self.worlds, len(OBSERVED), *self._size, 3), np.uint8)
        shown = np.flatnonzero(self._mask).tolist()
        if shown:
            scenes = [scene for w in shown if (scene := self._scenes[w]) is not None]
            pixels[shown] = observed(self._renderer, scenes, self._coordinates()[shown], *self._size)
            self.frames += len(shown) * len(OBSERVED)
        self.seconds += time.perf_counter() - began
        return pixels

    def _coordinates(self) -> np.ndarray:
        assert self._state is not None
        physics = self._state.physics
        if isinstance(physics, dict):
            return physics["qpos"]
        return native_qpos(self.bucket.articulated, np.asarray(physics.qpos))

    def _note(self, worlds: Sequence[int], episodes: Sequence[Episode]) -> None:
        """Nothing: what there is to see comes with the batch."""

    def _look_at(self, batch: SceneBatch, worlds: Sequence[int], episodes: Sequence[Episode]) -> None:
        """Remember who begins: the native backend's own models; others simulate stand-ins, which are not what is drawn."""
        self._mask = np.array(batch.mask)
        if isinstance(batch.models, tuple):
            self._scenes = list(batch.models)
            return
        for world, episode in zip(worlds, episodes, strict=True):
            self._scenes[world] = compile_scene(episode.spec, self._catalogue, self.bucket, self._robot)
