"""Rollouts of a policy in another process: who runs in which world, and what the server is told of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np

from coda_jax.learning.policies.messages import message_of
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.eyes import Eyes
from coda_jax.sim.observe import scene_texts
from coda_jax.sim.simulator import Episode, SceneBatch, Simulator
from coda_jax.sim.watching import Watching
from coda_jax.types import ACTION_DIM, Array, ChunkTrace, Observation, SimState

if TYPE_CHECKING:
    from coda_jax.learning.policies.remote import RemotePolicy  # which needs the packages of the extra "serve"


class Asking(Watching):
    """A simulator and its PolicyFn in one: the server is asked for the chunks of the worlds that still act; the others get zeros.

    executed: e, control steps carried out of each chunk. With a simulator that has eyes, pictures are sent in place of states.
    """

    def __init__(self, sim: Simulator, catalogue: Catalogue, policy: RemotePolicy, executed: int):
        super().__init__(sim)
        self._catalogue, self._policy, self._executed = catalogue, policy, executed
        self._texts: list[tuple[list[str], str]] = [([], "")] * sim.worlds
        self._mask = np.zeros(sim.worlds, bool)

    def compile(self, episodes: Sequence[Episode]) -> SceneBatch:
        batch = super().compile(episodes)
        self._mask = np.array(batch.mask)
        return batch

    def replace(
        self, batch: SceneBatch, state: SimState, worlds: Sequence[int], episodes: Sequence[Episode]
    ) -> tuple[SceneBatch, SimState]:
        batch, state = super().replace(batch, state, worlds, episodes)
        self._mask = np.array(batch.mask)
        return batch, state

    def step_chunk(self, batch: SceneBatch, state: SimState, chunk: Array, record: bool = False) -> tuple[SimState, ChunkTrace]:
        self._mask = np.array(batch.mask)
        return super().step_chunk(batch, state, chunk, record)

    def __call__(self, obs: Observation, keys: Array) -> np.ndarray:
        """Chunks [W, h, 7] of a decision; keys [W], from which our own servers draw the policy's noise."""
        acting = np.flatnonzero(self._mask).tolist()
        pixels = self._sim.look() if isinstance(self._sim, Eyes) else None
        seen = dataclasses.replace(jax.device_get(obs), pixels=pixels)
        numbers = np.asarray(jax.random.key_data(keys))
        found = self._policy.chunks([message_of(seen, w, *self._texts[w], numbers[w]) for w in acting], self._executed)
        chunks = np.zeros((self.worlds, found.shape[1], ACTION_DIM), np.float32)
        chunks[acting] = found
        return chunks

    def _note(self, worlds: Sequence[int], episodes: Sequence[Episode]) -> None:
        for world, episode in zip(worlds, episodes, strict=True):
            self._texts[world] = scene_texts(episode.spec, self._catalogue)
