"""Joint angles for poses of the hand, by damped least squares; batched, in numpy."""

from __future__ import annotations

import numpy as np

from coda_jax.sim.control import rotation_error
from coda_jax.sim.robot import START_M, Robot, forward_kinematics

_ITERATIONS = 40
_DAMPING = 0.05
_SOLVED = 1e-3  # m and rad
_LONGEST_STEP_RAD = 0.3
_UPRIGHT = 1 - 1e-6


def top_down(yaw_rad: np.ndarray) -> np.ndarray:
    """[n, 3, 3] hand orientations that point down with the jaws closing along ``yaw_rad`` [n] (base frame)."""
    c, s, zero = np.cos(yaw_rad), np.sin(yaw_rad), np.zeros_like(yaw_rad)
    return np.stack([np.stack([-s, c, zero], 1), np.stack([c, s, zero], 1), np.stack([zero, zero, zero - 1], 1)], 1)


def facing(robot: Robot, position: np.ndarray) -> np.ndarray:
    """Joint angles [n, dof] of the home posture, turned towards each position [n, 3] where the first joint's axis is vertical."""
    lower, upper, home = robot.limits
    q = np.tile(home, (len(position), 1))
    translations, rotations, _, _ = robot.frames
    up, (x, y) = rotations[0][2, 2], translations[0][:2]
    if abs(up) > _UPRIGHT:
        turn = np.arctan2(position[:, 1] - y, position[:, 0] - x) - np.arctan2(START_M[1] - y, START_M[0] - x)
        q[:, 0] = np.clip(home[0] + np.sign(up) * turn, lower[0], upper[0])
    return q


def inverse_kinematics(
    robot: Robot, position: np.ndarray, rotation: np.ndarray, solved: float = _SOLVED
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Joint angles within the limits that bring the grip point to each pose, by damped least squares from the home posture.

    Args:
      position: [n, 3] m. rotation: [n, 3, 3]. solved: error at which a pose is left alone, m and rad.

    Returns:
      q [n, dof] rad, position error [n] m, rotation error [n] rad (sine of the angle) of what was reached.
    """
    q = facing(robot, position)
    lower, upper, _ = robot.limits
    eye = _DAMPING**2 * np.eye(6)
    open_rows = np.arange(len(q))  # solved ones are left alone
    for _ in range(_ITERATIONS):
        at, turned, jacobian = forward_kinematics(robot, q[open_rows])
        error = np.concatenate([position[open_rows] - at, rotation_error(rotation[open_rows], turned)], 1)
        unsolved = np.abs(error).max(axis=1, initial=0.0) > solved
        open_rows, error, jacobian = open_rows[unsolved], error[unsolved], jacobian[unsolved]
        if not len(open_rows):
            break
        transposed = jacobian.swapaxes(1, 2)
        step = (transposed @ np.linalg.solve(jacobian @ transposed + eye, error[:, :, None]))[..., 0]
        step = np.clip(step, -_LONGEST_STEP_RAD, _LONGEST_STEP_RAD)
        q[open_rows] = np.clip(q[open_rows] + step, lower, upper)
    at, turned, _ = forward_kinematics(robot, q)
    return q, np.linalg.norm(position - at, axis=1), np.linalg.norm(rotation_error(rotation, turned), axis=1)
