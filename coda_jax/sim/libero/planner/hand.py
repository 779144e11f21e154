"""The Panda's hand as LIBERO mounts it: its sizes, its orientations, and how much room it takes about a grip point."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Float

from coda_jax.scenes.placement import Footprint, gap

TIP_M = 0.0092  # finger tips below the grip point, along the approach
PALM_M = 0.031  # the palm above it
OPEN_M = 0.04  # a finger's inner face from the grip point when the hand is open
FINGER_M = 0.0145  # thickness of a finger tip
FINGER_HALF_M = 0.0105  # half its width
PALM_HALF_M = (0.104, 0.032)
NEUTRAL_RAD = -math.pi / 2  # yaw along which the jaws close at the start
_PLAY_M = 0.003
_SHOULDER_M = (0.0, 0.0, 0.345)
_BACK_M, _INWARDS_M = 0.21, 0.088  # from the grip point to the wrist: against the approach, and across it towards the robot
_REACH_M = (
    0.33,
    0.655,
)  # of the wrist from the shoulder, within which the controller has force to spare: folded it is 0.25, stretched 0.72
_ACROSS = 0.35  # least share of a tilt across the closing that goes outwards
_TILTS_RAD = np.arange(0.0, 0.65, 0.05)


def rotation(closing: Float[np.ndarray, "*b 3"], approach: Float[np.ndarray, "*b 3"]) -> Float[np.ndarray, "*b 3 3"]:
    """Rotations of the hand with the jaws closing along one unit vector and the fingers pointing along another."""
    return np.stack([np.cross(closing, approach), closing, approach], -1)


def level(yaw: Float[np.ndarray, " b"]) -> Float[np.ndarray, "b 3"]:
    """Horizontal unit vectors."""
    return np.stack([np.cos(yaw), np.sin(yaw), np.zeros_like(yaw)], -1)


def reaching(point: Float[np.ndarray, " 3"], yaw: float) -> Float[np.ndarray, " 3"]:
    """Approach at a grip point with the jaws closing along a yaw: straight down, or tilted across the closing as far as the arm needs.

    Outwards where it would be stretched, inwards where it would be folded.
    """
    outwards = np.array([point[0], point[1], 0.0]) / math.hypot(point[0], point[1])
    across = np.array([-math.sin(yaw), math.cos(yaw), 0.0])
    across *= math.copysign(1.0, float(across @ outwards))
    if across @ outwards < _ACROSS:
        across = outwards
    low, high = _REACH_M
    best, least = np.array([0.0, 0.0, -1.0]), math.inf
    for tilt in _TILTS_RAD:
        for sign in (1, -1):
            approach = sign * math.sin(tilt) * across - np.array([0.0, 0.0, math.cos(tilt)])
            inwards = -(outwards - (outwards @ approach) * approach)
            wrist = point - _BACK_M * approach + _INWARDS_M * inwards / np.linalg.norm(inwards) - _SHOULDER_M
            reach = float(np.linalg.norm(wrist))
            lacking = max(low - reach, reach - high, 0.0)
            if lacking < least:
                best, least = approach, lacking
    return best


def nearest(yaw: Any, around: Any) -> Any:
    """``yaw``, a number or an array, shifted by a multiple of pi (the jaws are symmetric) to lie nearest to ``around``."""
    return yaw - np.pi * np.round((yaw - around) / np.pi)


def room(point: Float[np.ndarray, " 3"], yaw: float, others: Iterable[Footprint]) -> float:
    """Smallest gap of the open hand, pointing down with its grip point there, to other things, m; negative where it overlaps one."""
    x, y, z = (float(v) for v in point)
    jaws = Footprint(x, y, OPEN_M + FINGER_M + _PLAY_M, FINGER_HALF_M, yaw, z - TIP_M)  # all that the fingers sweep
    parts = (jaws, Footprint(x, y, *PALM_HALF_M, yaw, z + PALM_M))
    return min((gap(part, other) for other in others for part in parts if other.top > part.bottom), default=math.inf)
