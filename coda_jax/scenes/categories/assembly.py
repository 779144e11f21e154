"""Pegs and what they go into. A peg is held by its head while its shaft is in the hole; z = 0 is the lowest point; lengths in metres.

Holes are as deep as a peg's centre is high, so that ``inside`` tells an inserted peg, and no deeper than leaves the rim below the finger
tips (height - 0.03 m). Every peg finds holes of its cross-section in its own split: coda_jax/scenes/fit.py.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from coda_jax.scenes.assets import Grasp
from coda_jax.scenes.categories.record import Category
from coda_jax.scenes.shapes.build import Shape, about, box, box_grasps, round_grasps, sphere, upright_cylinder

FLOOR_M = 0.004
HEAD_GRIP_M = 0.018  # the grip point lies this far below the top


def _head_grasps(hx: float, hy: float, height: float) -> tuple[Grasp, ...]:
    return tuple(dataclasses.replace(g, pos_m=(0.0, 0.0, height - HEAD_GRIP_M)) for g in box_grasps(hx, hy, height))


def peg(p: Mapping[str, float]) -> Shape:
    """A square shaft under a wider square head."""
    half, shaft, head, over = p["width"] / 2, p["shaft"], p["head"], 0.004
    grasps = _head_grasps(half + over, half + over, shaft + head)
    return Shape((box(half, half, shaft / 2, z=shaft / 2), box(half + over, half + over, head / 2, z=shaft + head / 2)), grasps)


def dowel(p: Mapping[str, float]) -> Shape:
    """A round shaft under a wider round head."""
    radius, shaft, head = p["radius"], p["shaft"], p["head"]
    height = shaft + head
    return Shape(
        (upright_cylinder(radius, 0.0, shaft), upright_cylinder(radius + 0.004, shaft, height)),
        round_grasps(radius + 0.004, height - HEAD_GRIP_M),
    )


def plug(p: Mapping[str, float]) -> Shape:
    """A flat shaft, longer along y than along x, under a head of the same outline with a rim."""
    hx, hy, shaft, head, over = p["thick"] / 2, p["width"] / 2, p["shaft"], p["head"], 0.004
    return Shape(
        (box(hx, hy, shaft / 2, z=shaft / 2), box(hx + over, hy + over, head / 2, z=shaft + head / 2)),
        _head_grasps(hx + over, hy + over, shaft + head),
    )


def bolt(p: Mapping[str, float]) -> Shape:
    """A round shaft under a washer and a hexagonal head, which three crossed boxes make."""
    radius, shaft, head, flat = p["radius"], p["shaft"], p["head"], p["flat"]
    height = shaft + head
    side = flat / math.sqrt(3)  # of the hexagon with this distance between opposite faces
    faces = tuple(box(flat / 2, side / 2, head / 2, z=shaft + head / 2, quat=about("z", i * math.pi / 3)) for i in range(3))
    washer = upright_cylinder(flat / 2, shaft - 0.004, shaft)
    return Shape((upright_cylinder(radius, 0.0, shaft), washer, *faces), round_grasps(flat / 2, height - HEAD_GRIP_M)[:1])


def pawn(p: Mapping[str, float]) -> Shape:
    """A chess pawn: foot, stem, collar and a round head, by which it is gripped."""
    foot, height, head = p["foot"], p["height"], p["head"]
    base = 0.012
    stem_top = height - 2 * head
    shapes = (
        upright_cylinder(foot, 0.0, base),
        upright_cylinder(foot * 0.6, base, stem_top + 0.004),
        upright_cylinder(head * 0.9, stem_top - 0.006, stem_top),
        sphere(head, stem_top + head),
    )
    return Shape(shapes, round_grasps(head, height - head))


def _block_with_hole(hx: float, hy: float, wall: float, depth: float) -> Shape:
    """Floor and four thick walls around a hole of half sizes hx, hy."""
    rise = (depth + FLOOR_M) / 2
    across = tuple(box(hx + wall, wall / 2, rise, y=side * (hy + wall / 2), z=rise) for side in (1, -1))
    along = tuple(box(wall / 2, hy, rise, x=side * (hx + wall / 2), z=rise) for side in (1, -1))
    return Shape((box(hx, hy, FLOOR_M / 2, z=FLOOR_M / 2), *across, *along), (), (0.0, 0.0, FLOOR_M + depth / 2), (hx, hy, depth / 2))


def socket(p: Mapping[str, float]) -> Shape:
    """A block with a square hole."""
    return _block_with_hole(p["hole"] / 2, p["hole"] / 2, p["wall"], p["depth"])


def slot(p: Mapping[str, float]) -> Shape:
    """A block with an oblong hole, longer along y."""
    return _block_with_hole(p["thick"] / 2, p["width"] / 2, p["wall"], p["depth"])


def collar(p: Mapping[str, float]) -> Shape:
    """A hexagonal ring on the table: six walls around a hole without a floor; its cavity is the largest square inside."""
    inner, wall, height = p["hole"] / 2, p["wall"], p["depth"]
    half = (inner + wall) / math.sqrt(3)
    walls = []
    for i in range(6):
        angle = i * math.pi / 3
        far = inner + wall / 2
        walls.append(
            box(wall / 2, half, height / 2, x=far * math.cos(angle), y=far * math.sin(angle), z=height / 2, quat=about("z", angle))
        )
    square = inner * (math.sqrt(3) - 1)  # half side of the largest upright square in a hexagon of this inradius
    return Shape(tuple(walls), (), (0.0, 0.0, height / 2), (square, square, height / 2))


_INSERT = ("graspable", "insertable")
_TAKE = ("receives",)
_SHAFT, _HEAD, _DEPTH = ("shaft", 0.056, 0.062), ("head", 0.028, 0.032), ("depth", 0.0495, 0.0515)
CATEGORIES = (
    Category("peg", "object", "train", peg, 600, (("width", 0.028, 0.036), _SHAFT, _HEAD), _INSERT),
    Category("dowel", "object", "train", dowel, 600, (("radius", 0.015, 0.0195), _SHAFT, _HEAD), _INSERT),
    Category("plug", "object", "train", plug, 500, (("thick", 0.024, 0.03), ("width", 0.042, 0.052), _SHAFT, _HEAD), _INSERT),
    Category("bolt", "object", "validation", bolt, 700, (("radius", 0.015, 0.0195), _SHAFT, _HEAD, ("flat", 0.044, 0.052)), _INSERT),
    Category(
        "pawn", "object", "test", pawn, 900, (("foot", 0.0155, 0.0195), ("height", 0.079, 0.089), ("head", 0.0105, 0.0135)), _INSERT
    ),
    Category("socket", "container", "train", socket, 0, (("hole", 0.036, 0.046), ("wall", 0.014, 0.022), _DEPTH), _TAKE),
    Category(
        "slot", "container", "train", slot, 0, (("thick", 0.032, 0.04), ("width", 0.05, 0.062), ("wall", 0.014, 0.022), _DEPTH), _TAKE
    ),
    Category("collar", "container", "train", collar, 0, (("hole", 0.038, 0.05), ("wall", 0.01, 0.014), _DEPTH), _TAKE),
)  # fmt: skip
