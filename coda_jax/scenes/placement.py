"""Plane geometry of a scene: footprints as rotated rectangles, gaps between them, room for the open hand around a grasp."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from coda_jax.scenes.assets import Asset, Grasp

REACH_X_M = (0.32, 0.68)
REACH_Y_M = (-0.28, 0.28)
REACH_RADIUS_M = 0.72
OPEN_JAW_M = 0.04  # each finger pad's distance from the grip point with the hand fully open
FINGER_THICKNESS_M = 0.015  # with a little play
FINGER_HALF_WIDTH_M = 0.012
FINGER_BELOW_GRIP_M = 0.011
PALM_HALF_M = (0.105, 0.035)
PALM_ABOVE_GRIP_M = 0.04


@dataclasses.dataclass(frozen=True)
class Workspace:
    """Where on a table things may stand, m in the base frame.

    reach_*: of the hand: sides, and the distance from the base. stand_*: of things that nobody has to reach.
    """

    reach_x_m: tuple[float, float]
    reach_y_m: tuple[float, float]
    reach_radius_m: float
    stand_x_m: tuple[float, float]
    stand_y_m: tuple[float, float]

    def reaches(self, x: float, y: float) -> bool:
        """Whether the hand gets there."""
        (x0, x1), (y0, y1) = self.reach_x_m, self.reach_y_m
        return x0 <= x <= x1 and y0 <= y <= y1 and math.hypot(x, y) <= self.reach_radius_m

    def takes(self, x: float, y: float) -> bool:
        """Whether something may stand there that nobody has to reach."""
        return self.stand_x_m[0] <= x <= self.stand_x_m[1] and self.stand_y_m[0] <= y <= self.stand_y_m[1]

    def margin(self, x: float, y: float) -> float:
        """Distance from the edge of the reach, m; concave, so on a straight line it falls once and for all."""
        (x0, x1), (y0, y1) = self.reach_x_m, self.reach_y_m
        return min(x - x0, x1 - x, y - y0, y1 - y, self.reach_radius_m - math.hypot(x, y))


OWN_TABLE = Workspace(REACH_X_M, REACH_Y_M, REACH_RADIUS_M, (0.3, 0.7), (-0.3, 0.3))


@dataclasses.dataclass(frozen=True)
class Footprint:
    """A rotated rectangle on the table and the heights between which it stands (all in metres)."""

    x: float
    y: float
    hx: float
    hy: float
    yaw: float
    bottom: float = 0.0
    top: float = math.inf

    @property
    def radius(self) -> float:
        return math.hypot(self.hx, self.hy)

    def corners(self) -> np.ndarray:
        """[4, 2], counter-clockwise."""
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        signs = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)]) * (self.hx, self.hy)
        return signs @ np.array([(c, s), (-s, c)]) + (self.x, self.y)


def footprint(asset: Asset, x: float, y: float, yaw: float, bottom: float = 0.0) -> Footprint:
    """Footprint of an asset whose bounding box stands at (x, y) on a face at height ``bottom``."""
    hx, hy, hz = asset.half_extent_m
    return Footprint(x, y, hx, hy, yaw, bottom, bottom + 2 * hz)


def _separation(a: np.ndarray, b: np.ndarray) -> float:
    """Largest gap along the edge normals of two rectangles; negative where they overlap."""
    best = -math.inf
    for corners in (a, b):
        for i in (0, 1):
            edge = corners[i + 1] - corners[i]
            normal = np.array((edge[1], -edge[0])) / max(math.hypot(*edge), 1e-12)
            pa, pb = a @ normal, b @ normal
            best = max(best, float(pb.min() - pa.max()), float(pa.min() - pb.max()))
    return best


def gap(a: Footprint, b: Footprint) -> float:
    """Distance of two footprints in the table plane, m; negative (depth) where they overlap."""
    pa, pb = a.corners(), b.corners()
    apart = _separation(pa, pb)
    if apart <= 0:
        return apart
    return min(_corner_distance(pa, b), _corner_distance(pb, a))


def closer_than(a: Footprint, b: Footprint, least_m: float) -> bool:
    """Whether the gap of two footprints is below a limit; their circles answer for most pairs."""
    return math.hypot(a.x - b.x, a.y - b.y) < a.radius + b.radius + least_m and gap(a, b) < least_m


def _corner_distance(points: np.ndarray, other: Footprint) -> float:
    c, s = math.cos(other.yaw), math.sin(other.yaw)
    local = (points - (other.x, other.y)) @ np.array([(c, -s), (s, c)])
    outside = np.maximum(np.abs(local) - (other.hx, other.hy), 0.0)
    return float(np.hypot(outside[:, 0], outside[:, 1]).min())


def within_reach(x: float, y: float) -> bool:
    return OWN_TABLE.reaches(x, y)


def hand_boxes(grasp: Grasp, x: float, y: float, yaw: float, centre_z: float) -> tuple[tuple[Footprint, ...], Footprint]:
    """What the open hand sweeps when it comes down to a grasp of an object centred at (x, y, centre_z).

    Returns:
      the two fingers, each from the object's side to the outside of the open jaw, and the palm; ``bottom`` is their lowest point.
    """
    c, s = math.cos(yaw), math.sin(yaw)
    gx, gy = x + c * grasp.pos_m[0] - s * grasp.pos_m[1], y + s * grasp.pos_m[0] + c * grasp.pos_m[1]
    jaw = yaw + grasp.yaw_rad
    inner, outer = grasp.width_m / 2, OPEN_JAW_M + FINGER_THICKNESS_M
    half, middle = (outer - inner) / 2, (outer + inner) / 2
    tip = centre_z + grasp.pos_m[2] - FINGER_BELOW_GRIP_M
    fingers = tuple(
        Footprint(gx + side * middle * math.cos(jaw), gy + side * middle * math.sin(jaw), half, FINGER_HALF_WIDTH_M, jaw, tip)
        for side in (1, -1)
    )
    palm = Footprint(gx, gy, *PALM_HALF_M, jaw, centre_z + grasp.pos_m[2] + PALM_ABOVE_GRIP_M)
    return fingers, palm


def grasp_is_free(grasp: Grasp, x: float, y: float, yaw: float, centre_z: float, others: list[Footprint]) -> bool:
    """Whether the open hand reaches the grasp without touching any other footprint that is tall enough to be hit."""
    fingers, palm = hand_boxes(grasp, x, y, yaw, centre_z)
    parts = (*fingers, palm)
    return not any(o.top > part.bottom and closer_than(part, o, 0.0) for part in parts for o in others)


def free_grasps(asset: Asset, x: float, y: float, yaw: float, bottom: float, others: list[Footprint]) -> tuple[Grasp, ...]:
    """Grasps of an asset standing at (x, y) that the open hand can reach."""
    centre_z = bottom + asset.half_extent_m[2]
    return tuple(g for g in asset.grasps if grasp_is_free(g, x, y, yaw, centre_z, others))


def grasps_among(name: str, asset: Asset, shapes: Mapping[str, Footprint]) -> tuple[Grasp, ...]:
    """Grasps of one of the things that stand as ``shapes`` says, by id, that the open hand can reach."""
    mine = shapes[name]
    around = [s for n, s in shapes.items() if n != name and s.top > mine.bottom]
    return free_grasps(asset, mine.x, mine.y, mine.yaw, mine.bottom, around)
