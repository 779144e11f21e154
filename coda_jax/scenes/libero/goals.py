"""LIBERO's predicates as expressions, and back: one operation each, over object ids and names of regions."""

from __future__ import annotations

from coda_jax.programs.expressions import Expr
from coda_jax.scenes.libero.bddl import Atom

OPERATIONS = {
    "on": "libero_on",
    "in": "libero_in",
    "open": "libero_open",
    "close": "libero_closed",
    "turnon": "libero_turned_on",
    "turnoff": "libero_turned_off",
}  # predicate of a task file to the operation
_PREDICATES = {operation: predicate for predicate, operation in OPERATIONS.items()}


def to_expression(atom: Atom) -> Expr:
    """An atom as an expression.

    Raises:
      ValueError: the predicate has no operation.
    """
    if atom.predicate not in OPERATIONS:
        raise ValueError(f"{atom} cannot be evaluated here: use one of {', '.join(OPERATIONS)}")
    return Expr(OPERATIONS[atom.predicate], atom.names)


def to_atom(expr: Expr) -> Atom | None:
    """The atom that ``to_expression`` made an expression of; None for any other expression."""
    predicate = _PREDICATES.get(expr.op)
    names = tuple(a for a in expr.args if isinstance(a, str))
    if predicate is None or len(names) != len(expr.args) or len(names) != (2 if predicate in ("on", "in") else 1):
        return None
    return Atom(predicate, names)
