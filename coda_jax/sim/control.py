"""From actions to joint targets: damped least squares on the measured pose, ramped over the control step.

The same code runs on numpy (native backend) and jax.numpy (MJX): every function takes ``xp``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coda_jax.sim.robot import FINGER_CLOSED_M, FINGER_TRAVEL_M, Robot, forward_kinematics
from coda_jax.types import POSITION_SCALE_M, ROTATION_SCALE_RAD, SUBSTEPS

DAMPING = 0.05
ITERATIONS = 3
POSTURE_GAIN = 0.05  # share of the way home taken in the null space, so that the elbow does not drift
FINGER_STEP_M = 0.02  # a finger moves at most this far in one control step: opening takes two


def rotation_of(axis_angle: Any, xp: Any = np) -> Any:
    """Rotation matrices [b, 3, 3] of axis-angle vectors [b, 3] (rad)."""
    x, y, z = axis_angle[:, 0], axis_angle[:, 1], axis_angle[:, 2]
    square = x * x + y * y + z * z
    angle = xp.sqrt(square + 1e-16)
    s, c = xp.sin(angle) / angle, (1 - xp.cos(angle)) / (square + 1e-16)
    zero = xp.zeros_like(x)
    skew = xp.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3)
    return xp.eye(3, dtype=axis_angle.dtype) + s[:, None, None] * skew + c[:, None, None] * (skew @ skew)


def rotation_error(target: Any, current: Any, xp: Any = np) -> Any:
    """Half the sum of crossed columns [b, 3]: the axis times sin(angle) that turns ``current`` into ``target``."""
    return 0.5 * (
        xp.cross(current[:, :, 0], target[:, :, 0])
        + xp.cross(current[:, :, 1], target[:, :, 1])
        + xp.cross(current[:, :, 2], target[:, :, 2])
    )


def joint_targets(robot: Robot, q: Any, action: Any, xp: Any = np) -> Any:
    """Joint angles [b, dof] that reach the pose asked for by ``action`` [b, 7] from the measured ``q`` [b, dof].

    Nakamura & Hanafusa 1986 (damped least squares), with a pull towards the home posture in the null space.
    """
    position, rotation, jacobian = forward_kinematics(robot, q, xp)
    goal_position = position + POSITION_SCALE_M * action[:, :3]
    goal_rotation = rotation_of(ROTATION_SCALE_RAD * action[:, 3:6], xp) @ rotation
    lower, upper, home = (xp.asarray(v, dtype=q.dtype) for v in robot.limits)
    eye = DAMPING**2 * xp.eye(6, dtype=q.dtype)
    solution = q
    for iteration in range(ITERATIONS):
        if iteration:
            position, rotation, jacobian = forward_kinematics(robot, solution, xp)
        error = xp.concatenate([goal_position - position, rotation_error(goal_rotation, rotation, xp)], axis=1)
        transposed = xp.swapaxes(jacobian, 1, 2)
        posture = POSTURE_GAIN * (home - solution) if iteration == 0 else xp.zeros_like(solution)
        error = error - xp.squeeze(jacobian @ posture[:, :, None], -1)
        step = transposed @ xp.linalg.solve(jacobian @ transposed + eye, error[:, :, None])
        solution = xp.clip(solution + posture + xp.squeeze(step, -1), lower, upper)
    return solution


def control_ramp(robot: Robot, q: Any, ctrl: Any, action: Any, xp: Any = np) -> Any:
    """Actuator commands [b, SUBSTEPS, dof + 2], ramped linearly from the present command ``ctrl`` [b, dof + 2] to the new targets.

    The gripper entry of the action is a sign: above 0 closes, else opens. Actions are clipped to [-1, 1].
    """
    action = xp.clip(action, -1.0, 1.0)
    arm = joint_targets(robot, q, action, xp)
    wish = xp.where(action[:, 6] > 0, FINGER_CLOSED_M, FINGER_TRAVEL_M)
    now = ctrl[:, robot.dof]
    finger = now + xp.clip(wish - now, -FINGER_STEP_M, FINGER_STEP_M)
    target = xp.concatenate([arm, finger[:, None], finger[:, None]], axis=1)
    weight = (xp.arange(1, SUBSTEPS + 1, dtype=q.dtype) / SUBSTEPS)[None, :, None]
    return ctrl[:, None, :] * (1 - weight) + target[:, None, :] * weight
