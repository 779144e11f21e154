"""Refinement of a potential from measured progress: where most rollouts stop, the stage is split, or its ramp fitted to what they reach."""

from __future__ import annotations

import dataclasses

from coda_jax.programs.errors import ProgramError
from coda_jax.programs.expressions import Expr
from coda_jax.programs.training.limits import MAX_STAGES
from coda_jax.programs.training.measured import MeasuredProgress, first_ramp, rising
from coda_jax.programs.training.program import Subgoal, TrainingProgram, check_program
from coda_jax.programs.training.vocabulary import check_expression

_DIGITS = 3  # of refitted constants: a millimetre


@dataclasses.dataclass(frozen=True)
class RefinementSettings:
    """least_stopped: share of all rollouts that must stop at one subgoal before it is changed. split: whether stages may be split."""

    least_stopped: float
    split: bool


def refined(program: TrainingProgram, measured: MeasuredProgress, settings: RefinementSettings) -> TrainingProgram:
    """The program with the stalled stage mended; the program itself where no stage stalls or its progress holds no ramp.

    A split at the median of what the stopped rollouts reached gives half of them a completed subgoal. Without room for another stage the
    ramp begins at the worst tenth instead, so that it is steep where they stop, and ends no sooner than the best tenth.
    """
    number = measured.stalled
    if number is None or measured.stopped < settings.least_stopped or measured.best is None or measured.entry is None:
        return program
    stalled = program.subgoals[number]
    ramp = first_ramp(stalled.progress)
    if ramp is None:
        return program
    quantity = next(a for a in ramp.args if isinstance(a, Expr))
    up = rising(ramp)
    limits = check_expression(quantity, condition=False)
    entry, worst, middle, best = (round(min(max(v, limits[0]), limits[1]), _DIGITS) for v in (measured.entry, *measured.best))
    end = float(ramp.args[2])  # type: ignore[arg-type]
    end = max(end, best) if up else min(end, best)
    if settings.split and program.stages < MAX_STAGES:
        halves = _halves(program, number, ramp, entry, middle, end)
        if halves is not None:
            return halves
    return _usable(program, number, (_with_ramp(stalled, ramp, worst, end),)) or program


def _halves(program: TrainingProgram, number: int, ramp: Expr, entry: float, middle: float, end: float) -> TrainingProgram | None:
    """The stage in two at ``middle``; None where nothing would lie on one side of it."""
    up, stalled = rising(ramp), program.subgoals[number]
    if not (entry < middle < end if up else entry > middle > end):
        return None
    quantity = next(a for a in ramp.args if isinstance(a, Expr))
    reached = Expr("at_least" if up else "at_most", (quantity, middle))
    # Only after the stage before: a distance alone may be short before anything was done.
    done = Expr("all_of", (program.subgoals[number - 1].done, reached)) if number else reached
    taken = {s.name for s in program.subgoals}
    name = next(n for i in range(1, MAX_STAGES + 1) if (n := f"half_way{i}") not in taken)
    first = Subgoal(name, done, Expr("ramp", (quantity, entry, middle)))
    return _usable(program, number, (first, _with_ramp(stalled, ramp, middle, end)))


def _with_ramp(subgoal: Subgoal, ramp: Expr, low: float, high: float) -> Subgoal:
    """The subgoal with other ends of its first ramp."""
    left = True

    def fitted(expr: Expr) -> Expr:
        nonlocal left
        if expr == ramp and left:
            left = False
            return Expr("ramp", (ramp.args[0], low, high))
        return Expr(expr.op, tuple(fitted(a) if isinstance(a, Expr) else a for a in expr.args))

    return dataclasses.replace(subgoal, progress=fitted(subgoal.progress))


def _usable(program: TrainingProgram, number: int, instead: tuple[Subgoal, ...]) -> TrainingProgram | None:
    """The program with other subgoals in the place of one; None where it would be refused (two equal ends of a ramp, too long)."""
    changed = dataclasses.replace(program, subgoals=(*program.subgoals[:number], *instead, *program.subgoals[number + 1 :]))
    try:
        check_program(changed)
    except ProgramError:
        return None
    return changed
