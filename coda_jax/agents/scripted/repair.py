"""Mending an invalid scene: of the changes that its failed checks propose, those that the program's factor allows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from coda_jax.agents.base import Cure
from coda_jax.scenes.edits.room import trouble
from coda_jax.scenes.fixes import Fix, fixed
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.checks.record import Failure


def repair(spec: SceneSpec, failures: Sequence[Failure], factors: Collection[str]) -> tuple[SceneSpec, tuple[Cure, ...]] | None:
    """The scene with one change for each failure that has one, and the changes; None where no failure has one.

    Every object is changed once at most, so that two checks that want the same do not do it twice. factors: of SceneSpec, that may change:
    the factor lock of a program would break by any other.
    """
    cures: list[Cure] = []
    for failure in failures:
        offered = [f for f in failure.fixes if f.factor in factors]
        if {f.object for f in offered} & {c.fix.object for c in cures}:
            continue
        found = _best(spec, offered)
        if found is not None:
            spec, fix = found
            cures.append(Cure(failure, fix))
    return (spec, tuple(cures)) if cures else None


def _best(spec: SceneSpec, offered: Sequence[Fix]) -> tuple[SceneSpec, Fix] | None:
    """The first change that leaves a fair task as far as the plane geometry tells; without one, the first that can be made."""
    first = None
    for fix in offered:
        try:
            after = fixed(spec, fix)
            fair = trouble(after) is None
        except ValueError:  # things in a ring, or a goal that no family reads
            continue
        if after == spec:  # an earlier change did it already, or it asks for what is so
            continue
        if fair:
            return after, fix
        first = first or (after, fix)
    return first
