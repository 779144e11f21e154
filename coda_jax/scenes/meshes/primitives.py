"""A convex piece as one primitive: the shape that keeps the piece's sides and comes nearest to its volume."""

from __future__ import annotations

import math

import numpy as np

from coda_jax.scenes.assets import Primitive
from coda_jax.scenes.shapes.build import rotation, volume

_ROUND = 0.2  # two sides that differ by less may be those of a cylinder
_AXES = {2: (0, 1, 2), 0: (1, 2, 0), 1: (2, 0, 1)}  # a cylinder's axis to the order of the box's axes that makes it z
_SAMPLES = 20_000


def quaternion(matrix: np.ndarray) -> tuple[float, float, float, float]:
    """Unit quaternion wxyz of a rotation matrix [3, 3]."""
    from scipy.spatial.transform import Rotation

    x, y, z, w = Rotation.from_matrix(matrix).as_quat(canonical=True)
    return float(w), float(x), float(y), float(z)


def fit(points: np.ndarray, solid_m3: float) -> Primitive:
    """The primitive for a convex piece.

    Args:
      points: [n, 3] vertices, m. solid_m3: volume of the piece.
    """
    import trimesh

    to_box, sides = trimesh.bounds.oriented_bounds(points)
    frame = np.linalg.inv(to_box)
    half, axes, centre = np.array(sides) / 2, frame[:3, :3], frame[:3, 3]
    found = [_made("box", half, axes, centre), _made("ellipsoid", half, axes, centre)]
    for order in _AXES.values():
        a, b, c = half[list(order)]
        if abs(a - b) < _ROUND * max(a, b):
            found.append(_made("cylinder", np.array([math.sqrt(a * b), c, 0.0]), axes[:, list(order)], centre))
    return min(found, key=lambda p: abs(math.log(volume(p) / solid_m3)))


def _made(shape: str, size: np.ndarray, axes: np.ndarray, centre: np.ndarray) -> Primitive:
    a, b, c = (round(float(v), 6) for v in size)
    x, y, z = (round(float(v), 6) for v in centre)
    w, i, j, k = (round(v, 9) for v in quaternion(axes))
    return Primitive(shape, (a, b, c), (x, y, z), (w, i, j, k))


def inside(p: Primitive, points: np.ndarray) -> np.ndarray:
    """[n] bool: which points [n, 3] lie in a box, cylinder or ellipsoid."""
    local = (points - np.array(p.pos_m)) @ np.array(rotation(p.quat_wxyz))
    if p.shape == "box":
        return np.all(np.abs(local) <= p.size_m, axis=1)
    if p.shape == "ellipsoid":
        return ((local / p.size_m) ** 2).sum(axis=1) <= 1
    return (np.hypot(local[:, 0], local[:, 1]) <= p.size_m[0]) & (np.abs(local[:, 2]) <= p.size_m[1])


def overlap(pieces: list[np.ndarray], primitives: list[Primitive]) -> float:
    """Volume that convex pieces (vertices [n, 3] each) and primitives share, as a part of what both fill together: 1 is a perfect fit."""
    from scipy.spatial import ConvexHull

    corners = np.concatenate(pieces)
    low, high = corners.min(axis=0), corners.max(axis=0)
    margin = 0.1 * (high - low)
    points = np.random.default_rng(0).uniform(low - margin, high + margin, (_SAMPLES, 3))
    solid, made = np.zeros(_SAMPLES, bool), np.zeros(_SAMPLES, bool)
    for piece in pieces:
        planes = ConvexHull(piece).equations
        solid |= (points @ planes[:, :3].T + planes[:, 3] <= 1e-9).all(axis=1)
    for p in primitives:
        made |= inside(p, points)
    return float((solid & made).sum() / max((solid | made).sum(), 1))
