"""Stand-ins for the shapes that MJX cannot collide with boxes: a slot has a fixed row of boxes and capsules, and an asset's primitives are
spread over it with as little change of volume as possible.

Masses, centres of mass and inertia stay those of the true primitives; only what collides changes.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from coda_jax.scenes.assets import Primitive
from coda_jax.scenes.shapes.build import bounding_box, rotation, volume

Slot = tuple[str, ...]  # "box" or "capsule" of each geom
MOST_LOSS = 0.4  # share of an asset's volume that its stand-ins may add and leave out
_GRID = 20  # sample points along each side of the box around a primitive
_POINT_M = 1e-5  # half length of a capsule that stands for a sphere
# Half sides of the boxes that fill a circle of radius 1: they lose 27, 14 and 8 % of it, their corners reach 1.41, 1.14 and 1.10 far.
_SQUARES = {1: ((1.0, 1.0),), 2: ((1.0, 0.54), (0.54, 1.0)), 3: ((1.0, 0.45), (0.45, 1.0), (0.78, 0.78))}
_UPRIGHT = 0.7  # |z| of an axis from which a cylinder rests on its flat end, which a capsule has not


class SurrogateError(ValueError):
    """Primitives that no stand-ins of a slot come near; the message names the geom and says why."""


@dataclasses.dataclass(frozen=True)
class Option:
    """One way to stand in for a primitive. lost_m3: volume added plus volume left out."""

    shapes: tuple[Primitive, ...]
    lost_m3: float

    @property
    def boxes(self) -> int:
        return sum(p.shape == "box" for p in self.shapes)


@dataclasses.dataclass(frozen=True)
class Fit:
    """Primitives in a slot. shapes: one an entry of the slot, None where it stays empty. parts: [primitive] (its stand-ins, volume lost in
    m^3). loss: share of the volume added and left out."""

    shapes: tuple[Primitive | None, ...]
    parts: tuple[Option, ...]
    loss: float

    @property
    def exact(self) -> bool:
        return all(len(part.shapes) == 1 and part.lost_m3 == 0.0 for part in self.parts)


def _inside(p: Primitive, points: np.ndarray) -> np.ndarray:
    """[k] bool: which points [k, 3] lie in a primitive, both in the frame of the asset."""
    local = np.abs((points - p.pos_m) @ np.array(rotation(p.quat_wxyz)))
    a, b, c = p.size_m
    if p.shape == "box":
        return np.all(local <= (a, b, c), axis=1)
    if p.shape == "ellipsoid":
        return ((local / (a, b, c)) ** 2).sum(1) <= 1.0
    if p.shape == "sphere":
        return (local**2).sum(1) <= a * a
    if p.shape == "cylinder":
        return ((local[:, :2] ** 2).sum(1) <= a * a) & (local[:, 2] <= b)
    return (local[:, :2] ** 2).sum(1) + np.maximum(local[:, 2] - b, 0.0) ** 2 <= a * a  # capsule


def lost_volume(p: Primitive, shapes: Sequence[Primitive]) -> float:
    """Volume that is in ``p`` or in ``shapes`` but not in both, m^3, by a grid of points in the box around all of them."""
    low, high = (np.array(corner) for corner in bounding_box((p, *shapes)))
    ticks = (np.arange(_GRID) + 0.5) / _GRID
    cells = np.stack(np.meshgrid(ticks, ticks, ticks, indexing="ij"), -1).reshape(-1, 3)
    points = low + cells * (high - low)
    union = np.any([_inside(s, points) for s in shapes], axis=0)
    return float((_inside(p, points) != union).mean() * np.prod(high - low))


def _box(p: Primitive, size_m: tuple[float, float, float]) -> Primitive:
    return Primitive("box", size_m, p.pos_m, p.quat_wxyz)


def _crossed(p: Primitive, count: int) -> tuple[Primitive, ...]:
    """``count`` upright boxes for a cylinder, of its height and as wide as its circle along both of its axes."""
    radius, half, _ = p.size_m
    return tuple(_box(p, (radius * a, radius * b, half)) for a, b in _SQUARES[count])


def _long(p: Primitive) -> tuple[Primitive, ...]:
    """A capsule along the longest axis of an ellipsoid, as thick as it is in the more upright of the two others."""
    size, rows = p.size_m, rotation(p.quat_wxyz)
    along = int(np.argmax(size))
    thick = max((i for i in range(3) if i != along), key=lambda i: abs(rows[2][i]))
    turn = {0: (math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0), 1: (math.sqrt(0.5), -math.sqrt(0.5), 0.0, 0.0), 2: (1.0, 0.0, 0.0, 0.0)}[along]
    w, x, y, z = p.quat_wxyz
    a, b, c, d = turn
    quat = (
        w * a - x * b - y * c - z * d,
        w * b + x * a + y * d - z * c,
        w * c - x * d + y * a + z * b,
        w * d + x * c - y * b + z * a,
    )
    return (Primitive("capsule", (size[thick], max(size[along] - size[thick], _POINT_M), 0.0), p.pos_m, quat),)


def _squeezed(p: Primitive) -> tuple[Primitive, ...]:
    """A box of a round thing's volume and height: it rests as high, and is narrower."""
    size = p.size_m if p.shape == "ellipsoid" else (p.size_m[0],) * 3
    rows = rotation(p.quat_wxyz)
    up = max(range(3), key=lambda i: abs(rows[2][i]))
    share = math.sqrt(math.pi / 6)
    a, b, c = (s if i == up else s * share for i, s in enumerate(size))
    return (_box(p, (a, b, c)),)


@functools.lru_cache(maxsize=16384)
def options(p: Primitive) -> tuple[Option, ...]:
    """The ways to stand in for a primitive with boxes and capsules."""
    a, b, _ = p.size_m
    if p.shape == "box":
        return (Option((p,), 0.0),)
    if p.shape == "capsule":
        block = (_box(p, (a, a, b + a)),)
        return Option((p,), 0.0), Option(block, lost_volume(p, block))
    if p.shape == "sphere":
        ways = [(Primitive("capsule", (a, _POINT_M, 0.0), p.pos_m, p.quat_wxyz),), _squeezed(p)]
    elif p.shape == "ellipsoid":
        ways = [_long(p), _squeezed(p)]
    else:
        ways = [_crossed(p, n) for n in _SQUARES]
        if abs(rotation(p.quat_wxyz)[2][2]) < _UPRIGHT and b > a:
            ways.append((Primitive("capsule", (a, b - a, 0.0), p.pos_m, p.quat_wxyz),))
    return tuple(Option(shapes, lost_volume(p, shapes)) for shapes in ways)


@functools.lru_cache(maxsize=16384)
def fit(primitives: tuple[Primitive, ...], slot: Slot) -> Fit:
    """The assignment of primitives to a slot's geoms that loses the least volume.

    Raises:
      SurrogateError: the slot has too few geoms, or the best assignment loses more than MOST_LOSS of the volume.
    """
    boxes, capsules = slot.count("box"), slot.count("capsule")
    best: dict[tuple[int, int], tuple[float, tuple[Option, ...]]] = {(0, 0): (0.0, ())}
    for p in primitives:
        grown: dict[tuple[int, int], tuple[float, tuple[Option, ...]]] = {}
        for (used, bent), (lost, chosen) in best.items():
            for option in options(p):
                key = (used + option.boxes, bent + len(option.shapes) - option.boxes)
                if key[0] > boxes or key[1] > capsules:
                    continue
                total = lost + option.lost_m3
                if key not in grown or total < grown[key][0]:
                    grown[key] = (total, (*chosen, option))
        best = grown
    text = " + ".join(p.shape for p in primitives)
    if not best:
        raise SurrogateError(f"{text} needs more geoms than the slot's {boxes} boxes and {capsules} capsules")
    lost, parts = min(best.values(), key=lambda found: found[0])
    loss = lost / sum(volume(p) for p in primitives)
    if loss > MOST_LOSS:
        worst = max(range(len(primitives)), key=lambda i: parts[i].lost_m3)
        raise SurrogateError(
            f"geom {worst}, a {primitives[worst].shape}, collides with boxes in no way that MJX has, and the boxes and capsules left for "
            f"{text} change {100 * loss:.0f} % of its volume (at most {100 * MOST_LOSS:.0f} %)"
        )
    free = {kind: [i for i, shape in enumerate(slot) if shape == kind] for kind in ("box", "capsule")}
    shapes: list[Primitive | None] = [None] * len(slot)
    for part in parts:
        for shape in part.shapes:
            shapes[free[shape.shape].pop(0)] = shape
    return Fit(tuple(shapes), parts, loss)


def height_change_m(primitives: Sequence[Primitive], found: Fit) -> float:
    """How much lower (negative: higher) the stand-ins reach than the primitives, m."""
    return bounding_box([s for s in found.shapes if s is not None])[0][2] - bounding_box(primitives)[0][2]
