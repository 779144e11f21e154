"""Bowls in a few boxes: rings of walls and a floor, for things whose thin walls no hull of neighbours keeps open.

LIBERO's round vessels are rings of thin upright boxes about a vertical axis, one above another, and boxes that lie flat inside of the
lowest. Every ring becomes ``SECTORS`` walls of its radius, height, tilt and thickness; the floor one square box inside of the lowest ring.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda_jax.sim.libero.surrogates.cover import Box

SECTORS = 8
_LEAST_WALLS = 12  # upright boxes about the axis that make a ring
_APART_M = 0.005  # between the heights of two rings' walls
_FLAT = 0.9  # vertical share of a lying box's normal


def _normal(box: Box) -> np.ndarray:
    return box.rotation[:, int(np.argmin(box.half))]


def vessel(boxes: Sequence[Box]) -> tuple[Box, ...] | None:
    """SECTORS walls of every ring and a floor, or None where the boxes are no vessel about the vertical axis of their frame."""
    walls = sorted((b for b in boxes if abs(_normal(b)[2]) < _FLAT), key=lambda box: box.pos[2])
    floor = [b for b in boxes if abs(_normal(b)[2]) >= _FLAT]
    rings: list[list[Box]] = []
    for wall in walls:
        if not rings or wall.pos[2] - rings[-1][-1].pos[2] > _APART_M:
            rings.append([])
        rings[-1].append(wall)
    if not rings or not floor or any(len(r) < _LEAST_WALLS or len({_sector(b) for b in r}) < SECTORS for r in rings):
        return None
    return (*(wall for ring in rings for wall in _walls(ring)), _floor(floor, rings[0]))


def _walls(ring: Sequence[Box]) -> list[Box]:
    radius, height, tilt, half_thick, half_long = np.median([_profile(b) for b in ring], 0)
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
    return made


def _sector(box: Box) -> int:
    return int(np.floor(np.arctan2(box.pos[1], box.pos[0]) / (2 * np.pi) * SECTORS + 0.5)) % SECTORS


def _profile(box: Box) -> tuple[float, float, float, float, float]:
    """Radius and height of a wall's middle, its tilt away from the axis, half its thickness and half its length along the slope."""
    outward = box.pos[:2] / np.linalg.norm(box.pos[:2])
    slope = max((axis for axis in range(3) if axis != np.argmin(box.half)), key=lambda axis: abs(box.rotation[2, axis]))
    along = box.rotation[:, slope] * np.sign(box.rotation[2, slope])
    return (
        float(np.linalg.norm(box.pos[:2])),
        float(box.pos[2]),
        float(np.arctan2(along[:2] @ outward, along[2])),
        float(box.half.min()),
        float(box.half[slope]),
    )


def _floor(floor: Sequence[Box], lowest: Sequence[Box]) -> Box:
    """As thick as the lying boxes and as wide as they reach, down to where the lowest ring stands."""
    corners = np.concatenate([b.corners for b in floor])
    low = min(corners[:, 2].min(), *(b.corners[:, 2].min() for b in lowest))
    high, reach = corners[:, 2].max(), np.abs(corners[:, :2]).max()
    radius, _, tilt, _, half_long = np.median([_profile(b) for b in lowest], 0)
    reach = min(reach, (radius - half_long * np.sin(tilt)) / np.sqrt(2))  # its corners stay within the foot of the walls
    return Box(np.array([0.0, 0.0, (low + high) / 2]), np.eye(3), np.array([reach, reach, (high - low) / 2]))
