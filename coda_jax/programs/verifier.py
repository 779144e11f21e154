"""nu: the success predicate. A goal counts only when the target rests where it belongs and the robot has let go."""

from __future__ import annotations

from coda_jax.programs.expressions import Expr

GRIPPER_OPEN_M = 0.04  # half open; a held object wider than this still fails by finger contact
CONTACT_FREE = 0.0  # share of the fingers that touch the target


def nu(goal: Expr, target: str) -> Expr:
    """Success of ``goal`` with ``target`` at rest and released.

    Stricter than LIBERO, whose own predicates ask for neither release nor rest: there a policy that drops or presses an object past
    the goal succeeds. Figures under nu and under LIBERO's predicates are therefore not comparable.

    Args:
      goal: condition of the task, e.g. ``on(mug_1, plate_1)``. target: id of the object that is moved.

    Returns:
      all_of(goal, still(target), gripper open, no finger on the target).
    """
    return Expr("all_of", (goal, *settled(target)))


def settled(target: str) -> tuple[Expr, Expr, Expr]:
    """The three conditions of rest and release: speed below 0.02 m/s, gripper at least half open, no finger contact."""
    return (
        Expr("still", (target,)),
        Expr("at_least", (Expr("gripper_opening", ()), GRIPPER_OPEN_M)),
        Expr("at_most", (Expr("grasped", (target,)), CONTACT_FREE)),
    )


def goal_of(success: Expr) -> Expr:
    """The goal that ``nu`` was built from.

    Raises:
      ValueError: the expression is no nu.
    """
    match success:
        case Expr(op="all_of", args=(Expr() as goal, Expr(op="still", args=(str(target),)), *_)) if success == nu(goal, target):
            return goal
    raise ValueError(f"{success} is no success predicate: build it with nu(goal, target)")
