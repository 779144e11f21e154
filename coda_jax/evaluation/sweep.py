"""Many policies and temperatures in one batch of worlds: every world carries its cell, so that cells share physics and executables.

A cell is (policy, temperature) on one suite. An episode has the keys that it has when its policy is evaluated alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np

from coda_jax.evaluation.results import Result, Timings
from coda_jax.evaluation.rollouts import PolicyFn, rollout
from coda_jax.evaluation.words import EmbedFn
from coda_jax.learning.policies.base import Params
from coda_jax.learning.policies.flow import FlowPolicy
from coda_jax.learning.policies.stacked import sample_stacked, stack
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.simulator import Episode, SceneBatch, Simulator
from coda_jax.sim.watching import Watching
from coda_jax.types import Array, ChunkTrace, Observation, SimState


@dataclasses.dataclass(frozen=True)
class Cell:
    """policy: its number. temperature: of the flow's noise (policies/flow.py: sample)."""

    policy: int
    temperature: float


@dataclasses.dataclass(frozen=True)
class CellEpisode(Episode):
    """An episode that knows its cell; number of it among the sweep's cells."""

    cell: int = 0


def in_cell(episode: Episode, cell: int) -> CellEpisode:
    """The same episode in a cell: nothing that happens in it depends on the cell but who acts."""
    return CellEpisode(episode.spec, episode.predicates, episode.horizon, episode.key, episode.prefix, cell)


class Occupied(Watching):
    """A simulator that remembers which cell runs in each of its worlds: ``cells`` [W], and ``decides`` [W], worlds still running."""

    def __init__(self, sim: Simulator):
        super().__init__(sim)
        self.cells = np.zeros(sim.worlds, np.int32)
        self.decides = np.zeros(sim.worlds, bool)

    def step_chunk(self, batch: SceneBatch, state: SimState, chunk: Array, record: bool = False) -> tuple[SimState, ChunkTrace]:
        self.decides = np.array(batch.mask)
        return super().step_chunk(batch, state, chunk, record)

    def _note(self, worlds: Sequence[int], episodes: Sequence[Episode]) -> None:
        for world, episode in zip(worlds, episodes, strict=True):
            if not isinstance(episode, CellEpisode):
                raise TypeError("an episode of a sweep has no cell: make it with in_cell")
            self.cells[world], self.decides[world] = episode.cell, True


def acting_cells(
    policy: FlowPolicy,
    params: Sequence[Params],
    cells: Sequence[Cell],
    occupied: Occupied,
    block: int,
    roles: Callable[[], np.ndarray | None] = lambda: None,
) -> PolicyFn:
    """The policy function of worlds that each act by their own cell.

    block: worlds of one policy that decide together, in one executable for all policies (policies/stacked.py); their numbers agree with
    those of the policy alone up to the rounding of another order of sums. 0: each policy is asked by itself with all worlds, which is its
    executable in every other evaluation, so that a cell's results are bit for bit those of evaluating it alone.
    """
    policies = np.array([c.policy for c in cells], np.int32)
    temperatures = np.array([c.temperature for c in cells], np.float32)
    stacked = stack(params) if block else None

    def together(obs: Observation, keys: Array) -> np.ndarray:
        own = policies[occupied.cells]
        return sample_stacked(
            policy, stacked, own, occupied.decides, min(block, occupied.worlds), obs, keys, temperatures[occupied.cells], roles()
        )

    def one_by_one(obs: Observation, keys: Array) -> np.ndarray:
        own, warmth = policies[occupied.cells], temperatures[occupied.cells]
        found = None
        for number in np.unique(own[occupied.decides]):
            chunks = np.asarray(policy.sample(params[number], obs, keys, 1, roles(), warmth)[:, 0])
            found = chunks if found is None else np.where((own == number)[:, None, None], chunks, found)
        assert found is not None
        return found

    return together if block else one_by_one


def sweep_suite(
    policy: FlowPolicy,
    params: Sequence[Params],
    cells: Sequence[Cell],
    episodes: Sequence[Episode],
    sim: Simulator,
    catalogue: Catalogue,
    embed: EmbedFn,
    executed: int,
    key: jax.Array,
    block: int,
    roles: Callable[[], np.ndarray | None] = lambda: None,
    timings: Timings | None = None,
) -> Iterator[tuple[int, Result]]:
    """Roll out every episode in every cell; yield (number of the cell, result) in the order in which they end.

    Cells follow each other in the queue, so that they also end about one after the other. params: of each policy, adapters merged.
    key: of the suite's rollouts, as when one policy is evaluated.
    """
    occupied = Occupied(sim)
    queue = (in_cell(episode, number) for number in range(len(cells)) for episode in episodes)
    act = acting_cells(policy, params, cells, occupied, block, roles)
    for result in rollout(occupied, catalogue, queue, act, embed, executed, key, timings):
        assert isinstance(result.episode, CellEpisode)
        yield result.episode.cell, result
