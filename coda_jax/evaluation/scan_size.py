"""How much rollouts on the device (scan_rollouts.py) take, before anything is compiled."""

from __future__ import annotations

import dataclasses
import math
from typing import Protocol

from coda_jax.sim.mjx_size import Size, bytes_of
from coda_jax.sim.mjx_state import saved
from coda_jax.sim.recording import FIELD_SHAPES
from coda_jax.sim.simulator import Episode, SceneBatch
from coda_jax.types import ACTION_DIM, MOVING_FIELDS, TOKENS, Array

DECISIONS = 8  # of one call: what the host waits for at least
RING = 2  # rows of the ring, in batches of worlds
_FLAGS = ("finger_contact", "contact", "present")  # a byte each, everything else is 4


class Sized(Protocol):
    """What is read of a simulator (scan_rollouts.py: ScanSimulator)."""

    worlds: int
    chunk: int
    prefix_steps: int
    blank: Array

    def size(self, episode: Episode) -> Size: ...

    def compile(self, episodes: list[Episode]) -> SceneBatch: ...


@dataclasses.dataclass(frozen=True)
class RolloutSize:
    """Of one world. row_bytes: of an episode that runs or waits in the ring. view_bytes: of its state beside the physics.
    decision_bytes: of what one decision tells the host."""

    world: Size
    row_bytes: int
    view_bytes: int
    decision_bytes: int

    def held_bytes(self, worlds: int) -> int:
        """Of ``worlds`` worlds and the ring, between two calls."""
        return worlds * (self.world.state_bytes + self.view_bytes + (1 + RING) * self.row_bytes)

    def given_bytes(self, worlds: int) -> int:
        """Of the traces of one call."""
        return worlds * DECISIONS * self.decision_bytes

    def working_bytes(self, worlds: int) -> int:
        """About what a call takes besides."""
        return self.world.peak_bytes(worlds) - self.world.held_bytes(worlds) + worlds * self.row_bytes

    def peak_bytes(self, worlds: int) -> int:
        """About what ``worlds`` worlds take while they roll out."""
        return self.held_bytes(worlds) + self.given_bytes(worlds) + self.working_bytes(worlds)

    def line(self, worlds: int) -> str:
        held, given, working = (
            f"{n / 1e6:.0f} MB" for n in (self.held_bytes(worlds), self.given_bytes(worlds), self.working_bytes(worlds))
        )
        return f"rollouts in {worlds:,} worlds: {held} with the episodes that wait, {given} of traces, about {working} while they run"


def _field_bytes(names: tuple[str, ...]) -> int:
    return sum(math.prod(FIELD_SHAPES[name]) * (1 if name in _FLAGS else 4) for name in names)


def size_of_rollouts(sim: Sized, episode: Episode, text_dim: int, whole: int) -> RolloutSize:
    """Of rollouts in ``sim`` of episodes like ``episode``. text_dim: of an embedded word. whole: h, control steps of a policy's chunk."""
    batch, e = sim.compile([episode]), sim.chunk
    view = _field_bytes(tuple(FIELD_SHAPES)) + 4
    room = math.ceil(sim.prefix_steps / e) * e
    words, prefix = 4 * (TOKENS + 1) * text_dim, 4 * ACTION_DIM * room
    told = bytes_of((batch.models, batch.table, batch.horizon, saved(sim.blank))) // sim.worlds
    row = told + view + words + prefix + 4 * (2 + 1 + 1)  # pair, given, health
    q = sim.blank.qpos.shape[1] - int(batch.bucket.articulated)  # native coordinates
    step = 1 + 4 * (batch.table.rows.shape[1] + q + ACTION_DIM) + _field_bytes(MOVING_FIELDS)
    decision = e * step + 4 * ACTION_DIM * whole + 4 * 4 + 3  # number, executed, clipped, health; terminated, truncated, ended
    return RolloutSize(sim.size(episode), row, view + 4 * 4, decision)  # stage, health, number, decision
