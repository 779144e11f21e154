"""Builders of a peg and its socket. A peg is held by its head while its shaft is in the hole; z = 0 is the lowest point; lengths in metres.

The hole is as deep as a peg's centre is high, so that ``inside`` tells an inserted peg, and no deeper than leaves the rim below the finger
tips.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from coda_jax.scenes.assets import Grasp
from coda_jax.scenes.shapes.build import Shape, box

FLOOR_M = 0.004
HEAD_GRIP_M = 0.018  # the grip point lies this far below the top


def peg(p: Mapping[str, float]) -> Shape:
    """A square shaft under a wider square head."""
    half, shaft, head, over = p["width"] / 2, p["shaft"], p["head"], 0.004
    z = shaft + head - HEAD_GRIP_M
    grasps = tuple(Grasp((0.0, 0.0, z), yaw, 2 * (half + over)) for yaw in (0.0, math.pi / 2))
    return Shape((box(half, half, shaft / 2, z=shaft / 2), box(half + over, half + over, head / 2, z=shaft + head / 2)), grasps)


def socket(p: Mapping[str, float]) -> Shape:
    """A block with a square hole: a floor and four thick walls."""
    half, wall, depth = p["hole"] / 2, p["wall"], p["depth"]
    rise = (depth + FLOOR_M) / 2
    across = tuple(box(half + wall, wall / 2, rise, y=side * (half + wall / 2), z=rise) for side in (1, -1))
    along = tuple(box(wall / 2, half, rise, x=side * (half + wall / 2), z=rise) for side in (1, -1))
    floor = box(half, half, FLOOR_M / 2, z=FLOOR_M / 2)
    return Shape((floor, *across, *along), (), (0.0, 0.0, FLOOR_M + depth / 2), (half, half, depth / 2))
