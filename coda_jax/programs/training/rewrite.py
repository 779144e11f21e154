"""The cures of a stage that falls on a correct motion: weaker conditions, or a latch.

"Grasped" is false after a correct release, "lifted" after a correct lowering: such conditions are transient. A subgoal that needs one
is met too while the target is lowered near the reference, and where the goal holds.
"""

from __future__ import annotations

import dataclasses

from coda_jax.programs.expressions import Expr, entities
from coda_jax.programs.training.program import Subgoal, TrainingProgram, helpers_in
from coda_jax.programs.training.vocabulary import GOAL, ROLES, SUCCESS

PLACING_M = 0.16
"""Horizontal distance of target and reference at which the target may be lowered: goals "on" and "inside" are met near 0; the limits of
"beside" lie below 0.165 m in 95 of 100 training scenes, and the target is put down inside of them. 95 of 100 begin farther apart."""
HELD_NEAR = Expr(
    "all_of",
    (
        Expr("at_least", (Expr("grasped", ("target",)), 1.0)),
        Expr("at_most", (Expr("horizontal_distance", ("target", "reference")), PLACING_M)),
    ),
)


def _is_transient(expr: Expr) -> bool:
    """Whether a correct placing, release and retreat end what a condition without parts asks for."""
    used = helpers_in(expr)
    if expr.op == "at_least":
        return bool(used & {"grasped", "lifted", "height_above"})
    if expr.op == "at_most":
        return "gripper_opening" in used or (bool(used & {"distance", "horizontal_distance"}) and "gripper" in entities(expr))
    return False


def has_transient(expr: Expr) -> bool:
    """Whether any part of a condition is transient."""
    if expr.op in ("all_of", "any_of"):
        return any(has_transient(a) for a in expr.args if isinstance(a, Expr))
    return _is_transient(expr)


def _needs_height(expr: Expr) -> bool:
    """Whether a condition ends when the target is lowered, though it is still held."""
    if expr.op in ("all_of", "any_of"):
        return any(_needs_height(a) for a in expr.args if isinstance(a, Expr))
    return expr.op == "at_least" and bool(helpers_in(expr) & {"lifted", "height_above"})


def lowered(expr: Expr) -> Expr | None:
    """What of a condition still holds while the target is lowered; None where nothing is left."""
    if expr.op not in ("all_of", "any_of"):
        return None if _needs_height(expr) else expr
    parts = [part for a in expr.args if isinstance(a, Expr) and (part := lowered(a)) is not None]
    return None if not parts else parts[0] if len(parts) == 1 else Expr(expr.op, tuple(parts))


def _mentions(expr: Expr, symbol: Expr) -> bool:
    return expr == symbol or any(_mentions(a, symbol) for a in expr.args if isinstance(a, Expr))


def _goal_suffices(expr: Expr) -> bool:
    return expr == GOAL or (expr.op == "any_of" and any(_goal_suffices(a) for a in expr.args if isinstance(a, Expr)))


def _near_reference(done: Expr) -> Expr:
    """What stands beside a condition that needs height while the target is lowered: the rest of it where that is about where the target is
    to the reference, for others may hold before anything was done; else that it is held near."""
    rest = lowered(done)
    return rest if rest is not None and set(ROLES) <= entities(rest) else HELD_NEAR


def later_conditions(program: TrainingProgram) -> tuple[tuple[Expr, ...], ...]:
    """For each subgoal the conditions that may stand beside its own; none where its own lasts."""
    found: list[tuple[Expr, ...]] = [()]
    goal_counts = False  # whether the goal alone meets this or a later subgoal short of success
    for subgoal in reversed(program.subgoals[:-1]):
        later: list[Expr] = []
        if has_transient(subgoal.done) and not _goal_suffices(subgoal.done):
            already = subgoal.done.args if subgoal.done.op == "any_of" else ()
            if _needs_height(subgoal.done) and (part := _near_reference(subgoal.done)) not in already:
                later.append(part)
            if not goal_counts and not _mentions(subgoal.done, GOAL):
                later.append(GOAL)
        goal_counts |= _goal_suffices(subgoal.done) or GOAL in later
        found.append(tuple(later))
    return tuple(reversed(found))


def rewritten(program: TrainingProgram) -> TrainingProgram:
    """Every subgoal as ``any_of(done, later conditions)``; the program itself where there are none."""
    subgoals = tuple(_weaker(s, later) for s, later in zip(program.subgoals, later_conditions(program), strict=True))
    return dataclasses.replace(program, subgoals=subgoals)


def _weaker(subgoal: Subgoal, later: tuple[Expr, ...]) -> Subgoal:
    if not later or subgoal.done == SUCCESS:
        return subgoal
    done = subgoal.done
    own = done.args if done.op == "any_of" else (done,)
    if done.op == "all_of" and lowered(done) in later:  # any_of(all_of(a, b), b) is b
        own = ()
    parts = (*own, *later)
    alone = parts[0] if len(parts) == 1 else None
    return dataclasses.replace(subgoal, done=alone if isinstance(alone, Expr) else Expr("any_of", parts))


def latched(program: TrainingProgram) -> TrainingProgram:
    """The same program whose stages count until the episode ends, once reached."""
    return dataclasses.replace(program, latched=True)
