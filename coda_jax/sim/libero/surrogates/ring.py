"""Bowls in a few boxes: a ring of walls and a floor, for things whose thin walls no hull of neighbours keeps open.

LIBERO's round vessels are rings of thin upright boxes about a vertical axis, and boxes that lie flat inside of the lowest ring. The
uppermost ring becomes ``SECTORS`` walls of the same radius, height, tilt and thickness; what is below it one box that stands on the same ground.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda_jax.sim.libero.surrogates.cover import Box

SECTORS = 8
_LEAST_WALLS = 12  # upright boxes about the axis that make a ring
_FLAT = 0.9  # vertical share of a lying box's normal


def _normal(box: Box) -> np.ndarray:
    return box.rotation[:, int(np.argmin(box.half))]


def ring(boxes: Sequence[Box]) -> tuple[Box, ...] | None:
    """SECTORS walls and a floor, or None where the boxes are no vessel about the vertical axis of their frame."""
    walls = [b for b in boxes if abs(_normal(b)[2]) < _FLAT]
    floor = [b for b in boxes if abs(_normal(b)[2]) >= _FLAT]
    if len(walls) < _LEAST_WALLS or not floor:
        return None
    top = max(b.corners[:, 2].max() for b in walls)
    upper = [b for b in walls if b.corners[:, 2].max() > top - b.half.max()]
    if len(upper) < _LEAST_WALLS or len({_sector(b) for b in upper}) < SECTORS:
        return None
    profile = np.array([_profile(b) for b in upper])
    radius, height, tilt, half_thick, half_long = np.median(profile, 0)
    # A polygon whose sides lie at this distance is in the mean as far from the axis as the circle.
    half_angle = np.pi / SECTORS
    apothem = radius * half_angle / np.arctanh(np.sin(half_angle))
    half_wide = apothem * np.tan(half_angle)
    made = []
    for k in range(SECTORS):
        outward = np.array([np.cos(2 * half_angle * k), np.sin(2 * half_angle * k), 0.0])
        along = np.sin(tilt) * outward + np.cos(tilt) * np.array([0.0, 0.0, 1.0])
        across = np.array([-outward[1], outward[0], 0.0])
        rotation = np.stack([np.cross(across, along), across, along], 1)
        made.append(Box(apothem * outward + [0.0, 0.0, height], rotation, np.array([half_thick, half_wide, half_long])))
    return (*made, _ground(floor, [b for b in walls if b not in upper], height - half_long * np.cos(tilt), radius - half_long * np.sin(tilt)))


def _sector(box: Box) -> int:
    return int(np.floor(np.arctan2(box.pos[1], box.pos[0]) / (2 * np.pi) * SECTORS + 0.5)) % SECTORS


def _profile(box: Box) -> tuple[float, float, float, float, float]:
    """Radius and height of a wall's middle, its tilt away from the axis, half its thickness and half its length along the slope."""
    outward = box.pos[:2] / np.linalg.norm(box.pos[:2])
    slope = int(np.argmax(np.abs(box.rotation[2])))
    along = box.rotation[:, slope] * np.sign(box.rotation[2, slope])
    return (
        float(np.linalg.norm(box.pos[:2])),
        float(box.pos[2]),
        float(np.arctan2(along[:2] @ outward, along[2])),
        float(box.half.min()),
        float(box.half[slope]),
    )


def _ground(floor: Sequence[Box], lower: Sequence[Box], wall_foot: float, foot_radius: float) -> Box:
    """From the ground to the floor's upper face, or to the foot of the walls above it; square, within the radius at the foot."""
    low = min(b.corners[:, 2].min() for b in (*floor, *lower))
    high = max(b.corners[:, 2].max() for b in floor)
    if lower:
        high = max(high, wall_foot)
    reach = max(np.abs(np.concatenate([b.corners[:, :2] for b in floor])).max(), foot_radius / np.sqrt(2))
    half = np.array([reach, reach, (high - low) / 2])
    return Box(np.array([0.0, 0.0, (low + high) / 2]), np.eye(3), half)
