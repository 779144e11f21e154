"""Dishes: plates, boards, bowls and pans, static, up to 6 primitives. z = 0 is the table; lengths in metres.

The highest face of a support is its surface. A container's inner width lets an open hand in (0.08 m and a finger on both sides).
"""

from __future__ import annotations

from collections.abc import Mapping

from coda_jax.scenes.categories.record import Category
from coda_jax.scenes.shapes.build import Shape, box, upright_cylinder
from coda_jax.scenes.shapes.walls import FLOOR_M, WALL_M, leaning_walls, upright_walls


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


def bowl(p: Mapping[str, float]) -> Shape:
    """Floor and four walls that lean outward; the inner box is as wide as the floor."""
    return leaning_walls(p["width"] / 2, p["width"] / 2, p["depth"], p["lean"])


def pan(p: Mapping[str, float]) -> Shape:
    """A square frying pan: low walls and a long handle at the rim, along y."""
    half, depth, handle = p["width"] / 2, p["depth"], p["handle"]
    shape = upright_walls(half, half, depth)
    bar = box(0.009, handle / 2, 0.005, y=half + WALL_M + handle / 2, z=FLOOR_M + depth - 0.005)
    return Shape((*shape.primitives, bar), (), shape.cavity_pos_m, shape.cavity_half_m)


CATEGORIES = (
    Category("plate", "support", "train", plate, 0, (("radius", 0.062, 0.082), ("height", 0.01, 0.016)), ("supports",)),
    Category(
        "board", "support", "train", board, 0, (("width", 0.105, 0.14), ("length", 0.12, 0.16), ("height", 0.01, 0.02)), ("supports",)
    ),
    Category(
        "tray", "support", "train", tray, 0, (("width", 0.11, 0.14), ("length", 0.13, 0.17), ("height", 0.016, 0.026)), ("supports",)
    ),
    Category("bowl", "container", "train", bowl, 0, (("width", 0.12, 0.14), ("depth", 0.042, 0.052), ("lean", 0.2, 0.45)), ("contains",)),
    Category("pan", "container", "train", pan, 0, (("width", 0.122, 0.14), ("depth", 0.032, 0.042), ("handle", 0.05, 0.07)), ("contains",)),
)  # fmt: skip
