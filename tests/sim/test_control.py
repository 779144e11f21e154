"""From actions to joint targets: geometry, limits, the ramp, and agreement of numpy and jax."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from coda_jax.sim import control, panda
from coda_jax.sim.robot import forward_kinematics
from coda_jax.types import POSITION_SCALE_M, ROTATION_SCALE_RAD, SUBSTEPS

RNG = np.random.default_rng(1)
JOINTS = panda.HOME_RAD + RNG.uniform(-0.3, 0.3, (64, 7))
ACTIONS = RNG.uniform(-1, 1, (64, 7))
COMMANDS = np.concatenate([JOINTS, RNG.uniform(-0.01, 0.04, (64, 1)).repeat(2, 1)], 1)


def test_rotation_matches_mujoco():
    vectors = np.concatenate([RNG.normal(size=(20, 3)), np.zeros((1, 3)), [[1e-9, 0, 0]]])
    for vector, matrix in zip(vectors, control.rotation_of(vectors), strict=True):
        angle = np.linalg.norm(vector)
        quat, expected = np.empty(4), np.empty(9)
        mujoco.mju_axisAngle2Quat(quat, vector / max(angle, 1e-12), angle)
        mujoco.mju_quat2Mat(expected, quat)
        np.testing.assert_allclose(matrix.ravel(), expected, atol=1e-8)


def test_the_gripper_command_closes_in_three_control_steps():
    commands = np.concatenate([panda.HOME_RAD, [panda.FINGER_TRAVEL_M] * 2])[None]
    seen = []
    for _ in range(4):
        commands = control.control_ramp(panda.PANDA, panda.HOME_RAD[None], commands, np.array([[0, 0, 0, 0, 0, 0, 1.0]]))[:, -1]
        seen.append(round(float(commands[0, 7]), 6))
    assert seen == [0.02, 0.0, panda.FINGER_CLOSED_M, panda.FINGER_CLOSED_M]


def test_rotation_error_is_axis_times_sine():
    axis = np.array([[0.0, 0.6, 0.8]])
    current = control.rotation_of(RNG.normal(size=(1, 3)))
    target = control.rotation_of(0.4 * axis) @ current
    np.testing.assert_allclose(control.rotation_error(target, current), np.sin(0.4) * axis, atol=1e-12)


def test_joint_targets_reach_the_commanded_pose():
    start, turned, _ = forward_kinematics(panda.PANDA, JOINTS)
    reached, rotation, _ = forward_kinematics(panda.PANDA, control.joint_targets(panda.PANDA, JOINTS, ACTIONS))
    goal = start + POSITION_SCALE_M * ACTIONS[:, :3]
    goal_rotation = control.rotation_of(ROTATION_SCALE_RAD * ACTIONS[:, 3:6]) @ turned
    assert np.linalg.norm(reached - goal, axis=1).max() < 2e-3
    assert np.linalg.norm(control.rotation_error(goal_rotation, rotation), axis=1).max() < 0.02


def test_joint_targets_stay_within_the_limits():
    at_limit = np.clip(panda.HOME_RAD, panda.LOWER_RAD, panda.UPPER_RAD)[None].repeat(6, 0)
    at_limit[:, 6] = panda.UPPER_RAD[6] - 0.01
    actions = np.zeros((6, 7))
    actions[:, 5] = -1.0
    targets = control.joint_targets(panda.PANDA, at_limit, actions)
    assert (targets <= panda.UPPER_RAD + 1e-12).all() and (targets >= panda.LOWER_RAD - 1e-12).all()


def test_ramp_is_linear_and_ends_at_the_target():
    ramp = control.control_ramp(panda.PANDA, JOINTS, COMMANDS, ACTIONS)
    assert ramp.shape == (64, SUBSTEPS, 9)
    np.testing.assert_allclose(ramp[:, -1, :7], control.joint_targets(panda.PANDA, JOINTS, ACTIONS), atol=1e-12)
    np.testing.assert_allclose(np.diff(ramp, axis=1), np.diff(ramp, axis=1)[:, :1].repeat(SUBSTEPS - 1, 1), atol=1e-12)
    np.testing.assert_allclose(ramp[:, 0] - COMMANDS, (ramp[:, -1] - COMMANDS) / SUBSTEPS, atol=1e-12)


@pytest.mark.parametrize(
    ("entry", "from_m", "expected"),
    [
        (1.0, 0.04, 0.02),  # closing goes a finger step at a time
        (0.1, 0.0, panda.FINGER_CLOSED_M),  # any positive number closes, past contact
        (-0.1, 0.03, panda.FINGER_TRAVEL_M),
        (0.0, 0.0, 0.02),  # zero opens
    ],
)
def test_gripper_entry_is_a_sign(entry, from_m, expected):
    action = np.zeros((1, 7))
    action[0, 6] = entry
    command = np.concatenate([panda.HOME_RAD, [from_m, from_m]])[None]
    np.testing.assert_allclose(control.control_ramp(panda.PANDA, panda.HOME_RAD[None], command, action)[0, -1, 7:], expected, atol=1e-12)


def test_actions_are_clipped():
    outside, limit = np.zeros((1, 7)), np.zeros((1, 7))
    outside[0, 0], limit[0, 0] = 7.0, 1.0
    arguments = panda.HOME_RAD[None], COMMANDS[:1]
    np.testing.assert_array_equal(
        control.control_ramp(panda.PANDA, *arguments, outside), control.control_ramp(panda.PANDA, *arguments, limit)
    )


def test_numpy_and_jax_agree():
    single = [np.float32(x) for x in (JOINTS, COMMANDS, ACTIONS)]
    ramp = jax.jit(lambda q, ctrl, action: control.control_ramp(panda.PANDA, q, ctrl, action, jnp))(*single)
    assert ramp.dtype == jnp.float32
    np.testing.assert_allclose(ramp, control.control_ramp(panda.PANDA, *(x.astype(np.float64) for x in single)), atol=2e-6)
    with jax.enable_x64(True):
        ramp = jax.jit(lambda q, ctrl, action: control.control_ramp(panda.PANDA, q, ctrl, action, jnp))(JOINTS, COMMANDS, ACTIONS)
        np.testing.assert_allclose(ramp, control.control_ramp(panda.PANDA, JOINTS, COMMANDS, ACTIONS), atol=1e-12)
