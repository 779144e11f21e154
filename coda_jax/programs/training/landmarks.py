"""How certified demonstrations go, in the quantities that a program can name: what an author of thresholds has to know of a family."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from coda_jax.programs import expressions
from coda_jax.programs.expressions import Expr, ExpressionError
from coda_jax.programs.training.binding import resolved
from coda_jax.programs.training.gates import Demonstrated
from coda_jax.programs.training.spans import Span
from coda_jax.programs.training.values import blocks, placed_table

QUANTITIES: tuple[Expr, ...] = (
    Expr("distance", ("gripper", "target")),
    Expr("grasped", ("target",)),
    Expr("lifted", ("target",)),
    Expr("height_above", ("target", "table")),
    Expr("height_above", ("target", "reference")),
    Expr("horizontal_distance", ("target", "reference")),
    Expr("gripper_opening", ()),
    Expr("upright", ("target",)),
    Expr("opening", ("target",)),
)
"""At most as many as one table of a program's values has columns."""


@dataclasses.dataclass(frozen=True)
class Landmark:
    """A phase in the demonstrations that show it. shown: how many do. steps: medians of the control steps where it begins and ends.

    values: quantity to its medians at the beginning and at the end; left out where it can mean nothing in the family.
    """

    phase: str
    shown: int
    steps: tuple[int, int]
    values: dict[Expr, tuple[float, float]]


def landmarks(demonstrations: Sequence[Demonstrated], spans: Sequence[Sequence[Span]], phases: Sequence[str]) -> list[Landmark]:
    """One for each phase that any demonstration shows; ``spans``: of every phase, for each demonstration."""
    quantities = _measurable(demonstrations)
    episode = np.repeat(np.arange(len(demonstrations)), [len(d.views.control_step) for d in demonstrations])
    views = jax.tree.map(lambda *leaves: np.concatenate(leaves), *[d.views for d in demonstrations])
    columns = range(len(quantities))
    bound = [[resolved(q, d.scene.roles, d.scene.nu) for q in quantities] for d in demonstrations]
    table = expressions.stack([placed_table(own, columns, d.scene.index) for own, d in zip(bound, demonstrations, strict=True)])
    found, starts = blocks(table, episode, views), np.searchsorted(episode, np.arange(len(demonstrations)))
    marks = []
    for number, phase in enumerate(phases):
        shown = [(start, own[number]) for start, own in zip(starts, spans, strict=True) if own[number].has_inside]
        if not shown:
            continue
        begin, end = (np.median(found[[start + step for start, step in ends]], 0) for ends in _ends(shown))
        steps = tuple(int(np.median([step for _, step in ends])) for ends in _ends(shown))
        values = {q: (float(begin[i]), float(end[i])) for i, q in enumerate(quantities)}
        marks.append(Landmark(phase, len(shown), (steps[0], steps[1]), values))
    return marks


def _ends(shown: Sequence[tuple[int, Span]]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    return [(start, span.begin) for start, span in shown], [(start, span.end) for start, span in shown]


def _measurable(demonstrations: Sequence[Demonstrated]) -> list[Expr]:
    """The quantities that can be measured in every scene; target and reference may be one thing."""
    found = []
    for quantity in QUANTITIES:
        try:
            for d in demonstrations:
                expressions.validate(resolved(quantity, d.scene.roles, d.scene.nu), d.scene.index.keys())
        except ExpressionError:
            continue
        found.append(quantity)
    return found
