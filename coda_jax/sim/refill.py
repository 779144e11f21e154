"""A queue of episodes over a fixed number of worlds: who runs first, and who takes the place of an episode that ended."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable

import numpy as np

from coda_jax.sim.simulator import Episode, SceneBatch, Simulator
from coda_jax.types import SimState


class Refill:
    """Feeds one simulator. The iterable is asked again at every refill, so that it may have episodes later where it had none."""

    def __init__(self, sim: Simulator, episodes: Iterable[Episode]):
        self._sim, self._queue = sim, iter(episodes)

    def start(self) -> tuple[SceneBatch, SimState, list[Episode]] | None:
        """The first W episodes, compiled and reset, in the order of their worlds; None without any."""
        first = list(itertools.islice(self._queue, self._sim.worlds))
        if not first:
            return None
        batch = self._sim.compile(first)
        return batch, self._sim.reset(batch), first

    def replace(self, batch: SceneBatch, state: SimState, ended: np.ndarray) -> tuple[SceneBatch, SimState, list[int], list[Episode]]:
        """Put the next episodes into the worlds ``ended``; worlds that get none are masked out.

        Returns:
          batch and state, the refilled worlds and their new episodes.
        """
        worlds: list[int] = []
        jobs: list[Episode] = []
        mask = np.array(batch.mask)
        for w in ended:
            episode = next(self._queue, None)
            if episode is None:
                mask[w] = False
            else:
                worlds.append(int(w))
                jobs.append(episode)
        batch = dataclasses.replace(batch, mask=mask)
        if worlds:
            batch, state = self._sim.replace(batch, state, worlds, jobs)
        return batch, state, worlds, jobs
