"""Kinematics of our own Panda against MuJoCo's, on the model that the simulation runs."""

import mujoco
import numpy as np
import pytest

from coda_jax.sim import panda
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import template_xml
from coda_jax.sim.robot import forward_kinematics


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_string(template_xml(Bucket(2, 1)))


def _random_joints(n):
    return np.random.default_rng(0).uniform(panda.LOWER_RAD, panda.UPPER_RAD, (n, 7))


def test_pose_and_jacobian_match_mujoco(model):
    q = _random_joints(50)
    position, rotation, jacobian = forward_kinematics(panda.PANDA, q)
    data, site = mujoco.MjData(model), model.site("grip").id
    linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
    for i, joints in enumerate(q):
        data.qpos[:7] = joints
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_jacSite(model, data, linear, angular, site)
        # the model is written with nine digits
        np.testing.assert_allclose(position[i], data.site_xpos[site], atol=1e-8)
        np.testing.assert_allclose(rotation[i].ravel(), data.site_xmat[site], atol=1e-8)
        np.testing.assert_allclose(jacobian[i], np.concatenate([linear[:, :7], angular[:, :7]]), atol=1e-8)


def test_home_points_down_with_the_jaws_along_x():
    position, rotation, _ = forward_kinematics(panda.PANDA, panda.HOME_RAD[None])
    np.testing.assert_allclose(position[0], (0.45, 0.0, 0.25), atol=1e-6)
    np.testing.assert_allclose(rotation[0, :, 2], (0, 0, -1), atol=1e-6)  # approach axis
    np.testing.assert_allclose(np.abs(rotation[0, :, 1]), (1, 0, 0), atol=1e-6)  # the fingers slide along the hand's y
    assert (panda.LOWER_RAD < panda.HOME_RAD).all() and (panda.HOME_RAD < panda.UPPER_RAD).all()


def test_finger_tips_reach_past_the_grip_point(model):
    data = mujoco.MjData(model)
    data.qpos[:7], data.qpos[7:9] = panda.HOME_RAD, panda.FINGER_TRAVEL_M
    mujoco.mj_kinematics(model, data)
    pad = model.geom("pad_left").id
    lowest = data.geom_xpos[pad][2] - panda.PAD_HALF_M[2]
    grip = data.site_xpos[model.site("grip").id]
    assert grip[2] - lowest == pytest.approx(panda.TIP_BELOW_GRIP_M, abs=1e-9)
    # fully open, the inner faces of the pads are 0.08 m apart
    inner = [abs(data.geom_xpos[model.geom(f"pad_{s}").id][0] - grip[0]) - panda.PAD_HALF_M[1] for s in ("left", "right")]
    np.testing.assert_allclose(inner, 0.04, atol=1e-9)


def test_servos_hold_the_arm_against_gravity(model):
    data = mujoco.MjData(model)
    data.qpos[:7], data.qpos[7:9] = panda.HOME_RAD, panda.FINGER_TRAVEL_M
    data.ctrl[:] = data.qpos[:9]
    mujoco.mj_step(model, data, 400)
    np.testing.assert_allclose(data.qpos[:7], panda.HOME_RAD, atol=1e-4)


def test_inertias_are_those_of_bodies(model):
    for i in range(1, 8):
        a, b, c = sorted(model.body(f"link{i}").inertia)
        assert a > 0 and a + b >= c * 0.999
        assert model.body(f"link{i}").mass[0] == pytest.approx(panda._MASS_KG[i - 1])
