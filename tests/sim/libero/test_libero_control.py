"""The controller: its law against its own definition, the compiled form against numpy, and what it leaves alone."""

from __future__ import annotations

import copy

import mujoco
import numpy as np
import pytest
from libero_arm import at_home, task_model
from scipy.spatial.transform import Rotation

from coda_jax.sim.libero import compiled, control
from coda_jax.sim.libero.control import ARM
from coda_jax.sim.libero.worlds import Worlds

RNG = np.random.default_rng(0)


def test_rotations_are_those_of_axis_and_angle_in_single_precision():
    turns = np.concatenate([RNG.uniform(-0.5, 0.5, (50, 3)), np.zeros((1, 3))])
    found = control.rotation_of(turns)
    assert np.abs(found - Rotation.from_rotvec(turns).as_matrix()).max() < 3e-7
    assert np.array_equal(found[-1], np.eye(3))


def _arm(worlds: int):
    task = task_model()
    w = Worlds([task] * worlds, threads=1, callback=False)
    w.place(at_home(task.model, worlds))
    return task, w


def test_torques_follow_the_definition_of_operational_space_control():
    """Against the law written with full matrices and pseudo-inverses, at states of a real chain."""
    _, w = _arm(6)
    w.batch.qvel[:] = RNG.normal(0.0, 0.3, w.qvel.shape)
    w.forward()
    state = np.stack([control.userdata(0, _measured()) for _ in range(6)])
    state[:, control.ACTION : control.ACTION + ARM] = RNG.uniform(-1, 1, (6, ARM))
    control.set_goals(state, w.grip_pos, w.grip_rotation)
    bound = w._bound
    half = ARM * (ARM + 1) // 2
    arguments = (bound["xanchor"][:, :ARM], bound["xaxis"][:, :ARM], bound["M"][:, :half], bound["qfrc_bias"][:, :ARM])
    found = control.torques(state, w.qpos[:, :ARM], w.qvel[:, :ARM], w.grip_pos, w.grip_rotation, *arguments)
    for i in range(6):
        anchors, axes = arguments[0][i], arguments[1][i]
        jacobian = np.concatenate([np.cross(axes, w.grip_pos[i] - anchors).T, axes.T])
        mass, qd = control.full_mass_matrix(arguments[2])[i], w.qvel[i, :ARM]
        inverse = np.linalg.inv(mass)
        goal = state[i, control.GOAL_ROT : control.GOAL_ROT + 9].reshape(3, 3)
        turn = 0.5 * np.cross(w.grip_rotation[i].T, goal.T).sum(0)
        error = np.concatenate([state[i, control.GOAL_POS : control.GOAL_POS + 3] - w.grip_pos[i], turn])
        wanted = 150 * error - 2 * np.sqrt(150) * jacobian @ qd
        force = np.linalg.pinv(jacobian[:3] @ inverse @ jacobian[:3].T) @ wanted[:3]
        moment = np.linalg.pinv(jacobian[3:] @ inverse @ jacobian[3:].T) @ wanted[3:]
        whole = np.linalg.pinv(jacobian @ inverse @ jacobian.T)
        null = np.eye(ARM) - inverse @ jacobian.T @ whole @ jacobian
        pull = mass @ (10 * (_measured().home - w.qpos[i, :ARM]) - 2 * np.sqrt(10) * qd)
        expected = jacobian.T @ np.concatenate([force, moment]) + arguments[3][i] + null.T @ pull
        limits = np.array(control.TORQUE_LIMITS_NM)
        assert np.allclose(found[i], np.clip(expected, -limits, limits), atol=1e-8)


def _measured() -> control.Measured:
    from coda_jax.sim.libero.worlds import _at_home

    return _at_home(task_model())


def test_only_an_action_that_turns_moves_the_rotation_goal():
    state = np.zeros((2, control.USERDATA))
    state[:, control.GOAL_ROT : control.GOAL_ROT + 9] = 7.0
    state[1, control.ACTION + 4] = 0.2
    position = RNG.normal(size=(2, 3))
    control.set_goals(state, position, np.tile(np.eye(3), (2, 1, 1)))
    assert (state[0, control.GOAL_ROT : control.GOAL_ROT + 9] == 7.0).all()
    assert np.allclose(
        state[1, control.GOAL_ROT : control.GOAL_ROT + 9].reshape(3, 3), Rotation.from_rotvec([0, 0.1, 0]).as_matrix(), atol=1e-6
    )
    assert np.array_equal(state[:, control.GOAL_POS : control.GOAL_POS + 3], position)


def test_the_gripper_takes_eight_policy_steps_for_its_travel():
    state = np.zeros((1, control.USERDATA))
    state[:, control.ACTION + 6] = -1.0
    for _ in range(4 * control.SUBSTEPS):
        opened = control.grip(state)
    assert np.allclose(opened, [[0.04, -0.04]])
    state[:, control.ACTION + 6] = 1.0
    for _ in range(8 * control.SUBSTEPS - 1):
        assert control.grip(state)[0, 0] > 0
    assert np.allclose(control.grip(state), 0.0)


def test_the_hand_reaches_where_it_is_sent():
    _, w = _arm(2)
    for _ in range(20):
        w.step(np.zeros((2, ARM)))
    before = w.grip_pos.copy()
    way = np.array([0.4, 0.0, -0.2])
    for _ in range(20):
        w.step(np.tile([*way, 0, 0, 0, 1.0], (2, 1)))
    moved = w.grip_pos - before
    along = moved @ way / np.linalg.norm(way)
    assert (along > 0.04).all() and (along > 0.9 * np.linalg.norm(moved, axis=1)).all()


@pytest.mark.skipif(not compiled.available(), reason="needs numba")
def test_the_callback_gives_the_numbers_of_numpy():
    task = task_model()
    found = []
    for callback in (True, False):
        w = Worlds([task] * 3, threads=1, callback=callback)
        w.place(at_home(task.model, 3))
        rng = np.random.default_rng(1)
        for _ in range(15):
            w.step(rng.uniform(-1.2, 1.2, (3, ARM)))
        found.append((w.qpos.copy(), w.state()["userdata"]))
    assert np.abs(found[0][0] - found[1][0]).max() < 1e-10
    assert np.abs(found[0][1] - found[1][1]).max() < 1e-10


@pytest.mark.skipif(not compiled.available(), reason="needs numba")
def test_the_callback_leaves_other_models_and_callbacks_alone():
    with compiled.installed():
        for userdata in (0, control.USERDATA):
            model = task_model(userdata).model
            data = mujoco.MjData(model)
            data.ctrl[:] = 0.125
            mujoco.mj_step(model, data)
            assert (data.ctrl == 0.125).all()
    assert mujoco.get_mjcb_control() is None


def test_a_state_that_is_kept_goes_on_bit_for_bit():
    task, w = _arm(3)
    rng = np.random.default_rng(2)
    for _ in range(3):
        w.step(rng.uniform(-1, 1, (3, ARM)))
    kept, actions = w.state(), rng.uniform(-1, 1, (4, 3, ARM))
    for a in actions:
        w.step(a)
    other = Worlds([task] * 3, threads=1, callback=False)
    other.restore(kept)
    for a in actions:
        other.step(a)
    assert np.array_equal(other.qpos, w.qpos) and np.array_equal(other.state()["userdata"], w.state()["userdata"])


def test_steps_of_some_worlds_leave_the_others_alone():
    _, w = _arm(3)
    before = {name: values.copy() for name, values in w.state().items()}
    w.step(np.ones((1, ARM)), [1])
    after = w.state()
    for name, values in before.items():
        assert np.array_equal(after[name][[0, 2]], values[[0, 2]])
    assert not np.array_equal(after["qpos"][1], before["qpos"][1])


def test_an_error_of_mujoco_ends_only_its_own_world(monkeypatch):
    _, w = _arm(3)
    real, calls = w.batch.step, []

    def step(ids, **arguments):
        calls.append(list(ids))
        real(ids, **arguments)
        if 1 in ids and len(calls) == 2:
            raise mujoco.batch.SimulationError(np.array([1]), "no frame")

    monkeypatch.setattr(w.batch, "step", step)
    assert list(w.step(np.zeros((3, ARM)))) == [1]
    assert calls[2] == [0, 2] and len(calls) == control.SUBSTEPS


def broken(task):
    """The task's model with a transmission that MuJoCo does not know: it raises wherever it computes positions."""
    model = copy.copy(task.model)
    model.actuator_trntype[0] = 99
    return model


@pytest.mark.parametrize("callback", [False, pytest.param(True, marks=pytest.mark.skipif(not compiled.available(), reason="needs numba"))])
def test_worlds_in_which_mujoco_raises_are_named_and_the_others_go_on(callback):
    task = task_model()
    w = Worlds([task] * 3, threads=1, callback=callback)
    w.set_tasks([task] * 3, [task.model, broken(task), task.model])
    states = at_home(task.model, 3)
    assert list(w.place(states)) == list(w.restore(w.state())) == list(w.forward()) == [1]
    assert list(w.place(states[1:2], [1])) == [1] and list(w.place(states[2:], [2])) == list(w.forward([0])) == []
    assert list(w.step(np.zeros((3, ARM)))) == [1]
    alone = Worlds([task] * 3, threads=1, callback=callback)
    assert len(alone.place(states)) == len(alone.step(np.zeros((3, ARM)))) == 0
    assert np.array_equal(w.qpos[[0, 2]], alone.qpos[[0, 2]]) and np.array_equal(w.grip_pos[[0, 2]], alone.grip_pos[[0, 2]])
    assert np.array_equal(w.qpos[1], states[1, 1 : 1 + task.model.nq])
