"""What the simulation knows of a robot: a serial arm of hinges with a parallel gripper as numbers and MJCF, and its batched kinematics.

Its model has canonical names, whatever the robot's own were: ``link0`` (fixed), ``link1`` and so on, ``hand`` (approach along z, jaws
along y), ``finger_left`` (opens to +y), ``finger_right``, and the site ``grip`` between the pads. In qpos and ctrl the arm's joints come
first, then both fingers, each the distance of its pad from the middle.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

START_M = (0.45, 0.0, 0.25)  # grip point at the start of every episode, pointing down, the jaws closing along the base's x axis
FINGER_TRAVEL_M = 0.04  # each finger, of every robot: the catalogue's grasps are made for it
FINGER_CLOSED_M = -0.01  # commanded beyond contact, so that thin things are held too

Vector = tuple[float, ...]
Matrix = tuple[Vector, ...]


@dataclasses.dataclass(frozen=True)
class Robot:
    """An arm of ``dof`` hinges and its gripper. Names and conventions: see the module.

    home_rad: start of every episode, see START_M. lower_rad, upper_rad: limits of the joints.
    translations (m), rotations: frame of each link in the one before it, at joint angle 0; the joint turns about the link's z.
    tool_translation, tool_rotation: the grip point in the last link. bodies_xml, actuators_xml: for the template of a bucket.
    """

    name: str
    home_rad: Vector
    lower_rad: Vector
    upper_rad: Vector
    translations: tuple[Vector, ...]
    rotations: tuple[Matrix, ...]
    tool_translation: Vector
    tool_rotation: Matrix
    bodies_xml: str
    actuators_xml: str

    @property
    def dof(self) -> int:
        return len(self.home_rad)

    @property
    def coordinates(self) -> int:
        """Of arm and fingers, which come first in qpos, qvel and ctrl."""
        return self.dof + 2

    @functools.cached_property
    def home_command(self) -> np.ndarray:
        """[q] joint angles and fingers of the start, the hand open."""
        return np.array([*self.home_rad, FINGER_TRAVEL_M, FINGER_TRAVEL_M])

    @functools.cached_property
    def limits(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """lower [q], upper [q] and home [q] of the arm's joints, rad."""
        return np.array(self.lower_rad), np.array(self.upper_rad), np.array(self.home_rad)

    @functools.cached_property
    def frames(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """translations [q, 3], rotations [q, 3, 3], tool translation [3] and rotation [3, 3]."""
        return np.array(self.translations), np.array(self.rotations), np.array(self.tool_translation), np.array(self.tool_rotation)


def forward_kinematics(robot: Robot, q: Any, xp: Any = np) -> tuple[Any, Any, Any]:
    """Grip-point pose and geometric Jacobian.

    Args:
      q: [b, dof] joint angles, rad. xp: numpy or jax.numpy.

    Returns:
      position [b, 3] m, rotation [b, 3, 3], Jacobian [b, 6, dof] (linear rows first, base frame).
    """
    _, _, tool_translation, tool_rotation = robot.frames
    position, rotation, axes, origins = joint_frames(robot, q, xp)
    position = position + rotation @ xp.asarray(tool_translation, dtype=q.dtype)
    rotation = rotation @ xp.asarray(tool_rotation, dtype=q.dtype)
    axis = xp.stack(axes, axis=1)  # [b, dof, 3]
    arm = position[:, None, :] - xp.stack(origins, axis=1)
    jacobian = xp.concatenate([xp.swapaxes(xp.cross(axis, arm), 1, 2), xp.swapaxes(axis, 1, 2)], axis=1)
    return position, rotation, jacobian


def joint_frames(robot: Robot, q: Any, xp: Any = np) -> tuple[Any, Any, list[Any], list[Any]]:
    """The last link and every joint on the way to it.

    Args:
      q: [b, dof] joint angles, rad. xp: numpy or jax.numpy.

    Returns:
      position [b, 3] m and rotation [b, 3, 3] of the last link; axis [b, 3] and origin [b, 3] m of each joint, base frame.
    """
    translations, rotations, _, _ = robot.frames
    b = q.shape[0]
    rotation = xp.broadcast_to(xp.eye(3, dtype=q.dtype), (b, 3, 3))
    position = xp.zeros((b, 3), dtype=q.dtype)
    axes, origins = [], []
    for i in range(robot.dof):
        position = position + rotation @ xp.asarray(translations[i], dtype=q.dtype)
        rotation = rotation @ xp.asarray(rotations[i], dtype=q.dtype)
        axes.append(rotation[:, :, 2])
        origins.append(position)
        c, s = xp.cos(q[:, i])[:, None], xp.sin(q[:, i])[:, None]
        x, y = rotation[:, :, 0], rotation[:, :, 1]
        rotation = xp.stack([c * x + s * y, c * y - s * x, rotation[:, :, 2]], axis=2)
    return position, rotation, axes, origins
