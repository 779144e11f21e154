"""nu: the success predicate. A goal counts only when everything that was moved rests where it belongs and the robot has let go."""

from __future__ import annotations

from coda_jax.programs import libero
from coda_jax.programs.expressions import Expr

GRIPPER_OPEN_M = 0.04  # half open; a held object wider than this still fails by finger contact
CONTACT_FREE = 0.0  # share of the fingers that touch the target


def nu(goal: Expr, *targets: str) -> Expr:
    """Success of ``goal`` with every target at rest and released.

    Stricter than LIBERO, whose own predicates ask for neither release nor rest: there a policy that drops or presses an object past
    the goal succeeds. Figures under nu and under LIBERO's predicates are therefore not comparable.

    Args:
      goal: condition of the task, e.g. ``on(mug_1, plate_1)``. targets: ids of the objects that are moved, in their order.

    Returns:
      all_of(goal, still(target) of each, gripper open, no finger on any).
    """
    return Expr("all_of", (goal, *settled(*targets)))


def settled(*targets: str) -> tuple[Expr, ...]:
    """The conditions of rest and release: speeds below 0.02 m/s, gripper at least half open, no finger contact."""
    return (
        *(Expr("still", (t,)) for t in targets),
        Expr("at_least", (Expr("gripper_opening", ()), GRIPPER_OPEN_M)),
        *(Expr("at_most", (Expr("grasped", (t,)), CONTACT_FREE)) for t in targets),
    )


def goal_of(success: Expr) -> Expr:
    """The goal that ``nu`` was built from; one of LIBERO's predicates, which asks for no more, is its own.

    Raises:
      ValueError: the expression is no success predicate.
    """
    if success.op in libero.PREDICATES:
        return success
    goal, *rest = success.args or ("",)
    targets = [str(a.args[0]) for a in rest if isinstance(a, Expr) and a.op == "still" and len(a.args) == 1]
    if isinstance(goal, Expr) and targets and success == nu(goal, *targets):
        return goal
    raise ValueError(f"{success} is no success predicate: build it with nu(goal, target)")
