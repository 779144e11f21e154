"""The controller in jax against its numpy form, at states of a real chain."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from libero_arm import at_home, task_model

from coda_jax.sim.libero import control
from coda_jax.sim.libero.control import ARM
from coda_jax.sim.libero.surrogates import mjx_control
from coda_jax.sim.libero.worlds import Worlds, _at_home

RNG = np.random.default_rng(0)


def test_goals_torques_and_gripper_agree_to_single_precision():
    task, n = task_model(), 8
    w = Worlds([task] * n, threads=1, callback=False)
    w.place(at_home(task.model, n))
    w.batch.qpos[:, :ARM] += RNG.normal(0, 0.05, (n, ARM))
    w.batch.qvel[:, :ARM] = RNG.normal(0, 0.3, (n, ARM))
    w.forward()
    state = np.stack([control.userdata(0, _at_home(task)) for _ in range(n)])
    state[:, control.ACTION : control.ACTION + ARM] = RNG.uniform(-1.5, 1.5, (n, ARM))
    state[0, control.ACTION + 3 : control.ACTION + 6] = 0.0  # does not turn: the rotation goal stays
    anchors, axes, packed, bias = (np.array(w._bound[f]) for f in ("xanchor", "xaxis", "M", "qfrc_bias"))
    packed = packed[:, : ARM * (ARM + 1) // 2]
    q, qd, position, rotation = w.qpos[:, :ARM], w.qvel[:, :ARM], w.grip_pos.copy(), w.grip_rotation.copy()
    mass = control.full_mass_matrix(packed)
    goals = np.asarray(jax.vmap(mjx_control.with_goals)(*map(jnp.float32, (state, position, rotation))))
    control.set_goals(state, position, rotation)
    assert np.abs(goals - state).max() < 1e-5 and np.array_equal(
        goals[0, control.GOAL_ROT : control.GOAL_ROT + 9], np.float32(state[0, 12:21])
    )
    given = (state, q, qd, position, rotation, anchors[:, :ARM], axes[:, :ARM], mass, bias[:, :ARM])
    found = np.asarray(jax.vmap(mjx_control.torques)(*map(jnp.float32, given)))
    wanted = control.torques(state, q, qd, position, rotation, anchors[:, :ARM], axes[:, :ARM], packed, bias[:, :ARM])
    assert np.abs(wanted).max() > 5 and np.abs(found - wanted).max() < 0.02
    moved, fingers = jax.vmap(mjx_control.grip)(jnp.float32(state))
    assert np.abs(np.asarray(fingers) - control.grip(state)).max() < 1e-6 and np.abs(np.asarray(moved) - state).max() < 1e-5
