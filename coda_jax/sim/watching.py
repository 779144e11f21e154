"""A simulator around another one that hears which episodes begin in its worlds."""

from __future__ import annotations

from collections.abc import Sequence

from coda_jax.sim.simulator import Episode, SceneBatch, Simulator
from coda_jax.types import Array, ChunkTrace, SimState


class Watching:
    """Passes everything on to ``sim``; what a subclass remembers of the episodes, it notes in ``_note``."""

    def __init__(self, sim: Simulator):
        self._sim = sim
        self.worlds, self.bucket = sim.worlds, sim.bucket

    def compile(self, episodes: Sequence[Episode]) -> SceneBatch:
        self._note(range(len(episodes)), episodes)
        return self._sim.compile(episodes)

    def replace(
        self, batch: SceneBatch, state: SimState, worlds: Sequence[int], episodes: Sequence[Episode]
    ) -> tuple[SceneBatch, SimState]:
        self._note(worlds, episodes)
        return self._sim.replace(batch, state, worlds, episodes)

    def reset(self, batch: SceneBatch) -> SimState:
        return self._sim.reset(batch)

    def step_chunk(self, batch: SceneBatch, state: SimState, chunk: Array, record: bool = False) -> tuple[SimState, ChunkTrace]:
        return self._sim.step_chunk(batch, state, chunk, record)

    def _note(self, worlds: Sequence[int], episodes: Sequence[Episode]) -> None:
        """Episodes begin in ``worlds``, before anything else is done with them."""
        raise NotImplementedError
