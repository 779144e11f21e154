"""Builders of supports and containers: static, up to 6 primitives. z = 0 is the table; lengths in metres.

The highest face of a support is its surface. A container's inner width lets an open hand in (0.08 m and a finger on both sides).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from coda_jax.scenes.shapes.build import Shape, about, box, upright_cylinder

FLOOR_M = 0.006
WALL_M = 0.005


def plate(p: Mapping[str, float]) -> Shape:
    radius, height = p["radius"], p["height"]
    return Shape((upright_cylinder(radius * 0.6, 0.0, height * 0.5), upright_cylinder(radius, height * 0.5, height)))


def board(p: Mapping[str, float]) -> Shape:
    """A chopping board with a stub as handle."""
    hx, hy, height = p["width"] / 2, p["length"] / 2, p["height"]
    stub = box(hx * 0.3, 0.012, height / 2, y=hy + 0.012, z=height / 2)
    return Shape((box(hx, hy, height / 2, z=height / 2), stub))


def tray(p: Mapping[str, float]) -> Shape:
    """A slab on two feet with a bar as handle at both ends."""
    hx, hy, height = p["width"] / 2, p["length"] / 2, p["height"]
    slab = box(hx, hy, 0.004, z=height - 0.004)
    feet = tuple(box(hx * 0.8, 0.01, (height - 0.008) / 2, y=side * hy * 0.7, z=(height - 0.008) / 2) for side in (1, -1))
    bars = tuple(box(hx * 0.5, 0.006, 0.004, y=side * (hy + 0.006), z=height - 0.004) for side in (1, -1))
    return Shape((slab, *feet, *bars))


def stand(p: Mapping[str, float]) -> Shape:
    """A low stool: top and four legs."""
    hx, hy, height, leg = p["width"] / 2, p["length"] / 2, p["height"], 0.008
    top = box(hx, hy, 0.006, z=height - 0.006)
    rise = (height - 0.012) / 2
    legs = tuple(box(leg, leg, rise, x=sx * (hx - leg), y=sy * (hy - leg), z=rise) for sx in (1, -1) for sy in (1, -1))
    return Shape((top, *legs))


def _walled(hx: float, hy: float, depth: float) -> Shape:
    """Floor and four upright walls around an inner box of half sizes hx, hy."""
    wall, rise = WALL_M / 2, (depth + FLOOR_M) / 2
    across = tuple(box(hx + WALL_M, wall, rise, y=side * (hy + wall), z=rise) for side in (1, -1))
    along = tuple(box(wall, hy, rise, x=side * (hx + wall), z=rise) for side in (1, -1))
    floor = box(hx, hy, FLOOR_M / 2, z=FLOOR_M / 2)
    return Shape((floor, *across, *along), (), (0.0, 0.0, FLOOR_M + depth / 2), (hx, hy, depth / 2))


def bin_(p: Mapping[str, float]) -> Shape:
    """Square and deep."""
    return _walled(p["width"] / 2, p["width"] / 2, p["depth"])


def basket(p: Mapping[str, float]) -> Shape:
    """Oblong, with a handle's bar along one long rim."""
    hx, hy, depth = p["width"] / 2, p["length"] / 2, p["depth"]
    shape = _walled(hx, hy, depth)
    bar = box(0.006, hy * 0.4, 0.005, x=hx + WALL_M + 0.006, z=FLOOR_M + depth - 0.005)
    return Shape((*shape.primitives, bar), (), shape.cavity_pos_m, shape.cavity_half_m)


def box_(p: Mapping[str, float]) -> Shape:
    """Oblong and low, like the bottom half of a shoe box."""
    return _walled(p["width"] / 2, p["length"] / 2, p["depth"])


def bowl(p: Mapping[str, float]) -> Shape:
    """Floor and four walls that lean outward; the inner box is as wide as the floor."""
    half, depth, lean = p["width"] / 2, p["depth"], p["lean"]
    wall, slant = WALL_M / 2, depth / 2 / math.cos(lean)
    shift = half + wall + math.tan(lean) * depth / 2
    span = half + math.tan(lean) * depth
    z = FLOOR_M + depth / 2
    across = tuple(box(span, wall, slant, y=side * shift, z=z, quat=about("x", -side * lean)) for side in (1, -1))
    along = tuple(box(wall, span, slant, x=side * shift, z=z, quat=about("y", side * lean)) for side in (1, -1))
    floor = box(half + WALL_M, half + WALL_M, FLOOR_M / 2, z=FLOOR_M / 2)
    return Shape((floor, *across, *along), (), (0.0, 0.0, FLOOR_M + depth / 2), (half, half, depth / 2))
