"""What a diagnoser that watches gets of a failed rollout: its moments by name, and pictures of those it asks for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from coda_jax.agents.base import Outcome
from coda_jax.types import WorldView


class Draw(Protocol):
    def __call__(self, frames: Sequence[tuple[int, str]]) -> list[bytes]:
        """A PNG for each (control step from 1, words to be written under it), both cameras side by side."""
        ...


@dataclasses.dataclass(frozen=True)
class Seen:
    """A rollout of ``t`` control steps.

    names: [o] the scene's name of each token, "" where it is absent. views: the t + 1 moments. nu: [t] whether the task counted as done.
    phases: in order, name to values [t], the share of the goals that met it. passed: phases that are behind the rollout at its end, to the
    control step from which on. joints_rad: [t, n] of the arm, n = 0 where they were not recorded. draw: None where there are no pictures.
    """

    names: tuple[str, ...]
    views: WorldView
    nu: np.ndarray
    phases: Mapping[str, np.ndarray]
    passed: Mapping[str, int]
    joints_rad: np.ndarray
    draw: Draw | None = None

    @property
    def steps(self) -> int:
        return len(self.nu)

    def present(self) -> dict[str, int]:
        """Name to token, of what is there."""
        return {name: token for token, name in enumerate(self.names) if name}


class Watch(Protocol):
    def __call__(self, outcomes: Sequence[Outcome]) -> Sequence[Seen | None]:
        """The rollouts as they were, in order; None for one that cannot be seen again."""
        ...
