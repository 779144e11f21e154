"""What the flow policy computes from an observation before any learned weight: frames, multi-scale positions, rotations, boxes."""

from __future__ import annotations

import jax.numpy as jnp

from coda_jax.learning.policies import rotations
from coda_jax.types import Array, Observation

FINE_SCALES_PER_M = (25.0, 80.0)  # tanh(25 p) resolves the last 4 cm, tanh(80 p) the last 1 cm


def heading(obs: Observation, yaw_frame: bool) -> Array:
    """Angle [b] (rad) of the frame that features and chunks are expressed in: the gripper's yaw, or 0 for the base frame."""
    if not yaw_frame:
        return jnp.zeros_like(obs.gripper_opening)
    return rotations.yaw(rotations.to_matrix(obs.ee_quat))


def multi_scale(p: Array, on: bool) -> Array:
    """Displacements [..., 3] (m) as 9 numbers at three resolutions (3 when off)."""
    coarse = 4.0 * p
    return jnp.concatenate([coarse, *(jnp.tanh(s * p) for s in FINE_SCALES_PER_M)], axis=-1) if on else coarse


def _turned_matrix(quat: Array, angle: Array) -> Array:
    columns = jnp.swapaxes(rotations.to_matrix(quat), -1, -2)
    return jnp.swapaxes(rotations.about_z(columns, angle[..., None]), -1, -2)


def shape_features(obs: Observation) -> Array:
    """Bounding box and articulation of every token, [b, o, 7]."""
    low, high = obs.articulation_range[..., 0], obs.articulation_range[..., 1]
    share = (obs.articulation - low) / jnp.where(high > low, high - low, 1.0)
    joint = jnp.stack([obs.articulation, low, high, jnp.where(high > low, share, 0.0)], axis=-1)
    return jnp.concatenate([10.0 * obs.half_extent, joint], axis=-1)


def token_features(obs: Observation, angle: Array, multiscale: bool) -> Array:
    """Features [b, o, f] of every token relative to the gripper, in the frame turned by ``angle`` [b]."""
    turn = -angle[:, None]
    relative = rotations.about_z(obs.pos - obs.ee_pos[:, None], turn)
    return jnp.concatenate(
        [
            multi_scale(relative, multiscale),
            5.0 * obs.pos[..., 2:],
            rotations.six_d(_turned_matrix(obs.quat, jnp.broadcast_to(turn, obs.pos.shape[:-1]))),
            jnp.tanh(5.0 * rotations.about_z(obs.linvel, turn)),
            jnp.tanh(0.5 * rotations.about_z(obs.angvel, turn)),
            shape_features(obs),
        ],
        axis=-1,
    )


def gripper_features(obs: Observation, angle: Array, multiscale: bool) -> Array:
    """Features [b, g] of the gripper: position in the base frame, height at several scales, heading, tilt, opening."""
    height = obs.ee_pos[:, 2:]
    fine = [jnp.tanh(s * height) for s in FINE_SCALES_PER_M] if multiscale else []
    tilt = rotations.six_d(_turned_matrix(obs.ee_quat, -angle))
    yaw = rotations.yaw(rotations.to_matrix(obs.ee_quat))[:, None]
    opening = 25.0 * (obs.gripper_opening[:, None] - 0.04)
    return jnp.concatenate([3.0 * obs.ee_pos, *fine, jnp.cos(yaw), jnp.sin(yaw), tilt, opening], axis=-1)


TOKEN_DIM = {True: 29, False: 23}  # by multi-scale; checked where weights are made
GRIPPER_DIM = {True: 14, False: 12}
SHAPE_DIM = 7
