"""Floor and four walls: the vessels that containers are made of. z = 0 is the table; lengths in metres."""

from __future__ import annotations

import math

from coda_jax.scenes.shapes.build import Shape, about, box

FLOOR_M = 0.006
WALL_M = 0.005


def upright_walls(hx: float, hy: float, depth: float) -> Shape:
    """Floor and four upright walls around an inner box of half sizes hx, hy."""
    wall, rise = WALL_M / 2, (depth + FLOOR_M) / 2
    across = tuple(box(hx + WALL_M, wall, rise, y=side * (hy + wall), z=rise) for side in (1, -1))
    along = tuple(box(wall, hy, rise, x=side * (hx + wall), z=rise) for side in (1, -1))
    floor = box(hx, hy, FLOOR_M / 2, z=FLOOR_M / 2)
    return Shape((floor, *across, *along), (), (0.0, 0.0, FLOOR_M + depth / 2), (hx, hy, depth / 2))


def leaning_walls(hx: float, hy: float, depth: float, lean_rad: float, both: bool = True) -> Shape:
    """Walls that lean outward round a floor; the inner box is as wide as the floor. both: the walls at the ends of y lean too."""
    wall, slant = WALL_M / 2, depth / 2 / math.cos(lean_rad)
    out = math.tan(lean_rad) * depth
    z = FLOOR_M + depth / 2
    span_x, span_y = hx + out, hy + (out if both else 0.0)
    if both:
        shift = hy + wall + out / 2
        across = tuple(box(span_x, wall, slant, y=side * shift, z=z, quat=about("x", -side * lean_rad)) for side in (1, -1))
    else:
        across = tuple(box(span_x, wall, depth / 2, y=side * (hy + wall), z=z) for side in (1, -1))
    along = tuple(box(wall, span_y, slant, x=side * (hx + wall + out / 2), z=z, quat=about("y", side * lean_rad)) for side in (1, -1))
    floor = box(hx + WALL_M, hy + WALL_M, FLOOR_M / 2, z=FLOOR_M / 2)
    return Shape((floor, *across, *along), (), (0.0, 0.0, FLOOR_M + depth / 2), (hx, hy, depth / 2))
