"""Start states (the tool ``start_states``): rollouts that begin where a phase begins, by a certified demonstration's own actions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from coda_jax.evaluation.failures import PHASES, TRUE_ABOVE
from coda_jax.programs import expressions
from coda_jax.programs.training.values import blocks, placed_table
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families import phases
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.platforms import token_index
from coda_jax.types import WorldView


@dataclasses.dataclass(frozen=True)
class Shown:
    """A certified demonstration of a scene. views: its t + 1 moments. executed: [t, 7] what was carried out, noise and all."""

    spec: SceneSpec
    views: WorldView
    executed: np.ndarray


def phase_starts(shown: Sequence[Shown], phase: str, catalogue: Catalogue) -> list[int | None]:
    """Control steps after which every phase before ``phase`` has been met in each demonstration; 0 for the first phase.

    None where it never comes to that: only certified demonstrations surely do.

    Raises:
      ValueError: there is no such phase.
    """
    if phase not in PHASES:
        raise ValueError(f"there is no phase {phase!r}: use one of {', '.join(PHASES)}")
    before = PHASES.index(phase)
    if not before or not shown:
        return [0] * len(shown)
    columns = range(before)
    own = [[expression for _, expression in phases(s.spec)[:before]] for s in shown]
    tables = [placed_table(exprs, columns, token_index(s.spec, catalogue)) for exprs, s in zip(own, shown, strict=True)]
    lengths = [len(s.executed) + 1 for s in shown]
    views = jax.tree.map(lambda *leaves: np.concatenate(leaves), *[s.views for s in shown])
    met = blocks(expressions.stack(tables), np.repeat(np.arange(len(shown)), lengths), views)[:, :before] > TRUE_ABOVE
    starts = []
    for mine in np.split(met, np.cumsum(lengths)[:-1]):
        reached = np.logical_or.accumulate(mine, axis=0).all(axis=1)
        starts.append(int(reached.argmax()) if reached.any() else None)
    return starts


def prefixes(shown: Sequence[Shown], phase: str, catalogue: Catalogue) -> list[np.ndarray | None]:
    """Actions [p, 7] of each demonstration up to the start of ``phase``, None without one: what ``agents.base.Trial.prefix`` takes.

    Raises:
      ValueError: as ``phase_starts``.
    """
    return [None if start is None else s.executed[:start] for s, start in zip(shown, phase_starts(shown, phase, catalogue), strict=True)]
