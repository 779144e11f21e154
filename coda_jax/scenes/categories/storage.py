"""Bins and boxes: containers, static, up to 6 primitives. z = 0 is the table; lengths in metres.

The inner width lets an open hand in (0.08 m and a finger on both sides).
"""

from __future__ import annotations

from collections.abc import Mapping

from coda_jax.scenes.categories.record import Category
from coda_jax.scenes.shapes.build import Shape, box
from coda_jax.scenes.shapes.walls import FLOOR_M, WALL_M, leaning_walls, upright_walls


def bin_(p: Mapping[str, float]) -> Shape:
    """Square and deep."""
    return upright_walls(p["width"] / 2, p["width"] / 2, p["depth"])


def basket(p: Mapping[str, float]) -> Shape:
    """Oblong, with a handle's bar along one long rim."""
    hx, hy, depth = p["width"] / 2, p["length"] / 2, p["depth"]
    shape = upright_walls(hx, hy, depth)
    bar = box(0.006, hy * 0.4, 0.005, x=hx + WALL_M + 0.006, z=FLOOR_M + depth - 0.005)
    return Shape((*shape.primitives, bar), (), shape.cavity_pos_m, shape.cavity_half_m)


def box_(p: Mapping[str, float]) -> Shape:
    """Oblong and low, like the bottom half of a shoe box."""
    return upright_walls(p["width"] / 2, p["length"] / 2, p["depth"])


def crate(p: Mapping[str, float]) -> Shape:
    """A wooden crate: thick ends that stand above the lower sides."""
    hx, hy, depth, end = p["width"] / 2, p["length"] / 2, p["depth"], p["end"]
    wall, rise = WALL_M / 2, (depth + FLOOR_M) / 2
    tall = (depth + FLOOR_M + end) / 2
    ends = tuple(box(hx + WALL_M, 0.005, tall, y=side * (hy + 0.005), z=tall) for side in (1, -1))
    sides = tuple(box(wall, hy, rise, x=side * (hx + wall), z=rise) for side in (1, -1))
    floor = box(hx, hy, FLOOR_M / 2, z=FLOOR_M / 2)
    return Shape((floor, *ends, *sides), (), (0.0, 0.0, FLOOR_M + depth / 2), (hx, hy, depth / 2))


def trough(p: Mapping[str, float]) -> Shape:
    """A long feeding trough: the long sides lean outward, the ends stand upright."""
    return leaning_walls(p["width"] / 2, p["length"] / 2, p["depth"], p["lean"], both=False)


def tub(p: Mapping[str, float]) -> Shape:
    """An oblong wash tub: all walls lean outward a little, with a bar as handle along one end."""
    hx, hy, depth, lean = p["width"] / 2, p["length"] / 2, p["depth"], p["lean"]
    shape = leaning_walls(hx, hy, depth, lean)
    out = max(q.pos_m[1] for q in shape.primitives) * 2 - hy
    bar = box(hx * 0.4, 0.006, 0.005, y=out + 0.008, z=FLOOR_M + depth - 0.006)
    return Shape((*shape.primitives, bar), (), shape.cavity_pos_m, shape.cavity_half_m)


_IN = ("contains",)
CATEGORIES = (
    Category("basket", "container", "train", basket, 0, (("width", 0.125, 0.14), ("length", 0.14, 0.17), ("depth", 0.045, 0.058)), _IN),
    Category("bin", "container", "train", bin_, 0, (("width", 0.128, 0.15), ("depth", 0.048, 0.06)), _IN),
    Category("box", "container", "train", box_, 0, (("width", 0.125, 0.14), ("length", 0.14, 0.17), ("depth", 0.032, 0.044)), _IN),
    Category(
        "crate", "container", "train", crate, 0,
        (("width", 0.122, 0.14), ("length", 0.135, 0.165), ("depth", 0.032, 0.04), ("end", 0.01, 0.016)),
        _IN,
    ),
    Category(
        "trough", "container", "train", trough, 0,
        (("width", 0.122, 0.135), ("length", 0.15, 0.18), ("depth", 0.036, 0.046), ("lean", 0.3, 0.5)),
        _IN,
    ),
    Category(
        "tub", "container", "train", tub, 0,
        (("width", 0.122, 0.138), ("length", 0.14, 0.165), ("depth", 0.045, 0.056), ("lean", 0.1, 0.22)),
        _IN,
    ),
)  # fmt: skip
