"""Putting primitives together: bounding boxes, recentring, and the rules that make a top-down grasp feasible."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

from coda_jax.scenes.assets import Grasp, Primitive

Vector = tuple[float, float, float]

MAX_GRASP_WIDTH_M = 0.07  # the jaws open 0.08 m
MAX_ABOVE_GRIP_M = 0.04  # the palm is about 0.045 m above the grip point
MIN_GRIP_HEIGHT_M = 0.012  # the finger tips end a centimetre below the grip point
ROUND_YAWS = (0.0, math.pi / 2, math.pi / 4, -math.pi / 4)


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a builder returns: primitives and grasps in any frame; ``assemble`` moves the origin to the bounding box's centre."""

    primitives: tuple[Primitive, ...]
    grasps: tuple[Grasp, ...] = ()
    cavity_pos_m: Vector = (0.0, 0.0, 0.0)
    cavity_half_m: Vector = (0.0, 0.0, 0.0)


Builder = Callable[[Mapping[str, float]], Shape]


def about(axis: str, angle_rad: float) -> tuple[float, float, float, float]:
    """Unit quaternion wxyz of a turn about the x, y or z axis."""
    c, s = math.cos(angle_rad / 2), math.sin(angle_rad / 2)
    return (c, s if axis == "x" else 0.0, s if axis == "y" else 0.0, s if axis == "z" else 0.0)


def rotation(quat: Sequence[float]) -> tuple[Vector, Vector, Vector]:
    """Rows of the rotation matrix of a unit quaternion wxyz."""
    w, x, y, z = quat
    return (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )


def _half_box(p: Primitive) -> Vector:
    rows = rotation(p.quat_wxyz)
    a, b, c = p.size_m
    if p.shape == "sphere":
        return (a, a, a)
    if p.shape == "box":
        return _vector(abs(r[0]) * a + abs(r[1]) * b + abs(r[2]) * c for r in rows)
    if p.shape == "ellipsoid":
        return _vector(math.sqrt((r[0] * a) ** 2 + (r[1] * b) ** 2 + (r[2] * c) ** 2) for r in rows)
    if p.shape == "cylinder":
        return _vector(abs(r[2]) * b + a * math.sqrt(max(0.0, 1 - r[2] ** 2)) for r in rows)
    if p.shape == "capsule":
        return _vector(abs(r[2]) * b + a for r in rows)
    raise ValueError(f"unknown shape {p.shape!r}")


def _vector(values) -> Vector:
    x, y, z = values
    return (x, y, z)


def _rounded(values: Sequence[float]) -> Vector:
    return _vector(round(v, 6) + 0.0 for v in values)


def bounding_box(primitives: Sequence[Primitive]) -> tuple[Vector, Vector]:
    """Lowest and highest corner of the box around all primitives, in their own frame."""
    halves = [_half_box(p) for p in primitives]
    low = _vector(min(p.pos_m[i] - h[i] for p, h in zip(primitives, halves, strict=True)) for i in range(3))
    high = _vector(max(p.pos_m[i] + h[i] for p, h in zip(primitives, halves, strict=True)) for i in range(3))
    return low, high


def volume(p: Primitive) -> float:
    """Volume of a primitive in m^3 (overlaps between primitives are counted twice)."""
    a, b, c = p.size_m
    if p.shape == "box":
        return 8 * a * b * c
    if p.shape == "sphere":
        return 4 / 3 * math.pi * a**3
    if p.shape == "ellipsoid":
        return 4 / 3 * math.pi * a * b * c
    cylinder = math.pi * a * a * 2 * b
    return cylinder + (4 / 3 * math.pi * a**3 if p.shape == "capsule" else 0.0)


def assemble(shape: Shape) -> tuple[Shape, Vector]:
    """The shape with its origin at the centre of its bounding box, and the half sizes of that box; all numbers rounded to 1e-6."""
    low, high = bounding_box(shape.primitives)
    centre = _vector((lo + hi) / 2 for lo, hi in zip(low, high, strict=True))

    def moved(pos):
        return _rounded([p - c for p, c in zip(pos, centre, strict=True)])

    primitives = tuple(dataclasses.replace(p, size_m=_rounded(p.size_m), pos_m=moved(p.pos_m)) for p in shape.primitives)
    grasps = tuple(Grasp(moved(g.pos_m), round(g.yaw_rad, 6), round(g.width_m, 6)) for g in shape.grasps)
    cavity = moved(shape.cavity_pos_m) if any(shape.cavity_half_m) else (0.0, 0.0, 0.0)
    half = _rounded([(hi - lo) / 2 for lo, hi in zip(low, high, strict=True)])
    return Shape(primitives, grasps, cavity, _rounded(shape.cavity_half_m)), half


def box(hx: float, hy: float, hz: float, x: float = 0.0, y: float = 0.0, z: float = 0.0, quat=(1.0, 0.0, 0.0, 0.0)) -> Primitive:
    return Primitive("box", (hx, hy, hz), (x, y, z), quat)


def upright_cylinder(radius: float, bottom: float, top: float, x: float = 0.0, y: float = 0.0) -> Primitive:
    return Primitive("cylinder", (radius, (top - bottom) / 2, 0.0), (x, y, (top + bottom) / 2))


def sphere(radius: float, z: float) -> Primitive:
    return Primitive("sphere", (radius, 0.0, 0.0), (0.0, 0.0, z))


def lying_capsule(radius: float, half_length: float, x: float, y: float, z: float, yaw_rad: float = 0.0) -> Primitive:
    """Capsule in the table plane along +y, turned by yaw."""
    c, s = math.cos(yaw_rad / 2), math.sin(yaw_rad / 2)
    k = math.sqrt(0.5)
    # first -90 degrees about x (its own z becomes +y), then the yaw
    return Primitive("capsule", (radius, half_length, 0.0), (x, y, z), (c * k, -c * k, -s * k, s * k))


def lying_cylinder(radius: float, half_length: float, x: float, y: float, z: float, across: bool = False) -> Primitive:
    """Cylinder in the table plane along y, or along x."""
    return Primitive("cylinder", (radius, half_length, 0.0), (x, y, z), about("y" if across else "x", math.pi / 2))


def leaning_capsule(radius: float, half_length: float, x: float, y: float, z: float, lean_rad: float) -> Primitive:
    """Capsule along z, leaning towards +x (negative: -x)."""
    return Primitive("capsule", (radius, half_length, 0.0), (x, y, z), about("y", lean_rad))


def ellipsoid(a: float, b: float, c: float, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Primitive:
    """Ellipsoid with half axes along x, y and z."""
    return Primitive("ellipsoid", (a, b, c), (x, y, z))


def grip_height(height: float) -> float:
    """Height of the grip point over the object's lowest point: the middle, or higher where the palm would touch a tall object."""
    return max(height / 2, height - 0.03, MIN_GRIP_HEIGHT_M)


def box_grasps(hx: float, hy: float, height: float) -> tuple[Grasp, ...]:
    """Grasps across both pairs of sides of a box that fit the jaws, the narrower first."""
    z = grip_height(height)
    sides = [(0.0, 2 * hx), (math.pi / 2, 2 * hy)]
    fitting = [Grasp((0.0, 0.0, z), yaw, width) for yaw, width in sides if width <= MAX_GRASP_WIDTH_M]
    return tuple(sorted(fitting, key=lambda g: g.width_m))


def round_grasps(radius: float, z: float) -> tuple[Grasp, ...]:
    return tuple(Grasp((0.0, 0.0, z), yaw, 2 * radius) for yaw in ROUND_YAWS)
