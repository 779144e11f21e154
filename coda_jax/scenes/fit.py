"""Whether a peg goes into a hole, and with how much play."""

from __future__ import annotations

import math

from coda_jax.scenes.assets import Asset, Primitive

CLEARANCE_M = (0.0015, 0.008)  # play on each side at which a peg counts as fitting: less cannot be placed, more is no hole


def _half_across(p: Primitive, x: float, y: float) -> float:
    """Half width of an upright primitive along a horizontal unit direction, m."""
    if p.shape == "box":
        turn = 2 * math.atan2(p.quat_wxyz[3], p.quat_wxyz[0])
        c, s = math.cos(turn), math.sin(turn)
        return abs(c * x + s * y) * p.size_m[0] + abs(c * y - s * x) * p.size_m[1]
    return p.size_m[0]


def _walls(hole: Asset) -> list[tuple[float, float, float]]:
    """(x, y, distance) of the inner face of every wall: its unit normal, away from the hole, and its distance from the axis, m."""
    found = []
    for p in hole.primitives:
        turn = 2 * math.atan2(p.quat_wxyz[3], p.quat_wxyz[0])
        faces = []
        for angle, half in ((turn, p.size_m[0]), (turn + math.pi / 2, p.size_m[1])):
            x, y = math.cos(angle), math.sin(angle)
            along = (p.pos_m[0] - hole.cavity_pos_m[0]) * x + (p.pos_m[1] - hole.cavity_pos_m[1]) * y
            faces.append((abs(along) - half, math.copysign(x, x * along), math.copysign(y, y * along)))
        inner, x, y = max(faces)
        if inner > 0:
            found.append((x, y, inner))
    return found


def clearance_m(peg: Asset, hole: Asset) -> float:
    """Play on each side of a peg that stands upright in the middle of a hole, sides parallel, m; negative where it does not go in.

    Only the part of the peg that goes below the rim counts: its head may be wider than the hole.

    Raises:
      ValueError: ``hole`` receives nothing.
    """
    if "receives" not in hole.affordances:
        raise ValueError(f"{hole.asset_id} is no hole for pegs: use an asset with the affordance receives")
    depth = 2 * hole.cavity_half_m[2]
    below = [p for p in peg.primitives if p.pos_m[2] + peg.half_extent_m[2] - _half_height(p) < depth]
    return min(inner - max(_half_across(p, x, y) for p in below) for x, y, inner in _walls(hole))


def _half_height(p: Primitive) -> float:
    return {"box": p.size_m[2], "cylinder": p.size_m[1], "capsule": p.size_m[0] + p.size_m[1], "ellipsoid": p.size_m[2]}.get(
        p.shape, p.size_m[0]
    )


def fits(peg: Asset, hole: Asset) -> bool:
    """Whether the peg is meant for the hole: it goes in with a play within CLEARANCE_M, and its centre ends inside."""
    if "insertable" not in peg.affordances or "receives" not in hole.affordances:
        return False
    low, high = CLEARANCE_M
    return low <= clearance_m(peg, hole) <= high and peg.half_extent_m[2] < 2 * hole.cavity_half_m[2]
