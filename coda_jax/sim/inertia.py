"""Mass distribution of objects made of primitives: solid, of one density, overlaps counted twice."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from coda_jax.scenes.assets import Primitive
from coda_jax.scenes.shapes.build import volume


def _principal(p: Primitive) -> np.ndarray:
    """Moments of inertia [3] per kilogram of a primitive about its own centre and axes, m^2."""
    a, b, c = p.size_m
    if p.shape == "box":
        return np.array([b * b + c * c, a * a + c * c, a * a + b * b]) / 3
    if p.shape == "ellipsoid":
        return np.array([b * b + c * c, a * a + c * c, a * a + b * b]) / 5
    if p.shape == "sphere":
        return np.full(3, 0.4 * a * a)
    across, along = (3 * a * a + 4 * b * b) / 12, a * a / 2  # cylinder of radius a and half length b
    if p.shape == "capsule":
        caps = 4 / 3 * a / (2 * b + 4 / 3 * a)  # share of the mass in the two half spheres
        across = (1 - caps) * across + caps * (0.4 * a * a + b * b + 0.75 * a * b)
        along = (1 - caps) * along + caps * 0.4 * a * a
    return np.array([across, across, along])


def mass_distribution(primitives: Sequence[Primitive], mass_kg: float) -> tuple[np.ndarray, np.ndarray]:
    """Centre of mass [3] (m) and inertia tensor about it [3, 3] (kg m^2), in the frame of the primitives."""
    volumes = np.array([volume(p) for p in primitives])
    masses = mass_kg * volumes / volumes.sum()
    centres = np.array([p.pos_m for p in primitives])
    centre = masses @ centres / mass_kg
    tensor = np.zeros((3, 3))
    for p, mass, offset in zip(primitives, masses, centres - centre, strict=True):
        axes = np.empty(9)
        mujoco.mju_quat2Mat(axes, np.array(p.quat_wxyz))
        axes = axes.reshape(3, 3)
        tensor += mass * (axes @ np.diag(_principal(p)) @ axes.T + offset @ offset * np.eye(3) - np.outer(offset, offset))
    return centre, tensor
