"""Whether the limit on tested pairs has hidden a contact: MJX tests the nearest pairs (mjx_model.py), and drops the others."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from coda_jax.sim.bucket import Bucket
from coda_jax.sim.mjx_buckets import MJX_BUCKETS
from coda_jax.sim.mjx_library import collision_driver
from coda_jax.sim.mjx_model import frame
from coda_jax.types import Array


@functools.cache
def kinds(bucket: Bucket) -> dict[str, np.ndarray]:
    """Pairs of geoms [p, 2] that may meet in a bucket, by the shapes of the two ("box box"), in MJX's order."""
    model, found = frame(bucket), {}
    for first, second, _ in collision_driver.geom_pairs(model):
        shapes = " ".join(mujoco.mjtGeom(model.geom_type[g]).name[7:].lower() for g in (first, second))
        found.setdefault(shapes, []).append((first, second))
    return {shapes: np.array(pairs) for shapes, pairs in found.items()}


def limited(bucket: Bucket) -> tuple[np.ndarray, ...]:
    """The kinds of which only ``pairs`` are tested; those with the table always are."""
    return tuple(p for shapes, p in kinds(bucket).items() if "plane" not in shapes and len(p) > MJX_BUCKETS[bucket].pairs)


def _half_boxes(model: mujoco.MjModel, size: Array) -> Array:
    """Half sides [g, 3] of the boxes around boxes and capsules."""
    radius, half = size[:, :1], size[:, 1:2]
    around = jnp.concatenate([radius, radius, radius + half], 1)
    return jnp.where((model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE)[:, None], around, size)


def _overlap(pos: Array, mat: Array, half: Array, pairs: np.ndarray) -> Array:
    """[p] bool: no face of either box separates the two."""
    a, b = pairs.T
    away, turn = pos[b] - pos[a], jnp.einsum("pji,pjk->pik", mat[a], mat[b])
    size = jnp.abs(turn)
    of_a = jnp.abs(jnp.einsum("pji,pj->pi", mat[a], away)) - half[a] - jnp.einsum("pij,pj->pi", size, half[b])
    of_b = jnp.abs(jnp.einsum("pji,pj->pi", mat[b], away)) - half[b] - jnp.einsum("pij,pi->pj", size, half[a])
    return (of_a < 0).all(1) & (of_b < 0).all(1)


def hidden(bucket: Bucket, pos: Array, mat: Array, size: Array, radius: Array) -> Array:
    """Scalar bool: of one world, whether boxes around two geoms overlap that were not tested.

    Args:
      pos [g, 3], mat [g, 3, 3], size [g, 3], radius [g]: of the geoms, m; a negative radius marks an empty one.
    """
    found, half = jnp.bool_(False), _half_boxes(frame(bucket), size)
    for pairs in limited(bucket):
        found |= hidden_among(pairs, MJX_BUCKETS[bucket].pairs, pos, mat, half, radius)
    return found


def hidden_among(pairs: np.ndarray, tested: int, pos: Array, mat: Array, half: Array, radius: Array) -> Array:
    """The same of ``pairs`` [p, 2], of which the nearest ``tested`` are; half: [g, 3] of the boxes around the geoms."""
    if len(pairs) <= tested:  # none is left out
        return jnp.bool_(False)
    a, b = pairs.T
    gap = jnp.linalg.norm(pos[b] - pos[a], axis=1) - (radius[a] + radius[b])
    seen = jnp.zeros(len(pairs), bool).at[jax.lax.top_k(-gap, tested)[1]].set(True)
    return jnp.any(_overlap(pos, mat, half, pairs) & ~seen & (radius[a] > 0) & (radius[b] > 0))
