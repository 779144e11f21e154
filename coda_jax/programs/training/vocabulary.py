"""What a training program's expressions may name: two roles, the table and the gripper, ``goal()`` and ``success()``.

``goal()`` is the relation that the scene's task asks for, ``success()`` is nu: the goal at rest and released. Both stand for
expressions of the scene that a program is bound to.
"""

from __future__ import annotations

from collections.abc import Mapping

from coda_jax.programs.expressions import MAX_DEPTH, Expr, ExpressionError, shown, validate
from coda_jax.programs.verifier import nu

ROLES = ("target", "reference")
SUCCESS = Expr("success", ())
GOAL = Expr("goal", ())

# The longest goal of any family, so that an expression that passes here fits the tables of every scene.
_LONGEST_GOAL = Expr(
    "all_of", (Expr("on", ("target", "table")), Expr("at_most", (Expr("horizontal_distance", ("target", "reference")), 0.1)))
)
_STAND_INS = {"goal": _LONGEST_GOAL, "success": nu(_LONGEST_GOAL, *ROLES)}


def substituted(expr: Expr, symbols: Mapping[str, Expr], names: Mapping[str, str], depth: int = 1) -> Expr:
    """``expr`` with expressions in place of symbols of no arguments and ids in place of role names; other names stay.

    Raises:
      ExpressionError: it is nested too deep, or a symbol has arguments.
    """
    if depth > MAX_DEPTH:
        raise ExpressionError(f"{shown(expr)} is nested more than {MAX_DEPTH} deep: flatten it, all_of and mean take many arguments")
    if expr.op in symbols:
        if expr.args:
            raise ExpressionError(f"{shown(expr)}: {expr.op}() takes no arguments: leave them out")
        return symbols[expr.op]

    def put(arg: Expr | str | float) -> Expr | str | float:
        if isinstance(arg, Expr):
            return substituted(arg, symbols, names, depth + 1)
        return names.get(arg, arg) if isinstance(arg, str) else arg

    return Expr(expr.op, tuple(put(arg) for arg in expr.args))


def check_expression(expr: Expr, condition: bool) -> tuple[float, float]:
    """Check an expression over roles; returns the range in which its values lie.

    Raises:
      ExpressionError: see ``expressions.validate``.
    """
    return validate(substituted(expr, _STAND_INS, {}), ROLES, condition=condition, articulated=())
