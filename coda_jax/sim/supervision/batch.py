"""Scenes under a supervisor in one simulator: every try of every scene, until each has its demonstrations or was given up."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterator, Sequence

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.demonstrate import NoiseSettings, Trajectory, demonstrate
from coda_jax.sim.planner import PlannerSettings
from coda_jax.sim.simulator import Episode, Simulator, episode_of
from coda_jax.sim.supervision.parameters import PlanParameters
from coda_jax.sim.supervision.scene_tries import SceneTries


class Tries:
    """Episodes for ``demonstrate``; more come in as the tries of a scene end. Keys are (number of the scene, number of the try).

    tries: of each scene, by its number, from ``first`` on. done: keys of those that need not run again.
    """

    def __init__(self, scenes: Sequence[SceneTries], horizon: Callable[[SceneSpec], int], first: int = 0):
        self.tries, self._horizon = dict(enumerate(scenes, first)), horizon
        self.done: set[tuple[int, int]] = set()
        most = max((len(s.parameters) for s in scenes), default=0)
        self._waiting = collections.deque((i, r) for r in range(most) for i, s in self.tries.items() if r < len(s.parameters))

    def __iter__(self) -> Iterator[Episode]:
        return self

    def __next__(self) -> Episode:
        while self._waiting:
            if (key := self._waiting.popleft()) not in self.done:
                return self.episode(key)
        raise StopIteration

    def episode(self, key: tuple[int, int]) -> Episode:
        spec = self.tries[key[0]].spec
        return episode_of(spec, self._horizon(spec), key)

    def parameters(self, episode: Episode) -> PlanParameters:
        """Of the plan of an episode."""
        scene, number = episode.key
        return self.tries[scene].parameters[number]

    def asks_for(self, trajectory: Trajectory) -> bool:
        """Whether a stored try is the one that would be made: of a number that was given out, with the same parameters."""
        scene, number = trajectory.episode.key
        return trajectory.parameters in self.tries[scene].parameters[number : number + 1]

    def ended(self, trajectory: Trajectory) -> Trajectory:
        """Note the end of a try; it comes back with the revisions that it took."""
        scene, number = trajectory.episode.key
        own = self.tries[scene]
        self._waiting.extend((scene, n) for n in own.end(number, trajectory))
        return dataclasses.replace(trajectory, revisions=own.revisions_of(number))


def supervised(
    sim: Simulator,
    catalogue: Catalogue,
    scenes: Sequence[SceneTries],
    planner: PlannerSettings,
    noise: NoiseSettings | None,
    seed: int,
    horizon: Callable[[SceneSpec], int],
) -> Iterator[Trajectory]:
    """Every try of the scenes, in the order in which they end."""
    tries = Tries(scenes, horizon)
    for trajectory in demonstrate(sim, catalogue, tries, planner, noise, seed, tries.parameters):
        yield tries.ended(trajectory)
