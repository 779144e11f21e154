"""Between the actions everyone else sees and the chunks the flow policy learns.

Outside: LIBERO actions, 7 numbers in [-1, 1], motion relative to the measured pose at each control step, base frame. Inside: optionally
cumulative displacement since the decision (positions summed, rotations composed) and the gripper's yaw frame, standardised.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from coda_jax.learning.policies import rotations
from coda_jax.types import ROTATION_SCALE_RAD, Array

STD_FLOOR = 0.05  # of cumulated units: directions that demonstrations hardly use stay near their mean instead of amplifying noise


def encode_chunk(actions: Array, heading: Array, cumulative: bool) -> Array:
    """Actions [..., h, 7] to regression targets [..., h, 7] in the frame turned by ``heading`` [...] (rad) about +z.

    With ``cumulative`` row i holds the sum of positions up to i and the rotation vector of the composed rotations, both in action units.
    """
    turn = -jnp.asarray(heading)[..., None]
    position = rotations.about_z(actions[..., :3], turn)
    rotation = rotations.about_z(actions[..., 3:6], turn)
    if cumulative:
        position = jnp.cumsum(position, axis=-2)
        steps = rotations.from_rotation_vector(rotation * ROTATION_SCALE_RAD)
        composed = [steps[..., 0, :]]
        for i in range(1, steps.shape[-2]):
            composed.append(rotations.multiply(steps[..., i, :], composed[-1]))
        rotation = rotations.to_rotation_vector(jnp.stack(composed, axis=-2)) / ROTATION_SCALE_RAD
    return jnp.concatenate([position, rotation, actions[..., 6:]], axis=-1)


def decode_chunk(targets: Array, heading: Array, cumulative: bool) -> Array:
    """Inverse of :func:`encode_chunk`. Motion is not clipped: the simulator clips it and counts; the gripper command is cut to [-1, 1]."""
    position, rotation = targets[..., :3], targets[..., 3:6]
    if cumulative:
        position = jnp.diff(position, axis=-2, prepend=jnp.zeros_like(position[..., :1, :]))
        total = rotations.from_rotation_vector(rotation * ROTATION_SCALE_RAD)
        identity = jnp.zeros_like(total[..., :1, :]).at[..., 0].set(1.0)
        before = jnp.concatenate([identity, total[..., :-1, :]], axis=-2)
        rotation = rotations.to_rotation_vector(rotations.multiply(total, rotations.conjugate(before))) / ROTATION_SCALE_RAD
    turn = jnp.asarray(heading)[..., None]
    motion = [rotations.about_z(position, turn), rotations.about_z(rotation, turn)]
    return jnp.concatenate([*motion, jnp.clip(targets[..., 6:], -1, 1)], axis=-1)


def unit_statistics(h: int) -> dict[str, Array]:
    """Statistics that change nothing, mean and std [h, 7]."""
    return {"mean": jnp.zeros((h, 7)), "std": jnp.ones((h, 7))}


def fit_statistics(targets: Array, mask: Array) -> dict[str, Array]:
    """Mean and std [h, 7] of targets [n, h, 7] over the rows where mask [n, h] is set; the gripper keeps its own units."""
    weight = mask[..., None].astype(jnp.float32)
    count = jnp.maximum(weight.sum(0), 1.0)
    mean = (targets * weight).sum(0) / count
    std = jnp.sqrt((jnp.square(targets - mean) * weight).sum(0) / count)
    mean = mean.at[:, 6].set(0.0)
    std = jnp.maximum(std, STD_FLOOR).at[:, 6].set(1.0)
    return {"mean": mean, "std": std}


def standardise(statistics: dict[str, Array], targets: Array) -> Array:
    return (targets - jax.lax.stop_gradient(statistics["mean"])) / jax.lax.stop_gradient(statistics["std"])


def restore(statistics: dict[str, Array], targets: Array) -> Array:
    return targets * statistics["std"] + statistics["mean"]
