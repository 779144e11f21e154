"""The Panda's hand as LIBERO mounts it: its sizes, its orientations, and how much room it takes about a grip point."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from coda_jax.scenes.placement import Footprint, gap

TIP_M = 0.0092  # finger tips below the grip point, along the approach
PALM_M = 0.031  # the palm above it
OPEN_M = 0.04  # a finger's inner face from the grip point when the hand is open
FINGER_M = 0.0145  # thickness of a finger tip
FINGER_HALF_M = 0.0105  # half its width
PALM_HALF_M = (0.104, 0.032)
NEUTRAL_RAD = math.pi / 2  # yaw along which the jaws close at the start
_PLAY_M = 0.003
_SHOULDER_M = 0.345  # above the table
_WRIST_M = (0.21, 0.088)  # from the grip point to the wrist: back along the approach, and inwards
_REACH_M = 0.655  # of the wrist from the shoulder, within which the controller still has force to spare; stretched it is 0.719
_MOST_TILT_RAD = 0.6


def rotation(closing: Float[np.ndarray, "b 3"], approach: Float[np.ndarray, "b 3"]) -> Float[np.ndarray, "b 3 3"]:
    """Rotations of the grip site with the jaws closing along one unit vector and the fingers pointing along another."""
    return np.stack([closing, np.cross(approach, closing), approach], -1)


def level(yaw: Float[np.ndarray, " b"]) -> Float[np.ndarray, "b 3"]:
    """Horizontal unit vectors."""
    return np.stack([np.cos(yaw), np.sin(yaw), np.zeros_like(yaw)], -1)


def reaching(x: float, y: float, z: float) -> np.ndarray:
    """[3] approach at a grip point: straight down, or as far outwards as the arm needs to reach it unstretched."""
    radius = math.hypot(x, y)
    back, inwards = _WRIST_M
    for tilt in np.arange(0.0, _MOST_TILT_RAD, 0.05):
        c, s = math.cos(tilt), math.sin(tilt)
        if math.hypot(radius - back * s - inwards * c, z + back * c - inwards * s - _SHOULDER_M) <= _REACH_M:
            break
    return np.array([x / radius * s, y / radius * s, -c])


def nearest(yaw: np.ndarray, around: np.ndarray) -> np.ndarray:
    """``yaw`` shifted by a multiple of pi (the jaws are symmetric) to lie nearest to ``around``."""
    return yaw - np.pi * np.round((yaw - around) / np.pi)


def room(x: float, y: float, z: float, yaw: float, others: Iterable[Footprint]) -> float:
    """Smallest gap of the open hand, pointing down with its grip point at (x, y, z), to other things, m; negative where it overlaps one."""
    jaws = Footprint(x, y, OPEN_M + FINGER_M + _PLAY_M, FINGER_HALF_M, yaw, z - TIP_M)  # all that the fingers sweep
    parts = (jaws, Footprint(x, y, *PALM_HALF_M, yaw, z + PALM_M))
    return min((gap(part, other) for other in others for part in parts if other.top > part.bottom), default=math.inf)
