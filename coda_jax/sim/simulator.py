"""The seam between scenes and physics: what every backend offers, and nothing that only one of them could.

``compile`` and ``replace`` take host data (SceneSpec); everything else is arrays of a fixed number of worlds, so that a new scene, a
new goal or a new predicate never needs a new executable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from coda_jax.programs.expressions import Expr, Table
from coda_jax.scenes import families
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.bucket import Bucket
from coda_jax.types import Array, ChunkTrace, SimState


@dataclasses.dataclass(frozen=True)
class Episode:
    """One job for a world: a scene, the predicates to watch (nu first) and the horizon.

    key: what randomness of the episode folds in, e.g. (scene index, repeat).
    prefix: [p, 7] actions that rollouts carry out before the policy takes over (evaluation/rollouts.py), None without.
    """

    spec: SceneSpec
    predicates: tuple[Expr, ...]
    horizon: int
    key: tuple[int, int] = (0, 0)
    prefix: np.ndarray | None = dataclasses.field(default=None, compare=False)


def episode_of(spec: SceneSpec, horizon: int, key: tuple[int, int], prefix: np.ndarray | None = None) -> Episode:
    """One job that watches nu (column 0), then the family's phase predicates in order, then the quantities behind them."""
    phases = families.phases(spec)
    measured = [margin.expression for margin in families.margins(spec)]
    return Episode(spec, (families.success(spec), *[expression for _, expression in phases], *measured), horizon, key, prefix)


@dataclasses.dataclass(frozen=True)
class SceneBatch:
    """``b`` worlds of one bucket, ready to be reset.

    models: the backend's models (native: list of MjModel; MJX: stacked leaves). table: predicate table [b, p, l].
    horizon: [b] int32 control steps. mask: [b] bool, False for padding worlds that only keep the shape.
    """

    bucket: Bucket
    episodes: tuple[Episode | None, ...]
    models: Any
    table: Table
    horizon: Array
    mask: Array


class Simulator(Protocol):
    """A batched backend with a fixed number of worlds ``W`` per executable."""

    worlds: int
    bucket: Bucket

    def compile(self, episodes: Sequence[Episode]) -> SceneBatch:
        """Build at most W episodes of one bucket; the rest of the W worlds is masked padding.

        Raises:
          SceneError: an object does not fit the bucket (too many objects, geoms, or a shape this backend cannot collide).
        """
        ...

    def replace(
        self, batch: SceneBatch, state: SimState, worlds: Sequence[int], episodes: Sequence[Episode]
    ) -> tuple[SceneBatch, SimState]:
        """Refill finished worlds with new episodes, reset and settled; the other worlds stay bit-identical."""
        ...

    def reset(self, batch: SceneBatch) -> SimState:
        """Initial state of every world after settling; the same for every repeat of a scene."""
        ...

    def step_chunk(self, batch: SceneBatch, state: SimState, chunk: Array, record: bool = False) -> tuple[SimState, ChunkTrace]:
        """Execute chunk[b, e, 7] at 10 Hz; a world stops early at nu, at its horizon, or on a health flag.

        record: keep what the views showed after each control step.

        Actions are LIBERO's: position and rotation deltas in the base frame, re-anchored to the measured pose at each control step.
        """
        ...
