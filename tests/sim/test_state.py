"""The named arrays of a moment, against MuJoCo's own."""

import dataclasses

import mujoco
import numpy as np
import pytest

from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import compile_scene
from coda_jax.sim.state import ViewBuilder, contacts, rotation_matrices
from coda_jax.types import FREE_SLOTS, TABLE, TOKENS
from tests.sim.tabletop import BLOCK, BOARD, CAN, CATALOGUE, height, scene

BUCKET = Bucket(4, 3)


def _view(compiled, data, start=None):
    model, hand = compiled.model, compiled.model.body("hand").id
    builder = ViewBuilder(BUCKET, [compiled])
    site = model.site("grip").id
    qpos, qvel, sensors = (np.array(a)[None] for a in (data.qpos, data.qvel, data.sensordata))
    step = np.array([3], np.int32)
    return builder.build(qpos, qvel, sensors, np.array(data.site_xpos[site])[None], np.array(data.xquat[hand])[None], step, start)


def _data(compiled):
    data = mujoco.MjData(compiled.model)
    data.qpos[:] = compiled.qpos
    return data


def test_rotation_matrices_match_mujoco():
    quats = np.random.default_rng(0).normal(size=(30, 4))
    quats /= np.linalg.norm(quats, axis=1, keepdims=True)
    for quat, matrix in zip(quats, rotation_matrices(quats), strict=True):
        expected = np.empty(9)
        mujoco.mju_quat2Mat(expected, quat)
        np.testing.assert_allclose(matrix.ravel(), expected, atol=1e-12)


def test_poses_velocities_and_sizes():
    compiled = compile_scene(scene(BLOCK, CAN, BOARD), CATALOGUE, BUCKET)
    data = _data(compiled)
    # a turned, turning and flying can
    data.qpos[16:23] = (0.5, 0.0, 0.3, *np.array([0.8, 0.2, -0.5, 0.1]) / np.linalg.norm([0.8, 0.2, -0.5, 0.1]))
    data.qvel[15:21] = (0.1, -0.2, 0.3, 1.0, -2.0, 0.5)
    mujoco.mj_forward(compiled.model, data)
    view = _view(compiled, data)
    can = compiled.model.body("o1").id
    velocity = np.empty(6)
    mujoco.mj_objectVelocity(compiled.model, data, mujoco.mjtObj.mjOBJ_XBODY, can, velocity, 0)
    np.testing.assert_allclose(view.angvel[0, 1], velocity[:3], atol=1e-6)
    np.testing.assert_allclose(view.linvel[0, 1], velocity[3:], atol=1e-6)
    np.testing.assert_allclose(view.pos[0, 1], data.xpos[can], atol=1e-6)
    np.testing.assert_allclose(view.quat[0, 1], data.xquat[can], atol=1e-6)
    np.testing.assert_allclose(view.half_extent[0, 1], CATALOGUE.get(CAN.asset).half_extent_m, atol=1e-6)
    np.testing.assert_allclose(view.pos[0, FREE_SLOTS], (BOARD.x, BOARD.y, height(BOARD.asset) / 2), atol=1e-6)
    np.testing.assert_allclose(view.ee_pos[0], (0.45, 0.0, 0.25), atol=1e-5)
    assert view.gripper_opening[0] == pytest.approx(0.08)
    assert view.control_step.tolist() == [3]


def test_absent_tokens_are_zero_with_identity_rotation():
    compiled = compile_scene(scene(BLOCK, BOARD), CATALOGUE, BUCKET)
    data = _data(compiled)
    mujoco.mj_step(compiled.model, data, 5)
    view = _view(compiled, data)
    absent = ~view.present[0]
    assert absent.tolist() == [False, True, True, True, True, True, False, True]
    for name in ("pos", "linvel", "angvel", "half_extent", "cavity_half"):
        assert not getattr(view, name)[0, absent].any(), name
    assert (view.quat[0, absent] == (1, 0, 0, 0)).all()
    assert not view.contact[0, absent].any() and not view.finger_contact[0, absent].any()


def test_contacts_are_symmetric_and_name_the_right_pair():
    # the can stands on the board, the block on the table
    on_board = dataclasses.replace(CAN, x=BOARD.x, y=BOARD.y, bottom=height(BOARD.asset), support="board_1")
    compiled = compile_scene(scene(BLOCK, on_board, BOARD), CATALOGUE, BUCKET)
    data = _data(compiled)
    mujoco.mj_step(compiled.model, data, 100)
    contact = _view(compiled, data).contact[0]
    expected = np.zeros((TOKENS, TOKENS + 1), bool)
    expected[0, TABLE] = expected[1, FREE_SLOTS] = expected[FREE_SLOTS, 1] = True
    np.testing.assert_array_equal(contact, expected)


def test_finger_contact_tells_the_sides_apart():
    compiled = compile_scene(scene(BLOCK, BOARD), CATALOGUE, BUCKET)
    data = _data(compiled)
    mujoco.mj_kinematics(compiled.model, data)
    pad = data.geom_xpos[compiled.model.geom("pad_left").id]
    data.qpos[9:12] = pad
    data.qpos[9] += 0.5 * CATALOGUE.get(BLOCK.asset).half_extent_m[0] * np.sign(pad[0] - 0.45)
    mujoco.mj_forward(compiled.model, data)
    assert _view(compiled, data).finger_contact[0, 0].tolist() == [True, False]


def test_reset_poses_are_kept_from_the_start_view():
    compiled = compile_scene(scene(BLOCK, BOARD), CATALOGUE, BUCKET)
    data = _data(compiled)
    mujoco.mj_forward(compiled.model, data)
    first = _view(compiled, data)
    data.qpos[9] += 0.1
    later = _view(compiled, data, start=first)
    np.testing.assert_array_equal(later.pos0, first.pos)
    assert later.pos[0, 0, 0] - later.pos0[0, 0, 0] == pytest.approx(0.1, abs=1e-6)


def test_contact_arrays_of_a_silent_bucket_are_empty():
    finger, contact = contacts(BUCKET, np.zeros((2, compile_scene(scene(BLOCK, BOARD), CATALOGUE, BUCKET).model.nsensordata)))
    assert finger.shape == (2, TOKENS, 2) and contact.shape == (2, TOKENS, TOKENS + 1)
    assert not finger.any() and not contact.any()
