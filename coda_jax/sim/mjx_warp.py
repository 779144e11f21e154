"""MJX's other implementation, NVIDIA warp, behind the same simulator: what a world carries between control steps, and how it is stepped.

Warp tests every pair of geoms, and keeps the contacts of all worlds in one pool. So nothing that a limit on pairs would hide is looked for
here, and only the pool and each world's constraint rows can overflow.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from coda_jax.sim import mjx_model, poses, warp_extra
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import HIDDEN_GROUP, CompiledScene
from coda_jax.sim.mjx_buckets import MJX_BUCKETS
from coda_jax.sim.mjx_library import mjx
from coda_jax.sim.mjx_state import saved
from coda_jax.types import Array

_ROWS = 6  # of the constraint Jacobian for a contact with a pyramid of condim 4
_START = ("geom_xpos", "geom_xmat")  # what a scene brings for mjx.Data; all else is for mjx.Model
_ABSENT = ("dof_M0",)  # of the stacked fields, beside those of ``stat``: warp computes them anew or shares them


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Physics:
    """``b`` worlds: what the next step reads (mjx_state.py), touching: [b, owners, owners] bool, and full: [b] bool, whether contacts or
    constraint rows found no room."""

    time: Array
    qpos: Array
    qvel: Array
    ctrl: Array
    qacc_warmstart: Array
    touching: Array
    full: Array

    def replace(self, **fields: Array) -> Physics:
        return dataclasses.replace(self, **fields)


@functools.cache
def shared(bucket: Bucket) -> Any:
    """The bucket's model on the device.

    Raises:
      WarpMissingError: warp is not installed.
    """
    warp_extra.require("set sim.mjx_impl to jax")
    return mjx.put_model(mjx_model.frame(bucket), impl="warp")


@functools.cache
def blank(bucket: Bucket, worlds: int) -> Any:
    """Data of one world with the pool of ``worlds``; numpy arrays, so that traces may share it."""
    model, contacts = mjx_model.frame(bucket), MJX_BUCKETS[bucket].contacts
    with jax.ensure_compile_time_eval():
        rows = _ROWS * contacts + model.nv + model.njnt
        return jax.tree.map(np.asarray, mjx.make_data(model, impl="warp", naconmax=contacts * worlds, njmax=rows))


def placed(bucket: Bucket, owners: int, qpos: Array, ctrl: Array) -> Physics:
    """Worlds at rest in ``qpos`` [b, q] under ``ctrl`` [b, u], not stepped yet."""
    b, speed = len(qpos), jnp.zeros((len(qpos), mjx_model.frame(bucket).nv))
    return Physics(jnp.zeros(b), qpos, speed, ctrl, speed, jnp.zeros((b, owners, owners), bool), jnp.zeros(b, bool))


def fields_of(scene: CompiledScene, fields: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """mjx_model.scene_fields as warp needs them: true bounding radii, which decide what it tests, boxes around empty geoms, and where the
    geoms are at first (``_START``): warp never moves those that do not move."""
    model, empty = scene.model, scene.model.geom_group == HIDDEN_GROUP
    radius, box = np.array(model.geom_rbound, np.float32), fields["geom_aabb"].copy()
    radius[empty] = np.linalg.norm(mjx_model.EMPTY_SIZE_M)
    box[empty] = (0.0, 0.0, 0.0, *mjx_model.EMPTY_SIZE_M)
    data = mujoco.MjData(model)
    data.qpos[:] = scene.qpos
    mujoco.mj_kinematics(model, data)
    bodies = data.xpos[None], data.xquat[None], model.geom_bodyid[None]
    place, rotation = poses.attached(*bodies, fields["geom_pos"][None], fields["geom_quat"][None])
    kept = {name: v for name, v in fields.items() if not name.startswith("stat.") and name not in _ABSENT}
    start = dict(zip(_START, (place[0].astype(np.float32), rotation[0].astype(np.float32)), strict=True))
    return kept | {"geom_rbound": radius, "geom_aabb": box.reshape(-1, 2, 3)} | start


def control_step(bucket: Bucket, model: Any, owner: Array, fields: dict[str, Array], physics: Physics, ramp: Array) -> Physics:
    """Physics steps of every world under the commands ``ramp`` [s, b, u]; contacts are those of the last pose."""
    from mujoco.mjx.warp.collision_driver import collision  # mjx.collision knows the implementation jax alone

    unset = blank(bucket, len(physics.qpos))
    carried = saved(physics) | {name: fields[name] for name in _START}
    fields = {name: values for name, values in fields.items() if name not in _START}

    def first(fields, carried, ctrl):
        return mjx.step(model.tree_replace(fields), unset.replace(**(carried | {"ctrl": ctrl})))

    def later(fields, data, ctrl):
        return mjx.step(model.tree_replace(fields), data.replace(ctrl=ctrl))

    def renewed(fields, data):
        own = model.tree_replace(fields)
        return collision(own, mjx.kinematics(own, data))

    def substep(carry, ctrl):
        data, full = carry
        data = jax.vmap(later)(fields, data, ctrl)
        return (data, full | _full(data)), None

    data = jax.vmap(first)(fields, carried, ramp[0])
    (data, full), _ = jax.lax.scan(substep, (data, _full(data)), ramp[1:])
    last = jax.vmap(renewed)(fields, data)
    touching = _touching(owner, last, physics.touching.shape)
    return Physics(data.time, data.qpos, data.qvel, ramp[-1], data.qacc_warmstart, touching, full | _pool_full(last))


def _full(data: Any) -> Array:
    """[b] bool: a contact or a constraint row of the step found no room."""
    inside = data._impl
    return _pool_full(data) | (inside.nefc.reshape(-1) >= inside.njmax)


def _pool_full(data: Any) -> Array:
    """Whether a contact found no room in the pool, a scalar: nobody knows whose contact it was."""
    inside = data._impl
    return (inside.nacon[0] > inside.naconmax) | (inside.ncollision[0] > inside.naconmax)


def _touching(owner: Array, data: Any, shape: tuple[int, ...]) -> Array:
    """[b, owners, owners] bool: which owners are in contact."""
    inside = data._impl
    there = (jnp.arange(inside.naconmax) < inside.nacon[0]) & (inside.contact__dist < 0)
    first, second = owner[inside.contact__geom[:, 0]], owner[inside.contact__geom[:, 1]]
    world = jnp.where(there, inside.contact__worldid, 0)
    found = jnp.zeros(shape, bool).at[world, first, second].max(there)
    return found | jnp.swapaxes(found, 1, 2)
