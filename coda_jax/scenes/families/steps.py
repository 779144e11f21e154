"""The parts of a task: goals that are reached one after the other, and the phases and margins of a task made of them.

With one goal a phase predicate is 0 or 1. With several, its value is the share of the goals for which the phase was met with all earlier
goals done, so that the first unfinished goal is the one whose phases are read (evaluation/failures.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, get_args

from coda_jax.programs.expressions import Expr
from coda_jax.programs.verifier import CONTACT_FREE, nu
from coda_jax.scenes.assets import Asset
from coda_jax.scenes.placement import Footprint

Phase = Literal["approach", "grasp", "transport", "place", "release"]
PHASES: tuple[Phase, ...] = get_args(Phase)
MOST_GOALS = 2  # nu, five phases and five margins of each goal fill a table of expressions (MAX_PREDICATES)


@dataclasses.dataclass(frozen=True)
class Goal:
    """A goal read back from an expression: ``target`` is what is moved, ``reference`` what it is moved to."""

    relation: str
    target: str
    reference: str


@dataclasses.dataclass(frozen=True)
class Margin:
    """A measured quantity behind a phase predicate: what evidence quotes. best: whether the largest or the smallest value counts.

    expression: the quantity. threshold: what the phase asks for, in ``unit``; a rollout is short of it by ``|best - threshold|``.
    """

    name: str
    phase: str
    expression: Expr
    best: str  # "smallest" or "largest"
    threshold: float
    unit: str


@dataclasses.dataclass(frozen=True)
class Step:
    """One goal of a task in a scene. number: of ``goals``, from 0. assets: scaled ones by id. shapes: where everything is, by id."""

    number: int
    goals: tuple[Goal, ...]
    assets: Mapping[str, Asset]
    shapes: Mapping[str, Footprint]

    @property
    def goal(self) -> Goal:
        return self.goals[self.number]

    @property
    def target(self) -> Asset:
        return self.assets[self.goal.target]

    @property
    def reference(self) -> Asset:
        return self.assets[self.goal.reference]


@dataclasses.dataclass(frozen=True)
class Gate:
    """The target stays ``height_m`` above its resting place until it is within ``within_m`` of its place and its yaw is right."""

    height_m: float
    within_m: float


class NoPlace(ValueError):
    """There is no free place for a goal; the message says what to move."""


class Rejected(Exception):
    """A drawn scene that failed a check; the argument is the reason."""


class Places(Protocol):
    """What a family knows of the places of its goals."""

    def bottom(self, step: Step) -> float: ...

    def places(self, step: Step) -> list[tuple[float, float]]: ...


def after(family: Places, step: Step) -> Step:
    """The same task with the step's target at the first of its places.

    Raises:
      NoPlace: there is none.
    """
    found = family.places(step)
    if not found:
        raise NoPlace(f"no free place for {step.goal.target} at {step.goal.reference}: move what stands around it away")
    shape, bottom = step.shapes[step.goal.target], family.bottom(step)
    put = dataclasses.replace(shape, x=found[0][0], y=found[0][1], bottom=bottom, top=bottom + shape.top - shape.bottom)
    return dataclasses.replace(step, shapes={**step.shapes, step.goal.target: put})


Phases = tuple[tuple[str, Expr], ...]


def _done(goal: Expr, target: str) -> Expr:
    """A goal that holds, let go of."""
    return Expr("all_of", (goal, Expr("at_most", (Expr("grasped", (target,)), CONTACT_FREE))))


def combined(steps: Sequence[Phases], goals: Sequence[Expr], targets: Sequence[str]) -> Phases:
    """The phases of a task from those of its goals, each with PHASES in order; of one goal its own.

    Args:
      goals: what each step asks for. targets: what each step moves.
    """
    if len(steps) == 1:
        return steps[0]
    done = [_done(g, t) for g, t in zip(goals, targets, strict=True)]
    phases = []
    for p, name in enumerate(PHASES):
        shares = []
        for k, step in enumerate(steps):
            met = step[p][1] if name == PHASES[-1] else Expr("any_of", (step[p][1], done[k]))
            shares.append(Expr("all_of", (*done[:k], met)) if k else met)
        phases.append((name, Expr("mean", tuple(shares))))
    return tuple(phases)


def success(goal: Expr, goals: Sequence[Goal]) -> Expr:
    """nu of a task: its goal with everything it moves at rest and released."""
    return nu(goal, *dict.fromkeys(g.target for g in goals))


def named(goals: Sequence[Goal]) -> tuple[str, ...]:
    """The objects that an instruction names, in the order of a template's places: target, reference, and what is moved second."""
    return tuple(dict.fromkeys(name for g in goals for name in ((g.target, g.reference) if g is goals[0] else (g.target,))))
