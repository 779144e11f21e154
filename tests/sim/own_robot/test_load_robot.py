"""A robot out of a file is the robot in the file: kinematics, masses and trajectories against MuJoCo's and against the Panda of our own."""

import mujoco
import numpy as np
import pytest

from coda_jax.sim import control, panda
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import template_xml
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.own_robot.facts import facts_of
from coda_jax.sim.own_robot.hand import hand_of
from coda_jax.sim.own_robot.load import described, reach_share, robot_from_mjcf
from coda_jax.sim.own_robot.parts import assemble
from coda_jax.sim.own_robot.text import read
from coda_jax.sim.robot import START_M, forward_kinematics
from coda_jax.sim.simulator import episode_of
from coda_jax.types import POSITION_SCALE_M
from tests.sim.own_robot.arms import EXAMPLE, EXAMPLE_PARTS, PARTS, panda_copy, random_arm
from tests.sim.tabletop import CATALOGUE, Thing, scene


def grip_and_jacobian(model, joints, q, site):
    """MuJoCo's own pose of a site and its Jacobian over the named joints."""
    data = mujoco.MjData(model)
    for joint, value in zip(joints, q, strict=True):
        data.joint(joint).qpos[0] = value
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
    mujoco.mj_jacSite(model, data, linear, angular, model.site(site).id)
    columns = [int(model.joint(j).dofadr[0]) for j in joints]
    return data.site(site).xpos, data.site(site).xmat.reshape(3, 3), np.concatenate([linear, angular])[:, columns]


@pytest.mark.parametrize(("seed", "dof"), [(0, 6), (1, 6), (2, 7), (3, 7)])
def test_kinematics_of_random_arms_are_mujocos(tmp_path, seed, dof):
    path = tmp_path / "any.xml"
    path.write_text(random_arm(seed, dof))
    source = read(path)
    made = assemble(facts_of(source), source.couplings, **PARTS)
    robot = described("any", made, hand_of(made), [0.0] * dof, None)
    theirs = mujoco.MjModel.from_xml_path(str(path))
    ours = mujoco.MjModel.from_xml_string(template_xml(Bucket(2, 1), robot))
    zero = np.array([theirs.joint(f"turn{i}").qpos0[0] for i in range(dof)])
    np.testing.assert_allclose(robot.lower_rad, -2.0, atol=1e-6)
    assert robot.home_rad == pytest.approx(-zero)
    angles = np.random.default_rng(seed).uniform(-2, 2, (8, dof))
    positions, rotations, jacobians = forward_kinematics(robot, angles)
    for q, position, rotation, jacobian in zip(angles, positions, rotations, jacobians, strict=True):
        at, turned, expected = grip_and_jacobian(theirs, [f"turn{i}" for i in range(dof)], q + zero, "tips")
        np.testing.assert_allclose(position, at, atol=1e-9)
        np.testing.assert_allclose(rotation[:, 1:], turned[:, 1:], atol=1e-9)  # jaws and approach; here the site's own frame
        np.testing.assert_allclose(jacobian, expected, atol=1e-9)
        at, turned, expected = grip_and_jacobian(ours, [f"joint{i + 1}" for i in range(dof)], q, "grip")
        np.testing.assert_allclose(position, at, atol=1e-7)  # written with nine digits
        np.testing.assert_allclose(rotation, turned, atol=1e-7)
        np.testing.assert_allclose(jacobian, expected, atol=1e-7)
    assert ours.body_mass[1 : ours.body("finger_right").id + 1].sum() == pytest.approx(
        theirs.body_mass.sum() - theirs.body("base").mass[0], rel=1e-6
    )


def test_masses_where_they_are(tmp_path):
    """The joint-space inertia of arm and fingers in the template is the file's, but for the armature."""
    path = tmp_path / "any.xml"
    path.write_text(random_arm(4, 6))
    source = read(path)
    made = assemble(facts_of(source), source.couplings, **PARTS)
    robot = described("any", made, hand_of(made), [0.0] * 6, None)

    def inertia(model, q, joints):
        data, full = mujoco.MjData(model), np.zeros((model.nv, model.nv))
        for joint, value in zip(joints, q, strict=True):
            data.joint(joint).qpos[0] = value
        mujoco.mj_forward(model, data)
        mujoco.mj_fullM(model, data, full)
        columns = [int(model.joint(j).dofadr[0]) for j in joints]
        return full[np.ix_(columns, columns)]

    theirs = mujoco.MjModel.from_xml_path(str(path))
    ours = mujoco.MjModel.from_xml_string(template_xml(Bucket(2, 1), robot))
    zero = np.array([theirs.joint(f"turn{i}").qpos0[0] for i in range(6)])
    for q in np.random.default_rng(0).uniform(-2, 2, (3, 6)):
        expected = inertia(theirs, [*(q + zero), 0.01, 0.02], [*(f"turn{i}" for i in range(6)), "jaw_l", "jaw_r"])
        found = inertia(ours, [*q, 0.01, 0.02], [*(f"joint{i + 1}" for i in range(6)), "finger_left", "finger_right"])
        np.testing.assert_allclose(found - 0.1 * np.eye(8), expected, atol=1e-6)


def test_the_panda_out_of_a_file_moves_like_our_own(tmp_path):
    copy = panda_copy(tmp_path)
    assert copy.home_rad == panda.PANDA.home_rad and reach_share(copy) == 1.0
    spec = scene(Thing("block_1", "block_00", 0.45, 0.0), Thing("board_1", "board_00", 0.5, 0.25))
    chunk = np.zeros((1, 12, 7))
    chunk[0, :5, 2], chunk[0, 5:, 6], chunk[0, 9:, 2], chunk[0, :, 1] = -0.8, 1.0, 0.7, 0.1
    seen = []
    for robot in (panda.PANDA, copy):
        sim = NativeSimulator(CATALOGUE, Bucket(2, 1), 1, 1, robot)
        batch = sim.compile([episode_of(spec, 40, (0, 0))])
        _, trace = sim.step_chunk(batch, sim.reset(batch), chunk)
        seen.append(trace.qpos)
    assert np.ptp(seen[0][0, :, :7], axis=0).max() > 0.1
    np.testing.assert_allclose(seen[1], seen[0], atol=1e-6)


def test_the_controller_brings_the_six_joint_arm_to_poses():
    robot = robot_from_mjcf(EXAMPLE, **EXAMPLE_PARTS)
    assert robot.dof == 6 and reach_share(robot) == 1.0
    position, rotation, _ = forward_kinematics(robot, np.array([robot.home_rad]))
    np.testing.assert_allclose(position[0], START_M, atol=5e-5)
    np.testing.assert_allclose(rotation[0, :, 2], (0, 0, -1), atol=5e-5)
    model = mujoco.MjModel.from_xml_string(template_xml(Bucket(2, 1), robot))
    for goal in ((0.62, 0.2, 0.05), (0.35, -0.25, 0.2), (0.4, 0.0, 0.05)):
        data = mujoco.MjData(model)
        data.qpos[:8] = data.ctrl[:] = robot.home_command
        for _ in range(40):
            mujoco.mj_kinematics(model, data)
            action = np.zeros((1, 7))
            action[0, :3] = (np.array(goal) - data.site("grip").xpos) / POSITION_SCALE_M
            action[0, 3:6] = control.rotation_error(rotation, data.site("grip").xmat.reshape(1, 3, 3))[0] / 0.5
            for command in control.control_ramp(robot, data.qpos[None, :6], data.ctrl[None], action)[0]:
                data.ctrl[:] = command
                mujoco.mj_step(model, data)
        np.testing.assert_allclose(data.site("grip").xpos, goal, atol=1e-3)
        np.testing.assert_allclose(data.site("grip").xmat.reshape(3, 3), rotation[0], atol=0.01)


def test_fingers_open_alike_whatever_their_joints_count():
    """The example's right finger counts from -0.045 (open) to 0; in the simulation both count from 0 to 0.04, the way the pads go."""
    robot = robot_from_mjcf(EXAMPLE, **EXAMPLE_PARTS)
    model = mujoco.MjModel.from_xml_string(template_xml(Bucket(2, 1), robot))
    for opening in (0.0, 0.04):
        data = mujoco.MjData(model)
        data.qpos[:8] = (*robot.home_rad, opening, opening)
        mujoco.mj_kinematics(model, data)
        grip = data.site("grip").xpos
        for side, sign in (("left", 1), ("right", -1)):
            geom = model.body(f"finger_{side}").geomadr[0]
            inner = sign * (data.geom_xpos[geom] - grip) @ data.body("hand").xmat.reshape(3, 3)[:, 1] - 0.005
            assert inner == pytest.approx(opening, abs=1e-6)
