"""The hand of a robot in the frame that the catalogue's grasps are made for, and whether it fits them.

The catalogue says of every thing where a hand of known size can hold it (scenes/placement.py), so another hand must open as far and be no
larger: only then do checks and planners mean what they say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from coda_jax.scenes.placement import FINGER_HALF_WIDTH_M, FINGER_THICKNESS_M, OPEN_JAW_M, PALM_HALF_M
from coda_jax.sim.own_robot.errors import RobotError, shown
from coda_jax.sim.own_robot.facts import Geom
from coda_jax.sim.own_robot.parts import Assembly, Part
from coda_jax.sim.robot import FINGER_TRAVEL_M

TIPS_M = (0.007, 0.0111)  # that the finger tips may reach past the grip point
PALM_M = 0.037  # the palm begins at least this far behind the grip point
_PLAY_M = 0.001
_STRAIGHT = 0.02  # largest sine between directions that should be parallel or square


@dataclasses.dataclass(frozen=True)
class Hand:
    """rotation: [3, 3] of the tool in the world: x, y to the left finger, z away from the palm. closed_left, closed_right: m along the way
    out by which each finger must be moved from its zero for its pad to be in the middle."""

    rotation: np.ndarray
    closed_left: float
    closed_right: float


def extents(geoms: Sequence[Geom], origin: np.ndarray, rotation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest coordinates [n, 3] of geoms in a frame."""
    low, high = np.zeros((len(geoms), 3)), np.zeros((len(geoms), 3))
    for i, g in enumerate(geoms):
        axes = rotation.T @ g.rotation
        half = _half(g.shape, g.size, axes)
        middle = rotation.T @ (g.pos - origin)
        low[i], high[i] = middle - half, middle + half
    return low, high


def _half(shape: str, size: np.ndarray, axes: np.ndarray) -> np.ndarray:
    z = np.abs(axes[:, 2])
    if shape == "box":
        return np.abs(axes) @ size
    if shape == "ellipsoid":
        return np.sqrt((axes * size) ** 2 @ np.ones(3))
    if shape == "cylinder":
        return size[1] * z + size[0] * np.sqrt(np.maximum(1 - z**2, 0.0))
    return size[0] + (size[1] * z if shape == "capsule" else np.zeros(3))


def hand_of(made: Assembly) -> Hand:
    """The tool frame and the closed pose of the fingers.

    Raises:
      RobotError: the fingers do not slide along one line, the site does not look along the fingers, or the hand does not fit the grasps.
    """
    pads = [tuple(g for g in part.geoms if g.collides) for part in (made.left, made.right)]
    for part, own in zip((made.left, made.right), pads, strict=True):
        if not own:
            name = part.joint.name if part.joint else ""
            raise RobotError(f"the finger of joint {shown(name)} has no geom that collides: give its pad contype and conaffinity")
    rotation = _frame(made, pads)
    closed = [
        _closed(part, own, made, side * rotation[:, 1]) for part, own, side in zip((made.left, made.right), pads, (1, -1), strict=True)
    ]
    for own, shift, side in zip(pads, closed, (1, -1), strict=True):
        _check_finger(own, made, rotation, side, shift + FINGER_TRAVEL_M)
    _check_palm(made, rotation)
    return Hand(rotation, *closed)


def _frame(made: Assembly, pads: Sequence[Sequence[Geom]]) -> np.ndarray:
    assert made.left.joint is not None and made.right.joint is not None
    slide, other, site = made.left.joint.axis, made.right.joint.axis, made.grip.rotation[:, 2]
    if np.linalg.norm(np.cross(slide, other)) > _STRAIGHT:
        raise RobotError("the two fingers do not slide along one line: make their axes parallel")
    left, right = (np.mean([g.pos for g in own], axis=0) for own in pads)
    apart = float((left - right) @ slide)
    if abs(apart) < 1e-4:
        raise RobotError("the pads of both fingers are in the same place: set them apart along the way they slide")
    y = np.sign(apart) * slide
    if abs(site @ y) > _STRAIGHT:
        raise RobotError(f"the z axis of site {shown(made.grip.name)} is not square to the way the fingers slide: turn the site")
    z = site - (site @ y) * y
    z /= np.linalg.norm(z)
    return np.stack([np.cross(y, z), y, z], axis=1)


def _closed(part: Part, pads: Sequence[Geom], made: Assembly, out: np.ndarray) -> float:
    """How far along ``out`` the finger is moved from its zero where its inner face is in the middle."""
    assert part.joint is not None
    frame = np.stack([out] * 3, axis=1)  # only the first coordinate counts
    low, _ = extents(pads, made.grip.pos, frame)
    inner = float(low[:, 0].min())
    sign = float(np.sign(part.joint.axis @ out))
    near, far = sorted(sign * v for v in (part.joint.low, part.joint.high))
    name = shown(part.joint.name)
    if not part.joint.limited:
        raise RobotError(f"finger joint {name} has no limits: give it a range from closed to open")
    if inner + near > _PLAY_M:
        raise RobotError(f"finger joint {name} leaves its pad {inner + near:.4f} m from the grip site when closed: let it reach the middle")
    if inner + far < FINGER_TRAVEL_M - _PLAY_M / 10:
        raise RobotError(
            f"finger joint {name} opens to {inner + far:.4f} m from the grip site: the grasps need {FINGER_TRAVEL_M} m on each side"
        )
    return -inner


def _check_finger(pads: Sequence[Geom], made: Assembly, rotation: np.ndarray, side: int, shift: float) -> None:
    """The open finger must stay within what checks and planners keep free for it."""
    low, high = extents(pads, made.grip.pos + side * rotation[:, 1] * -shift, rotation)
    tip, name = float(high[:, 2].max()), shown(made.grip.name)
    if not TIPS_M[0] <= tip <= TIPS_M[1]:
        raise RobotError(f"the finger tips reach {tip:.4f} m past site {name}: move the site along its z axis by {tip - 0.009:+.4f} m")
    below = high[:, 2] > -PALM_M
    outer = float(np.abs(np.stack([low[below, 1], high[below, 1]])).max()) - OPEN_JAW_M
    wide = float(np.abs(np.stack([low[below, 0], high[below, 0]])).max())
    if outer > FINGER_THICKNESS_M or wide > FINGER_HALF_WIDTH_M:
        raise RobotError(
            f"a finger is {outer:.4f} m thick and {2 * wide:.4f} m wide about site {name}: at most {FINGER_THICKNESS_M} and "
            f"{2 * FINGER_HALF_WIDTH_M} fit the catalogue's grasps, use smaller pads"
        )


def _check_palm(made: Assembly, rotation: np.ndarray) -> None:
    if not made.palm:
        return
    low, high = extents(made.palm, made.grip.pos, rotation)
    front = -float(high[:, 2].max())
    if front < PALM_M:
        raise RobotError(f"the palm begins {front:.4f} m behind site {shown(made.grip.name)}: leave {PALM_M} m, with longer fingers")
    x, y = (float(np.abs(np.stack([low[:, i], high[:, i]])).max()) for i in (0, 1))
    if x > PALM_HALF_M[1] or y > PALM_HALF_M[0]:
        raise RobotError(
            f"the hand reaches {x:.3f} m across and {y:.3f} m along the jaws from {shown(made.grip.name)}: at most {PALM_HALF_M[1]} and "
            f"{PALM_HALF_M[0]} fit the catalogue's grasps, use a smaller palm, or let the rest collide with nothing"
        )
