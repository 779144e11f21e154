"""Rotations in jax: quaternions (wxyz), rotation vectors, 6-D features. All functions map over leading axes."""

from __future__ import annotations

import jax.numpy as jnp

from coda_jax.types import Array


def multiply(p: Array, q: Array) -> Array:
    """Hamilton product of quaternions [..., 4]: rotate by q first, then by p."""
    pw, px, py, pz = jnp.moveaxis(p, -1, 0)
    qw, qx, qy, qz = jnp.moveaxis(q, -1, 0)
    return jnp.stack(
        [
            pw * qw - px * qx - py * qy - pz * qz,
            pw * qx + px * qw + py * qz - pz * qy,
            pw * qy - px * qz + py * qw + pz * qx,
            pw * qz + px * qy - py * qx + pz * qw,
        ],
        axis=-1,
    )


def conjugate(q: Array) -> Array:
    return q * jnp.array([1.0, -1.0, -1.0, -1.0], q.dtype)


def from_rotation_vector(r: Array) -> Array:
    """Quaternion [..., 4] of a rotation vector [..., 3] (axis times angle, rad)."""
    angle2 = jnp.sum(r * r, axis=-1, keepdims=True)
    small = angle2 < 1e-8
    angle = jnp.sqrt(jnp.where(small, 1.0, angle2))  # the inner where keeps gradients finite at zero
    scale = jnp.where(small, 0.5 - angle2 / 48, jnp.sin(angle / 2) / angle)
    cos = jnp.where(small, 1 - angle2 / 8, jnp.cos(angle / 2))
    return jnp.concatenate([cos, scale * r], axis=-1)


def to_rotation_vector(q: Array) -> Array:
    """Rotation vector [..., 3] of a unit quaternion, with an angle of at most pi."""
    q = jnp.where(q[..., :1] < 0, -q, q)
    sin2 = jnp.sum(q[..., 1:] ** 2, axis=-1, keepdims=True)
    small = sin2 < 1e-8
    sin = jnp.sqrt(jnp.where(small, 1.0, sin2))
    scale = jnp.where(small, 2.0 + sin2 / 3, 2 * jnp.arctan2(sin, q[..., :1]) / sin)
    return scale * q[..., 1:]


def to_matrix(q: Array) -> Array:
    """Rotation matrix [..., 3, 3] of a unit quaternion [..., 4]."""
    w, x, y, z = jnp.moveaxis(q, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def six_d(matrix: Array) -> Array:
    """First two columns of a rotation matrix, [..., 6]: the continuous representation of Zhou et al. 2019."""
    return jnp.concatenate([matrix[..., :, 0], matrix[..., :, 1]], axis=-1)


def yaw(matrix: Array) -> Array:
    """Heading [...] (rad) of the frame's x axis about base +z."""
    return jnp.arctan2(matrix[..., 1, 0], matrix[..., 0, 0])


def about_z(vector: Array, angle: Array) -> Array:
    """Vectors [..., 3] turned by ``angle`` (broadcastable to [...], rad) about +z."""
    c, s = jnp.cos(angle), jnp.sin(angle)
    x, y, z = jnp.moveaxis(vector, -1, 0)
    return jnp.stack([c * x - s * y, s * x + c * y, jnp.broadcast_to(z, jnp.shape(c * x))], axis=-1)
