"""OSC_POSE and the gripper as LIBERO's official environment runs them, at every physics step: the law and its numpy form.

Khatib 1987 (operational space control), with robosuite 1.4's settings: position and rotation uncoupled, critically damped, and a pull to
the home joints in the null space. The position goal is re-anchored to the measured pose at each policy step; the rotation goal only where
the action turns, else it stays. ``compiled.py`` holds the same law for MuJoCo's control callback.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

ARM = 7  # joints, velocities and actuators of the arm: the first of every model
FINGERS = 2  # follow
HZ = 20
SUBSTEPS = 25  # of 2 ms

KP = 150.0
KD = 2 * np.sqrt(KP)
NULL_KP = 10.0
NULL_KD = 2 * np.sqrt(NULL_KP)
TORQUE_LIMITS_NM = (80.0, 80.0, 80.0, 80.0, 80.0, 12.0, 12.0)
POSITION_M, ROTATION_RAD = 0.05, 0.5  # of one unit of action
GRIP_STEP = 0.01  # of the grip command, -1 closed .. 1 open, at each physics step
FINGER_MIDDLE_M = FINGER_HALF_M = 0.02  # finger position = middle + half * grip

# A world's controller state, in its model's userdata.
SITE, FRESH, ACTION, GOAL_POS, GOAL_ROT, GRIP, MAGIC, HOME = 0, 1, 2, 9, 12, 21, 22, 23
USERDATA = 30
TAKEN, NEW, FIRST = 0.0, 1.0, 2.0  # values of FRESH: the action has been taken up, waits, is the first after a reset
MAGIC_NUMBER = 20.0625  # marks a world whose actions are these; others in the process are left alone


def userdata(site: int, home: Measured) -> np.ndarray:
    """Controller state [USERDATA] after a reset: gripper half open, the rotation goal that of the home joints."""
    state = np.zeros(USERDATA)
    state[SITE], state[MAGIC] = site, MAGIC_NUMBER
    state[HOME : HOME + ARM] = home.home
    state[FRESH] = FIRST
    state[GOAL_ROT : GOAL_ROT + 9] = home.rotation.reshape(9)
    return state


@dataclasses.dataclass(frozen=True)
class Measured:
    """What the controller measures of one arm: position [3] and rotation [3, 3] of the grip site, anchors and axes [7, 3] of the joints
    in the world frame, packed inertia [28]; at the joints ``home`` [7], at rest."""

    home: np.ndarray
    position: np.ndarray
    rotation: np.ndarray
    anchors: np.ndarray
    axes: np.ndarray
    mass: np.ndarray


def rotation_of(turn: Float[np.ndarray, "b 3"]) -> Float[np.ndarray, "b 3 3"]:
    """Rotation matrices of axis-angle vectors (rad), rounded to single precision on the way as the official controller does."""
    angle = np.sqrt((turn * turn).sum(-1))[:, None]
    still = angle == 0
    axis = turn / np.where(still, 1.0, angle)
    quat = np.concatenate([np.where(still, 1.0, np.cos(angle / 2)), np.where(still, 0.0, axis * np.sin(angle / 2))], 1)
    q = quat.astype(np.float32)
    square = (q * q).astype(np.float64).sum(1).astype(np.float32)  # single products summed in double, as BLAS does
    q = (q * np.sqrt(2.0 / square.astype(np.float64))[:, None]).astype(np.float32)
    p = q[:, :, None] * q[:, None, :]
    one = np.ones(len(q))  # double: the diagonal is summed in it, the rest is not
    rows = [one - p[:, 2, 2] - p[:, 3, 3], p[:, 1, 2] - p[:, 3, 0], p[:, 1, 3] + p[:, 2, 0]]
    rows += [p[:, 1, 2] + p[:, 3, 0], one - p[:, 1, 1] - p[:, 3, 3], p[:, 2, 3] - p[:, 1, 0]]
    rows += [p[:, 1, 3] - p[:, 2, 0], p[:, 2, 3] + p[:, 1, 0], one - p[:, 1, 1] - p[:, 2, 2]]
    return np.stack(rows, 1).reshape(-1, 3, 3)


def set_goals(state: Float[np.ndarray, "b u"], position: Float[np.ndarray, "b 3"], rotation: Float[np.ndarray, "b 3 3"]) -> None:
    """Take up the actions in ``state`` at the measured pose, in place."""
    action = np.clip(state[:, ACTION : ACTION + 6], -1.0, 1.0)
    state[:, GOAL_POS : GOAL_POS + 3] = position + POSITION_M * action[:, :3]
    turns = np.flatnonzero((action[:, 3:] != 0).any(1))
    if len(turns):
        goal = rotation_of(ROTATION_RAD * action[turns, 3:]) @ rotation[turns]
        state[turns, GOAL_ROT : GOAL_ROT + 9] = goal.reshape(-1, 9)
    state[:, FRESH] = TAKEN


def first_torques(state: Float[np.ndarray, "b u"], home: Sequence[Measured], bias: Float[np.ndarray, "b 7"]) -> Float[np.ndarray, "b 7"]:
    """Take up the first actions after a reset, and the torques of the first physics step.

    The official controller measured the arm when it was made, at the home joints, and does not look again before the first physics step
    has run, though the suite's state moved the arm by millimetres in between: goals and torques are those of the home pose.
    """
    position, rotation, anchors, axes, mass, q = (
        np.stack([getattr(h, field) for h in home]) for field in ("position", "rotation", "anchors", "axes", "mass", "home")
    )
    set_goals(state, position, rotation)
    return torques(state, q, np.zeros_like(q), position, rotation, anchors, axes, mass, bias)


def full_mass_matrix(packed: Float[np.ndarray, "b 28"]) -> Float[np.ndarray, "b 7 7"]:
    """The arm's joint-space inertia from the lower triangle, row by row."""
    full = np.zeros((len(packed), ARM, ARM))
    rows, columns = np.tril_indices(ARM)
    full[:, rows, columns] = packed
    full[:, columns, rows] = packed
    return full


def torques(
    state: Float[np.ndarray, "b u"],
    q: Float[np.ndarray, "b 7"],
    qd: Float[np.ndarray, "b 7"],
    position: Float[np.ndarray, "b 3"],
    rotation: Float[np.ndarray, "b 3 3"],
    anchors: Float[np.ndarray, "b 7 3"],
    axes: Float[np.ndarray, "b 7 3"],
    mass: Float[np.ndarray, "b 28"],
    bias: Float[np.ndarray, "b 7"],
) -> Float[np.ndarray, "b 7"]:
    """Torques of the arm, N m, within its limits.

    Args:
      state: controller states. q, qd: joints, rad and rad/s. position, rotation: of the grip site. anchors, axes: of the joints, world.
      mass: the arm's inertia, packed. bias: Coriolis and gravity, N m.
    """
    jacobian = np.concatenate([np.cross(axes, position[:, None] - anchors), axes], 2).swapaxes(1, 2)
    velocity = (jacobian @ qd[:, :, None])[..., 0]
    goal = state[:, GOAL_ROT : GOAL_ROT + 9].reshape(-1, 3, 3)
    turn = 0.5 * sum(np.cross(rotation[:, :, i], goal[:, :, i]) for i in range(3))
    error = np.concatenate([state[:, GOAL_POS : GOAL_POS + 3] - position, turn], 1)
    wanted = KP * error - KD * velocity
    inverse = np.linalg.inv(full_mass_matrix(mass))
    mobility = jacobian @ inverse @ jacobian.swapaxes(1, 2)
    pull = NULL_KP * (state[:, HOME : HOME + ARM] - q) - NULL_KD * qd
    force = np.linalg.solve(mobility[:, :3, :3], wanted[:, :3, None])
    moment = np.linalg.solve(mobility[:, 3:, 3:], wanted[:, 3:, None])
    # Null space: N^T M p = M p - J^T (J M^-1 J^T)^-1 J p.
    taken = np.linalg.solve(mobility, jacobian @ pull[:, :, None])
    wrench = np.concatenate([force, moment], 1) - taken
    torque = (jacobian.swapaxes(1, 2) @ wrench)[..., 0] + (full_mass_matrix(mass) @ pull[:, :, None])[..., 0] + bias
    limits = np.array(TORQUE_LIMITS_NM)
    return np.clip(torque, -limits, limits)


def grip(state: Float[np.ndarray, "b u"]) -> Float[np.ndarray, "b 2"]:
    """One physics step of the gripper, in place; commands of both fingers, m."""
    state[:, GRIP] = np.clip(state[:, GRIP] - GRIP_STEP * np.sign(state[:, ACTION + 6]), -1.0, 1.0)
    finger = FINGER_HALF_M * state[:, GRIP]
    return np.stack([FINGER_MIDDLE_M + finger, -FINGER_MIDDLE_M - finger], 1)
