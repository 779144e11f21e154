"""Stored rollouts watched again: moments, phases and annotated pictures of them, from their recorded actions carried out again."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from coda_jax import config as settings
from coda_jax.agents.base import Outcome
from coda_jax.agents.llm.seen import Draw, Seen
from coda_jax.evaluation.failures import PHASES, phases_passed
from coda_jax.evaluation.film import film_strip, png_of
from coda_jax.loop import parts
from coda_jax.loop.likeness import carried_out_again
from coda_jax.programs import expressions
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.demonstrate import Trajectory
from coda_jax.sim.platforms import coordinates, token_index
from coda_jax.sim.render import render
from coda_jax.sim.simulator import Episode, episode_of
from coda_jax.types import TOKENS, WorldView

HEIGHT, WIDTH = 144, 192  # of a camera's picture
_COLUMNS = 1 + len(PHASES)


class Footage:
    """Watch Protocol (agents/llm/seen.py) on the native simulator, with the worlds of every other one of the run.

    samples: rays per pixel and axis of its pictures; 1 is rougher, at a third of the time. size: height and width of a camera's picture.
    """

    def __init__(
        self, config: settings.Config, catalogue: Catalogue, train: Catalogue, samples: int = 2, size: tuple[int, int] = (HEIGHT, WIDTH)
    ):
        self._config, self._catalogue, self._samples, self._size = config, catalogue, samples, size
        self._sim = parts.native_simulator(config, catalogue, parts.training_bucket(config, train))
        self._platform, self._robot = parts.platform_of(config), parts.robot_of(config)

    def __call__(self, outcomes: Sequence[Outcome]) -> list[Seen | None]:
        """The rollouts in order. One that goes otherwise than it was recorded (another backend) is told from its recorded moments, without
        pictures; None where there are none."""
        again = carried_out_again(self._sim, outcomes, parts.horizon_of(self._config))
        return [self._seen(trajectory, outcome) for trajectory, outcome in zip(again, outcomes, strict=True)]

    def _seen(self, trajectory: Trajectory | None, outcome: Outcome) -> Seen | None:
        if trajectory is not None:
            joints = trajectory.qpos[:, : self._robot.dof]
            return self._of(trajectory.episode, trajectory.views, trajectory.predicates, joints, self._draw(trajectory))
        if outcome.recorded is None or not outcome.steps:
            return None
        spec, views = outcome.trial.spec, outcome.recorded.views
        episode = episode_of(spec, parts.horizon_of(self._config)(spec), outcome.trial.key)
        return self._of(episode, views, self._values(episode, views)[1:], np.zeros((outcome.steps, 0)), None)

    def _of(self, episode: Episode, views: WorldView, predicates: np.ndarray, joints: np.ndarray, draw: Draw | None) -> Seen:
        names = [""] * TOKENS
        for name, token in token_index(episode.spec, self._catalogue).items():
            if token < TOKENS:  # what follows are regions
                names[token] = name
        phases = {name: predicates[:, 1 + i] for i, name in enumerate(PHASES)}
        return Seen(tuple(names), views, predicates[:, 0], phases, phases_passed(predicates[:, :_COLUMNS]), joints, draw)

    def _values(self, episode: Episode, views: WorldView) -> np.ndarray:
        """Predicates [t + 1, p] of recorded moments, as many at once as there are worlds: the executable of every step."""
        batch, worlds, rows = self._sim.compile([episode]), self._sim.worlds, len(views.ee_pos)
        found = []
        for first in range(0, rows, worlds):
            taken = np.minimum(np.arange(first, first + worlds), rows - 1)
            some = jax.tree.map(lambda leaf, taken=taken: np.asarray(leaf)[taken], views)
            found.append(np.asarray(expressions.evaluate(batch.table, some)))
        return np.concatenate(found)[:rows]

    def _draw(self, trajectory: Trajectory) -> Draw:
        spec, sim = trajectory.episode.spec, self._sim

        def draw(frames: Sequence[tuple[int, str]]) -> list[bytes]:
            scene = self._platform.drawable(spec, self._catalogue, sim.bucket, self._robot)
            qpos = coordinates(scene, trajectory.qpos[[step - 1 for step, _ in frames]])
            height, width = self._size
            chosen = {"height": height, "width": width, "samples": self._samples, "threads": self._config.sim.threads}
            seen = [render(scene.model, qpos, camera, **chosen) for camera in self._platform.cameras.both]
            return [
                png_of(film_strip(frame[None], [words]), small=True)
                for frame, (_, words) in zip(np.concatenate(seen, axis=2), frames, strict=True)
            ]

        return draw
