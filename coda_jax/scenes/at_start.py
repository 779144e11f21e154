"""Whether a goal holds before anything has moved, as far as a spec alone can tell: such a goal is no task."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from coda_jax.programs.expressions import Expr
from coda_jax.scenes.spec import Placement

GRIPPER_OPEN_AT_START_M = 0.08


def true_at_start(goal: Expr, placements: Mapping[str, Placement], containers: Collection[str]) -> bool:
    """True only where the condition surely holds at the reset; what needs physics counts as false."""
    low, _ = _bounds(goal, placements, containers)
    return low >= 1.0


def _bounds(expr: Expr, placements: Mapping[str, Placement], containers: Collection[str]) -> tuple[float, float]:
    """Lowest and highest value the expression can have at the reset."""
    if not any(isinstance(a, Expr) for a in expr.args):
        return _helper(expr, placements, containers)
    inner = [_bounds(a, placements, containers) for a in expr.args if isinstance(a, Expr)]
    numbers = [float(a) for a in expr.args if isinstance(a, (int, float))]
    lows, highs = zip(*inner, strict=True)
    low, high = inner[0]
    if expr.op == "at_least":
        return float(low >= numbers[0]), float(high >= numbers[0])
    if expr.op == "at_most":
        return float(high <= numbers[0]), float(low <= numbers[0])
    if expr.op in ("all_of", "minimum"):
        return min(lows), min(highs)
    if expr.op == "any_of":
        return max(lows), max(highs)
    if expr.op == "mean":
        return sum(lows) / len(lows), sum(highs) / len(highs)
    if expr.op == "ramp":
        ends = [min(max((v - numbers[0]) / (numbers[1] - numbers[0]), 0.0), 1.0) for v in (low, high)]
        return min(ends), max(ends)
    return (math.prod(lows), math.prod(highs)) if min(lows) >= 0 else (-math.inf, math.inf)


def _helper(expr: Expr, placements: Mapping[str, Placement], containers: Collection[str]) -> tuple[float, float]:
    known = [placements[a] for a in expr.args if isinstance(a, str) and a in placements]
    if expr.op in ("on", "inside"):
        supported = str(expr.args[1]) == known[0].support
        if expr.op == "inside":
            return (1.0, 1.0) if supported else (0.0, 1.0)
        return (1.0, 1.0) if supported and expr.args[1] not in containers else (0.0, 1.0)
    if expr.op == "opening" and known and known[0].opening is not None:
        return known[0].opening, known[0].opening
    if expr.op in ("distance", "horizontal_distance") and len(known) == 2:
        axes = 3 if expr.op == "distance" else 2
        apart = math.dist(known[0].pos_m[:axes], known[1].pos_m[:axes])
        return apart, apart
    fixed = {"grasped": 0.0, "lifted": 0.0, "still": 1.0, "gripper_opening": GRIPPER_OPEN_AT_START_M}
    if expr.op in fixed:
        return fixed[expr.op], fixed[expr.op]
    return -math.inf, math.inf
