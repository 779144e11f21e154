"""Expressions over one moment of a world, as data, and the fixed machine that evaluates them.

An expression becomes a postfix table of bounded size; one jitted machine evaluates the tables of all worlds, so a new success
predicate or potential never needs a new executable. docs/expressions.md lists what can be written.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from coda_jax.programs import libero
from coda_jax.programs.errors import quote
from coda_jax.programs.helpers import BANK_SIZE, HELPERS, Helper, bank, bank_index
from coda_jax.types import ENTITIES, GRIPPER, REGIONS, TABLE, TOKENS, Array, WorldView

MAX_ROWS = 48
MAX_STACK = 8
MAX_DEPTH = 12
MAX_PREDICATES = 16

RESERVED = {"table": TABLE, "gripper": GRIPPER}


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False))
class Expr:
    """``op`` applied to ``args``: object ids, "table", "gripper", numbers or further expressions."""

    op: str
    args: tuple[Expr | str | float, ...]

    def __str__(self) -> str:
        return f"{self.op}({', '.join(f'{a:g}' if isinstance(a, float) else str(a) for a in self.args)})"


class ExpressionError(ValueError):
    """An expression that cannot be used; the message names the sub-expression and what to change."""


@dataclasses.dataclass(frozen=True)
class Combinator:
    """``operands``: "one" value, "many" values or "conditions". ``numbers``: how many constants follow."""

    name: str
    operands: str
    numbers: int
    is_condition: bool
    formula: str


_COMBINATORS = (
    Combinator("at_least", "one", 1, True, "1 where v >= c, else 0"),
    Combinator("at_most", "one", 1, True, "1 where v <= c, else 0"),
    Combinator("all_of", "conditions", 0, True, "1 where every condition holds"),
    Combinator("any_of", "conditions", 0, True, "1 where at least one condition holds"),
    Combinator("minimum", "many", 0, False, "the smallest value"),
    Combinator("mean", "many", 0, False, "the sum divided by the count"),
    Combinator("product", "many", 0, False, "all values multiplied"),
    Combinator("ramp", "one", 2, False, "(v - lo) / (hi - lo) clipped to 0..1; lo > hi makes a falling ramp"),
)
COMBINATORS: dict[str, Combinator] = {c.name: c for c in _COMBINATORS}
_SIGNATURES = {"at_least": "at_least(v, c)", "at_most": "at_most(v, c)", "ramp": "ramp(v, lo, hi)"}
_UNITS = {"m": "lengths are in metres", "share": "it is a share or cosine without unit", "condition": "a condition is 0 or 1"}

# Operations of the machine. Every one reads at most the two top values of the stack; longer operand lists are folded.
_NOTHING, _LOAD, _AT_LEAST, _AT_MOST, _RAMP, _DIVIDE, _MINIMUM, _MAXIMUM, _ADD, _MULTIPLY = range(10)
_UNARY = {"at_least": _AT_LEAST, "at_most": _AT_MOST, "ramp": _RAMP}
_FOLD = {"all_of": _MINIMUM, "any_of": _MAXIMUM, "minimum": _MINIMUM, "mean": _ADD, "product": _MULTIPLY}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Table:
    """Postfix programs of ``p`` predicates with at most ``l`` rows, for one world [p, ...] or ``b`` worlds [b, p, ...].

    op: int32 [.., p, l]. index: int32 [.., p, l], place in the helper bank of a load. first, second: float32 [.., p, l], constants.
    rows: int32 [.., p], rows in use; 0 for padding, whose value is 0.
    """

    op: Array
    index: Array
    first: Array
    second: Array
    rows: Array


def _nearest(word: str, words: Collection[str]) -> str:
    close = difflib.get_close_matches(word, list(words), n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"use one of {', '.join(sorted(words))}"


def _fold_range(op: str, ranges: Sequence[tuple[float, float]]) -> tuple[float, float]:
    lows, highs = zip(*ranges, strict=True)
    if op == "any_of":
        return max(lows), max(highs)
    if op in ("all_of", "minimum"):
        return min(lows), min(highs)
    if op == "mean":
        return sum(lows) / len(lows), sum(highs) / len(highs)
    low, high = 1.0, 1.0
    for a, b in ranges:
        corners = (low * a, low * b, high * a, high * b)
        low, high = min(corners), max(corners)
    return low, high


@dataclasses.dataclass(frozen=True)
class _Checker:
    names: Collection[str]
    containers: Collection[str] | None
    articulated: Collection[str] | None
    regions: Collection[str] = ()

    def check(self, expr: object, depth: int) -> tuple[float, float]:
        """Range of the values of ``expr``; raises where it cannot be used."""
        if not isinstance(expr, Expr):
            raise ExpressionError(f"{quote(expr)} stands where an expression is needed: write a helper such as lifted(x) or a combinator")
        if depth > MAX_DEPTH:
            raise ExpressionError(f"{shown(expr)} is nested more than {MAX_DEPTH} deep: flatten it, all_of and mean take many arguments")
        if expr.op in HELPERS:
            return self._helper(expr, HELPERS[expr.op])
        if expr.op in COMBINATORS:
            return self._combinator(expr, COMBINATORS[expr.op], depth)
        if expr.op in libero.PREDICATES:
            if wrong := libero.PREDICATES[expr.op].trouble(expr.args, self.names, self.regions):
                raise ExpressionError(f"{shown(expr)}: {wrong}")
            return 0.0, 1.0
        raise ExpressionError(f"unknown helper {quote(expr.op)} in {shown(expr)}: {_nearest(expr.op, [*HELPERS, *COMBINATORS])}")

    def _helper(self, expr: Expr, helper: Helper) -> tuple[float, float]:
        where = shown(expr)
        if len(expr.args) != len(helper.args):
            raise ExpressionError(f"{where}: {helper.signature} takes {len(helper.args)} arguments, not {len(expr.args)}")
        for position, (arg, kind) in enumerate(zip(expr.args, helper.args, strict=True)):
            if not isinstance(arg, str):
                raise ExpressionError(f"{where}: argument {position + 1} must be the id of an {kind}, not {shown(arg)}")
            if arg in RESERVED:
                if not helper.accepts(position, RESERVED[arg]):
                    raise ExpressionError(f"{where}: argument {position + 1} must be an {kind}, which {quote(arg)} is not")
            elif arg not in self.names:
                raise ExpressionError(f"unknown object {quote(arg)} in {where}: {_nearest(arg, [*self.names, *RESERVED])}")
        if len(set(expr.args)) < len(expr.args):
            raise ExpressionError(f"{where} relates {quote(expr.args[0])} to itself and never changes: name two different things")
        owners = {"container": self.containers, "articulated": self.articulated}.get(helper.needs)
        if owners is not None and expr.args[-1] not in owners:
            listed = ", ".join(sorted(owners)) or "none in this scene"
            raise ExpressionError(f"{where} never changes: {quote(expr.args[-1])} is no {helper.needs} object; those are: {listed}")
        return helper.low, helper.high

    def _combinator(self, expr: Expr, combinator: Combinator, depth: int) -> tuple[float, float]:
        where = shown(expr)
        if combinator.operands == "one":
            return self._constants(expr, combinator, depth)
        if not expr.args:
            raise ExpressionError(f"{where} has no arguments: give it at least one expression")
        ranges = []
        for position, arg in enumerate(expr.args):
            if not isinstance(arg, Expr):
                raise ExpressionError(f"{where}: argument {position + 1} must be an expression, not {quote(arg)}")
            ranges.append(self.check(arg, depth + 1))
            if combinator.operands == "conditions" and not is_condition(arg):
                raise ExpressionError(
                    f"{where}: argument {position + 1} must be true or false, but {shown(arg)} is a number: "
                    f"wrap it, at_least({shown(arg)}, c)"
                )
        return _fold_range(expr.op, ranges)

    def _constants(self, expr: Expr, combinator: Combinator, depth: int) -> tuple[float, float]:
        where, signature = shown(expr), _SIGNATURES[expr.op]
        if len(expr.args) != 1 + combinator.numbers:
            raise ExpressionError(f"{where}: {signature} takes {1 + combinator.numbers} arguments, not {len(expr.args)}")
        value, *constants = expr.args
        if not isinstance(value, Expr):
            raise ExpressionError(f"{where}: the first argument of {signature} must be an expression, not {quote(value)}")
        low, high = self.check(value, depth + 1)
        numbers = [c for c in constants if isinstance(c, (int, float)) and not isinstance(c, bool) and np.isfinite(c)]
        if len(numbers) < len(constants):
            raise ExpressionError(f"{where}: the constants of {signature} must be finite numbers, not {', '.join(map(shown, constants))}")
        for constant in numbers:
            if not low <= constant <= high:
                raise ExpressionError(
                    f"{where}: constant {constant:g} is out of range, {shown(value)} lies between {low:g} and {high:g}; "
                    f"{_UNITS[unit(value)]}"
                )
        if expr.op == "ramp":
            if np.float32(numbers[0]) == np.float32(numbers[1]):
                raise ExpressionError(f"{where}: ramp needs two different ends, both are {numbers[0]:g}")
            return 0.0, 1.0
        if (expr.op == "at_least" and numbers[0] <= low) or (expr.op == "at_most" and numbers[0] >= high):
            raise ExpressionError(f"{where} is always true: {shown(value)} lies between {low:g} and {high:g}; choose a constant inside")
        return 0.0, 1.0


def shown(expr: object, limit: int = 80) -> str:
    """Text of an expression for messages: bounded and without markup, whatever its size and whoever wrote it."""

    def word(value: object) -> str:
        return quote(value, 40).strip("'")

    def text(node, depth):
        if not isinstance(node, Expr):
            return f"{node:g}" if isinstance(node, float) else word(node)
        if depth == 0:
            return f"{word(node.op)}(...)"
        return f"{word(node.op)}({', '.join(text(a, depth - 1) for a in node.args[:6])}{', ...' if len(node.args) > 6 else ''})"

    full = text(expr, 3)
    return full if len(full) <= limit else text(expr, 1)[:limit]


def is_condition(expr: Expr) -> bool:
    """Whether the value is 0 or 1 by construction."""
    known = HELPERS.get(expr.op) or COMBINATORS.get(expr.op)
    if expr.op in libero.PREDICATES:
        return True
    return known is not None and known.is_condition


def unit(expr: Expr) -> str:
    """Unit of the value: "m", "share" or "condition"; minimum keeps its operands' unit where they agree, the rest has none."""
    if expr.op in HELPERS:
        return HELPERS[expr.op].unit
    if is_condition(expr):
        return "condition"
    if expr.op in ("minimum", "mean"):
        units = {unit(a) for a in expr.args if isinstance(a, Expr)}
        if len(units) == 1:
            return units.pop()
    return "share"


def entities(expr: Expr) -> frozenset[str]:
    """Ids named anywhere in ``expr``, "table" and "gripper" included."""
    found: set[str] = set()
    for arg in expr.args:
        found |= entities(arg) if isinstance(arg, Expr) else {arg} if isinstance(arg, str) else set()
    return frozenset(found)


def validate(
    expr: Expr,
    entity_names: Collection[str],
    *,
    condition: bool = False,
    containers: Collection[str] | None = None,
    articulated: Collection[str] | None = None,
    regions: Collection[str] = (),
) -> tuple[float, float]:
    """Check an expression that somebody wrote; returns the range in which its values lie.

    Args:
      entity_names: ids of the scene's objects; "table" and "gripper" are always known.
      condition: require a value that is true or false (goals, subgoals).
      containers, articulated: ids with an inner box, with a joint; where given, ``inside`` and ``opening`` of others are refused.
      regions: names of places of a LIBERO scene, for its predicates.

    Raises:
      ExpressionError: unknown helper or object, wrong arguments, a constant out of range, nothing that can change, too deep or too long.
    """
    low, high = _Checker(entity_names, containers, articulated, regions).check(expr, 1)
    if condition and not is_condition(expr):
        raise ExpressionError(f"{shown(expr)} is a number, but a condition is needed: wrap it in at_least or at_most")
    dummy = dict.fromkeys(entity_names, 0) | dict.fromkeys(regions, ENTITIES)
    rows = _postfix(expr, {**dummy, **RESERVED})
    if len(rows) > MAX_ROWS:
        raise ExpressionError(f"{shown(expr)} needs {len(rows)} rows, at most {MAX_ROWS} fit: leave out parts or split it into predicates")
    if (deepest := _stack_depth(rows)) > MAX_STACK:
        raise ExpressionError(f"{shown(expr)} holds {deepest} values at once, at most {MAX_STACK} fit: put the deepest argument first")
    return low, high


_Row = tuple[int, int, float, float]


def _postfix(expr: Expr, index: Mapping[str, int]) -> list[_Row]:
    if expr.op in HELPERS:
        return [(_LOAD, bank_index(expr.op, [index[str(a)] for a in expr.args]), 0.0, 0.0)]
    if expr.op in libero.PREDICATES:
        return [(_LOAD, BANK_SIZE + libero.place(expr.op, [index[str(a)] for a in expr.args]), 0.0, 0.0)]
    operands = [_postfix(a, index) for a in expr.args if isinstance(a, Expr)]
    rows = list(operands[0])
    if expr.op in _UNARY:
        numbers = [float(a) for a in expr.args if not isinstance(a, (Expr, str))]
        return [*rows, (_UNARY[expr.op], 0, numbers[0], numbers[-1])]
    for operand in operands[1:]:
        rows += [*operand, (_FOLD[expr.op], 0, 0.0, 0.0)]
    if expr.op == "mean":
        rows.append((_DIVIDE, 0, float(len(operands)), 0.0))
    return rows


def _stack_depth(rows: Sequence[_Row]) -> int:
    depth = deepest = 0
    for op, *_ in rows:
        depth += 1 if op == _LOAD else -1 if op >= _MINIMUM else 0
        deepest = max(deepest, depth)
    return deepest


def encode(exprs: Sequence[Expr], index: Mapping[str, int]) -> Table:
    """The table of one world, padded to MAX_PREDICATES.

    Args:
      exprs: at most MAX_PREDICATES expressions, nu first by convention.
      index: object id to token (free objects from 0, fixtures from FREE_SLOTS); names of a LIBERO scene's regions from ENTITIES on.

    Raises:
      ExpressionError: see ``validate``; or too many expressions, or an object named like the table or the gripper.
    """
    if len(exprs) > MAX_PREDICATES:
        raise ExpressionError(f"{len(exprs)} predicates, at most {MAX_PREDICATES} fit one table: leave out {len(exprs) - MAX_PREDICATES}")
    if taken := RESERVED.keys() & index.keys():
        raise ExpressionError(f"an object is called {min(taken)!r}, which stands for the {min(taken)} itself: rename the object")
    regions = [name for name, token in index.items() if ENTITIES <= token < ENTITIES + REGIONS]
    names = [name for name in index if name not in regions]
    if outside := [f"{name} -> {index[name]}" for name in names if not 0 <= index[name] < TOKENS]:
        raise ExpressionError(f"objects outside the tokens 0..{TOKENS - 1}: {', '.join(outside)}")
    op = np.zeros((MAX_PREDICATES, MAX_ROWS), np.int32)
    place = np.zeros_like(op)
    first = np.zeros(op.shape, np.float32)
    second = np.zeros(op.shape, np.float32)
    used = np.zeros(MAX_PREDICATES, np.int32)
    for p, expr in enumerate(exprs):
        validate(expr, names, regions=regions)
        rows = _postfix(expr, {**index, **RESERVED})
        used[p] = len(rows)
        op[p, : len(rows)], place[p, : len(rows)], first[p, : len(rows)], second[p, : len(rows)] = zip(*rows, strict=True)
    return Table(op, place, first, second, used)


def stack(tables: Sequence[Table]) -> Table:
    """Tables of single worlds to one table of ``b`` worlds."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *tables)


@jax.jit
def evaluate(table: Table, view: WorldView) -> jax.Array:
    """Values of every predicate of every world; usable inside other jitted code.

    Keep a table that is used more than once on the device (``jax.device_put``): a view changes at each step, a table does not.

    Args:
      table: [b, p, ...]. view: WorldView of the same ``b`` worlds, numpy or jax.

    Returns:
      float32 [b, p]; conditions are 0 or 1, padding predicates 0.
    """
    measured = bank(view)
    if view.regions is not None:
        measured = jnp.concatenate([measured, libero.bank(view, view.regions)], 1)
    worlds = jnp.arange(measured.shape[0])[:, None]

    def row(carry):
        i, held = carry  # held: MAX_STACK arrays [b, p], top of the stack first

        def at(leaf):
            return jax.lax.dynamic_index_in_dim(leaf, i, 2, keepdims=False)

        op, a, b = at(table.op), at(table.first), at(table.second)
        x, below = held[0], held[1]
        loaded = measured[worlds, at(table.index)]
        value = jnp.select(
            [op == code for code in (_LOAD, _AT_LEAST, _AT_MOST, _RAMP, _DIVIDE, _MINIMUM, _MAXIMUM, _ADD, _MULTIPLY)],
            [
                loaded,
                (x >= a).astype(jnp.float32),
                (x <= a).astype(jnp.float32),
                jnp.clip((x - a) / jnp.where(op == _RAMP, b - a, 1.0), 0.0, 1.0),
                x / jnp.where(op == _DIVIDE, a, 1.0),
                jnp.minimum(below, x),
                jnp.maximum(below, x),
                below + x,
                below * x,
            ],
            x,
        )
        push, fold = op == _LOAD, op >= _MINIMUM
        deeper = (*held[1:], jnp.zeros_like(x))
        rest = [jnp.where(push, held[s - 1], jnp.where(fold, deeper[s], held[s])) for s in range(1, MAX_STACK)]
        return i + 1, (value, *rest)

    longest = jnp.max(table.rows)
    empty = jnp.zeros(table.rows.shape, jnp.float32)
    return jax.lax.while_loop(lambda carry: carry[0] < longest, row, (jnp.int32(0), (empty,) * MAX_STACK))[1][0]


def markdown_table() -> str:
    """The documentation's table of combinators, one row each."""
    lines = ["| combinator | value | formula |", "|---|---|---|"]
    for c in _COMBINATORS:
        lines.append(f"| `{_SIGNATURES.get(c.name, f'{c.name}(v, ...)')}` | {'condition' if c.is_condition else 'number'} | {c.formula} |")
    return "\n".join(lines)
