"""Goals about a joint: fully open, closed, or at a share of its range; as expressions, and where a hand should bring the joint."""

from __future__ import annotations

from coda_jax.programs.expressions import RESERVED, Expr

OPEN_SHARE = 0.85  # "open" from here
CLOSED_SHARE = 0.1  # "closed" up to here
SHARES = {"quarter": 0.25, "half": 0.5, "three_quarters": 0.75}
WITHIN = 0.1  # of the share that is asked for
RELATIONS = ("open", "close", *SHARES)
_PAST = 0.6  # of the way from the limit to the end of the range: where a hand stops


def band(relation: str) -> tuple[float, float]:
    """Lowest and highest opening at which a relation holds.

    Raises:
      KeyError: no such relation.
    """
    ends = {"open": (OPEN_SHARE, 1.0), "close": (0.0, CLOSED_SHARE)}
    return ends[relation] if relation in ends else (round(SHARES[relation] - WITHIN, 3), round(SHARES[relation] + WITHIN, 3))


def aim(relation: str) -> float:
    """The opening to bring a joint to: in the middle of a share's band, past the limits of "open" and "close"."""
    if relation == "open":
        return OPEN_SHARE + _PAST * (1.0 - OPEN_SHARE)
    return CLOSED_SHARE * (1.0 - _PAST) if relation == "close" else SHARES[relation]


def expression(relation: str, target: str) -> Expr:
    """The relation as an expression over an object id.

    Raises:
      ValueError: no such relation.
    """
    if relation not in RELATIONS:
        raise ValueError(f"there is no relation {relation!r} of joints: use {', '.join(RELATIONS)}")
    low, high = band(relation)
    value = Expr("opening", (target,))
    if relation == "open":
        return Expr("at_least", (value, low))
    if relation == "close":
        return Expr("at_most", (value, high))
    return Expr("all_of", (Expr("at_least", (value, low)), Expr("at_most", (value, high))))


def parsed(expr: Expr) -> tuple[str, str] | None:
    """(relation, target) of what ``expression`` wrote, or None for any other expression."""
    match expr:
        case Expr(op="at_least" | "at_most", args=(Expr(op="opening", args=(str(target),)), _)):
            pass
        case Expr(op="all_of", args=(Expr(op="at_least", args=(Expr(op="opening", args=(str(target),)), _)), _)):
            pass
        case _:
            return None
    if target in RESERVED:
        return None
    return next(((relation, target) for relation in RELATIONS if expression(relation, target) == expr), None)
