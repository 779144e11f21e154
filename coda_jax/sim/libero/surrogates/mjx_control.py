"""OSC_POSE and the gripper (control.py) for one world in jax, float32; the law is the same, single rounding aside."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float

from coda_jax.sim.libero import control
from coda_jax.sim.libero.control import ARM
from coda_jax.types import Array


def rotation_of(turn: Float[Array, " 3"]) -> Float[Array, "3 3"]:
    """Rotation matrix of an axis-angle vector, rad (Rodrigues)."""
    angle = jnp.linalg.norm(turn)
    x, y, z = turn / jnp.where(angle == 0, 1.0, angle)
    cross = jnp.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return jnp.eye(3) + jnp.sin(angle) * cross + (1 - jnp.cos(angle)) * (cross @ cross)


def with_goals(state: Float[Array, " u"], position: Float[Array, " 3"], rotation: Float[Array, "3 3"]) -> Float[Array, " u"]:
    """The controller's state with its waiting action taken up at the measured pose."""
    action = jnp.clip(state[control.ACTION : control.ACTION + 6], -1.0, 1.0)
    turns = jnp.any(action[3:] != 0)
    kept = jax.lax.dynamic_slice(state, (control.GOAL_ROT,), (9,))
    goal = jnp.where(turns, (rotation_of(control.ROTATION_RAD * action[3:]) @ rotation).reshape(9), kept)
    state = state.at[control.GOAL_POS : control.GOAL_POS + 3].set(position + control.POSITION_M * action[:3])
    return state.at[control.GOAL_ROT : control.GOAL_ROT + 9].set(goal).at[control.FRESH].set(control.TAKEN)


def torques(
    state: Float[Array, " u"],
    q: Float[Array, " 7"],
    qd: Float[Array, " 7"],
    position: Float[Array, " 3"],
    rotation: Float[Array, "3 3"],
    anchors: Float[Array, "7 3"],
    axes: Float[Array, "7 3"],
    mass: Float[Array, "7 7"],
    bias: Float[Array, " 7"],
) -> Float[Array, " 7"]:
    """Torques of the arm, N m; arguments as control.torques, the inertia in full."""
    jacobian = jnp.concatenate([jnp.cross(axes, position - anchors), axes], 1).T
    goal = state[control.GOAL_ROT : control.GOAL_ROT + 9].reshape(3, 3)
    turn = 0.5 * jnp.cross(rotation.T, goal.T).sum(0)
    error = jnp.concatenate([state[control.GOAL_POS : control.GOAL_POS + 3] - position, turn])
    wanted = control.KP * error - control.KD * (jacobian @ qd)
    mobility = jacobian @ jnp.linalg.solve(mass, jacobian.T)
    pull = control.NULL_KP * (state[control.HOME : control.HOME + ARM] - q) - control.NULL_KD * qd
    force = jnp.linalg.solve(mobility[:3, :3], wanted[:3])
    moment = jnp.linalg.solve(mobility[3:, 3:], wanted[3:])
    wrench = jnp.concatenate([force, moment]) - jnp.linalg.solve(mobility, jacobian @ pull)
    limits = jnp.array(control.TORQUE_LIMITS_NM)
    return jnp.clip(jacobian.T @ wrench + mass @ pull + bias, -limits, limits)


def grip(state: Float[Array, " u"]) -> tuple[Float[Array, " u"], Float[Array, " 2"]]:
    """One physics step of the gripper: the state, and commands of both fingers, m."""
    moved = jnp.clip(state[control.GRIP] - control.GRIP_STEP * jnp.sign(state[control.ACTION + 6]), -1.0, 1.0)
    finger = control.FINGER_HALF_M * moved
    return state.at[control.GRIP].set(moved), jnp.stack([control.FINGER_MIDDLE_M + finger, -control.FINGER_MIDDLE_M - finger])
