"""Where top-down jaws can close on a thing made of primitives: for assets made from a mesh, and to check the catalogue's own."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from coda_jax.scenes.assets import Grasp, Primitive
from coda_jax.scenes.shapes.build import MAX_ABOVE_GRIP_M, MAX_GRASP_WIDTH_M, MIN_GRIP_HEIGHT_M, rotation, volume

FINGER_HALF_WIDTH_M = 0.01
TIP_BELOW_GRIP_M = 0.011
MIN_GRASP_WIDTH_M = 0.015
_GRID = 33  # points along each side of a face: 2-3 mm apart on the largest things
_YAWS = tuple(i * math.pi / 8 for i in range(8))
_STEPS = (0.0, 0.008, -0.008, 0.016, -0.016, 0.024, -0.024, 0.032, -0.032)  # tried on both sides of the centre of mass, m
_PRESSED_M, _SLOPE_M = 0.004, 0.002  # half height of the place that must be the widest, and by how much it may fall short


def _faces() -> np.ndarray:
    """Points on the surface of the cube -1..1, [k, 3]."""
    u, v = (g.ravel() for g in np.meshgrid(np.linspace(-1, 1, _GRID), np.linspace(-1, 1, _GRID)))
    one = np.ones_like(u)
    sides = [np.roll(np.stack([side * one, u, v], axis=1), axis, axis=1) for axis in range(3) for side in (1, -1)]
    return np.concatenate(sides)


_CUBE = _faces()
_BALL = _CUBE / np.linalg.norm(_CUBE, axis=1, keepdims=True)


def surface(p: Primitive) -> np.ndarray:
    """Points on the surface of a primitive, [k, 3] m, in the frame of the asset."""
    a, b, c = p.size_m
    if p.shape == "box":
        local = _CUBE * (a, b, c)
    elif p.shape in ("sphere", "ellipsoid"):
        local = _BALL * ((a, a, a) if p.shape == "sphere" else (a, b, c))
    elif p.shape == "capsule":
        local = _BALL * a + np.sign(_BALL[:, 2:]) * (0.0, 0.0, b)
        middle = _disc(_CUBE) * (a, a, b)
        local = np.concatenate([local, middle])
    else:
        local = _disc(_CUBE) * (a, a, b)
    return local @ np.array(rotation(p.quat_wxyz)).T + p.pos_m


def _disc(cube: np.ndarray) -> np.ndarray:
    """The cube's surface pressed onto the cylinder of radius 1 and half length 1."""
    square = np.abs(cube[:, :2]).max(axis=1, keepdims=True)
    length = np.linalg.norm(cube[:, :2], axis=1, keepdims=True)
    return np.concatenate([cube[:, :2] * square / np.maximum(length, 1e-9), cube[:, 2:]], axis=1)


def swept(points: np.ndarray, grasp: Grasp) -> tuple[float, float]:
    """How far everything that the fingers of a grasp sweep reaches to both sides of the grip point, m; both 0 where nothing is.

    Args:
      points: [k, 3] on the surface of the thing. grasp: its width does not count.
    """
    along, across, up = _jaw_frame(points, grasp)
    met = along[(np.abs(across) <= FINGER_HALF_WIDTH_M) & (up >= -TIP_BELOW_GRIP_M)]
    return (float(-met.min()), float(met.max())) if len(met) else (0.0, 0.0)


def _jaw_frame(points: np.ndarray, grasp: Grasp) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    offset = points - grasp.pos_m
    c, s = math.cos(grasp.yaw_rad), math.sin(grasp.yaw_rad)
    return c * offset[:, 0] + s * offset[:, 1], c * offset[:, 1] - s * offset[:, 0], offset[:, 2]


def find_grasps(primitives: Sequence[Primitive], half_height_m: float, count: int = 4) -> tuple[Grasp, ...]:
    """Top-down grasps of a thing in the frame of its bounding box's centre: best first, at most one a yaw; empty where none fits.

    Tried: eight yaws, places on both sides of the centre of mass, four heights that tips and palm allow. What counts first is to be
    near the centre of mass and low, then a narrow grasp.
    """
    points = np.concatenate([surface(p) for p in primitives])
    weights = np.array([volume(p) for p in primitives])
    centre = weights @ np.array([p.pos_m for p in primitives]) / weights.sum()
    lowest = max(MIN_GRIP_HEIGHT_M - half_height_m, half_height_m - MAX_ABOVE_GRIP_M)
    heights = sorted({math.ceil(max(lowest, z) * 1e5) / 1e5 for z in (lowest, 0.0, half_height_m - 0.012, half_height_m - 0.005)})
    best: list[tuple[float, Grasp]] = []
    for yaw in _YAWS:
        found = []
        for step in _STEPS:
            for z in heights:
                x, y = centre[0] - math.sin(yaw) * step, centre[1] + math.cos(yaw) * step
                grasp = _closed(points, Grasp((float(x), float(y), z), yaw, 0.0))
                if grasp is not None:
                    off = math.dist(grasp.pos_m[:2], centre[:2])
                    found.append((off + 0.1 * grasp.width_m + 0.3 * (z - heights[0]), grasp))
        if found:
            best.append(min(found, key=lambda f: f[0]))
    return tuple(g for _, g in sorted(best, key=lambda f: f[0])[:count])


def _closed(points: np.ndarray, grasp: Grasp) -> Grasp | None:
    """The grasp with its width, moved to the middle between the jaws; None where the jaws do not fit or meet nothing to press on."""
    low, high = swept(points, grasp)
    width = low + high
    if not MIN_GRASP_WIDTH_M <= width <= MAX_GRASP_WIDTH_M / 1.04:
        return None
    shift = (high - low) / 2
    x, y, z = grasp.pos_m
    middle = Grasp((round(x + shift * math.cos(grasp.yaw_rad), 6), round(y + shift * math.sin(grasp.yaw_rad), 6), z), grasp.yaw_rad, width)
    along, across, up = _jaw_frame(points, middle)
    # the widest place must be where the pads press, not below it: pads on a slope push the thing out downwards
    pressed = (np.abs(across) <= FINGER_HALF_WIDTH_M) & (np.abs(up) <= _PRESSED_M)
    for side in (1, -1):
        if not (pressed & (side * along >= width / 2 - _SLOPE_M)).any():
            return None
    return Grasp(middle.pos_m, round(grasp.yaw_rad, 6), round(width, 6))
