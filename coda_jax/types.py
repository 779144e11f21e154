"""Shared array types and the few constants every floor agrees on.

Letters used in shapes everywhere: ``b`` worlds, ``n`` repeats, ``t`` control steps, ``k`` decisions, ``h`` chunk steps, ``a`` action
dims, ``o`` object tokens, ``j`` candidates, ``m`` stages, ``v`` bins, ``q`` generalised coordinates.
"""

from __future__ import annotations

import dataclasses
from typing import Any, dataclass_transform

import jax
import jax.numpy as jnp

Array = Any  # a numpy array on the native backend, a jax array elsewhere

FREE_SLOTS = 6  # object tokens 0..5: free bodies, padded to this in every bucket
FIXTURE_SLOTS = 2  # object tokens 6..7: static supports and containers
TOKENS = FREE_SLOTS + FIXTURE_SLOTS
ARTICULATED_TOKEN = TOKENS - 1  # of the fixtures' tokens the one that an articulated object takes
TABLE = TOKENS  # entity index of the table top in expressions and contacts
GRIPPER = TOKENS + 1  # entity index of the gripper (grip point between the finger tips)
ENTITIES = TOKENS + 2
REGIONS = 24  # places that LIBERO's predicates can name in one scene, after the entities in an expression's index

ACTION_DIM = 7
POSITION_SCALE_M = 0.05  # one unit of action[0:3], base frame
ROTATION_SCALE_RAD = 0.5  # one unit of action[3:6], axis-angle in the base frame
TIMESTEP_S = 0.005
CONTROL_HZ = 10
SUBSTEPS = 20  # physics steps per control step; TIMESTEP_S * SUBSTEPS * CONTROL_HZ == 1

HEALTH_NAN = 1  # bit flags of SimState.health
HEALTH_OVERFLOW = 2


@dataclass_transform(frozen_default=True)
def _pytree(cls):
    cls = dataclasses.dataclass(frozen=True)(cls)
    jax.tree_util.register_dataclass(cls, [f.name for f in dataclasses.fields(cls)], [])
    return cls


def where_rows(take: Array, new: Any, old: Any) -> Any:
    """Two trees of arrays [b, ...] as one: rows of ``new`` where ``take`` [b], of ``old`` elsewhere."""
    return jax.tree.map(lambda n, o: jnp.where(take.reshape(-1, *(1,) * (n.ndim - 1)), n, o), new, old)


@_pytree
class Regions:
    """What LIBERO's predicates read beside a view: named places of a scene (``r``), the things' body origins. Base frame, SI units.

    pos: [b, r, 3] and rotation: [b, r, 3, 3] of each region's box. half: [b, r, 3] its half sizes. touches: [b, o, r] bool, the object
    touches the thing that the region belongs to; true for a region of the workspace, which asks for no contact. joint: [b, r] value of the
    joint that the region moves with, infinite without one. origin: [b, o, 3] origins of the objects' bodies.
    """

    pos: Array
    rotation: Array
    half: Array
    touches: Array
    joint: Array
    origin: Array


@_pytree
class WorldView:
    """The named arrays that helpers, observations and agents read: one moment of ``b`` worlds, base frame, SI units.

    Tokens ``o``: 0..5 free objects (in the order of the scene program, unused ones absent), 6..7 fixtures. Quaternions are wxyz.
    An articulated object is token 7, and stands there with its handle: pos, box and velocities are the handle's, quat the moving link's.
    """

    ee_pos: Array  # [b, 3] grip point, m
    ee_quat: Array  # [b, 4]
    gripper_opening: Array  # [b] distance between the finger pads, m, 0..0.08
    pos: Array  # [b, o, 3] centre of the object's bounding box, m
    quat: Array  # [b, o, 4]
    linvel: Array  # [b, o, 3] m/s
    angvel: Array  # [b, o, 3] rad/s
    half_extent: Array  # [b, o, 3] half sizes of the bounding box in the object's frame, m
    cavity_pos: Array  # [b, o, 3] centre of the containers' inner box in the object's frame, m (zeros without one)
    cavity_half: Array  # [b, o, 3] half sizes of the inner box, m (zeros without one)
    articulation: Array  # [b, o] joint value (rad or m), 0 without a joint
    articulation_range: Array  # [b, o, 2]
    finger_contact: Array  # [b, o, 2] bool, left and right finger touch the object
    contact: Array  # [b, o, o + 1] bool, symmetric among tokens; the last column is the table
    present: Array  # [b, o] bool, the token stands for a real object
    pos0: Array  # [b, o, 3] reset value of pos
    quat0: Array  # [b, o, 4] reset value of quat
    control_step: Array  # [b] int32, control steps since the reset
    regions: Regions | None = None  # of LIBERO's scenes only


@_pytree
class SimState:
    """State of ``b`` worlds between chunks.

    physics: the backend's full integration state with warm start (native: float64 [b, nstate]; MJX: a batched mjx.Data).
    stage: [b] int32 latch of a training program's stage (0 where none is set).
    health: [b] int32 bit flags HEALTH_NAN, HEALTH_OVERFLOW; a world with a flag is frozen and counted, never used.
    """

    physics: Any
    view: WorldView
    stage: Array
    health: Array


@_pytree
class ChunkTrace:
    """What happened inside one executed chunk of ``e`` control steps; rows after a world ended repeat its last row.

    active: [b, e] bool, the control step was executed. executed: [b] int32 = active.sum(1), the h_k of METHOD 2.
    predicates: [b, e, p] float32 values of the batch's predicate table after each control step; column 0 is nu.
    qpos: [b, e, q] float32, generalised coordinates after each control step (enough to render again).
    terminated: [b] bool, nu became true. truncated: [b] bool, the horizon ran out. clipped: [b] int32, action entries outside [-1, 1].
    moving: what moves of the WorldView after each control step (sim/recording.py), [b, e, ...]; None where no record was asked for.
    """

    active: Array
    executed: Array
    predicates: Array
    qpos: Array
    terminated: Array
    truncated: Array
    clipped: Array
    moving: dict[str, Array] | None


@_pytree
class Observation:
    """What a policy may see at a decision: no role flags, no ids, no hidden physics.

    Raw quantities in the base frame; policies derive relative and multi-scale features themselves.
    """

    ee_pos: Array  # [b, 3]
    ee_quat: Array  # [b, 4]
    gripper_opening: Array  # [b]
    pos: Array  # [b, o, 3]
    quat: Array  # [b, o, 4]
    linvel: Array  # [b, o, 3]
    angvel: Array  # [b, o, 3]
    half_extent: Array  # [b, o, 3]
    articulation: Array  # [b, o]
    articulation_range: Array  # [b, o, 2]
    present: Array  # [b, o] bool
    text: Array  # [b, o, d] embedding of the colour and category words of each token
    instruction: Array  # [b, d] embedding of the instruction
    pixels: Array | None = None  # [b, cameras, height, width, 3] uint8; None for a policy of states


# Fields of Observation in stored episodes: those of every control step, and those that stay; words are stored as text.
STEP_FIELDS = ("ee_pos", "ee_quat", "gripper_opening", "pos", "quat", "linvel", "angvel", "articulation")
EPISODE_FIELDS = ("half_extent", "articulation_range", "present")
# Fields of WorldView in recordings, likewise; control_step is the row's number.
MOVING_FIELDS = (*STEP_FIELDS, "finger_contact", "contact")
FIXED_FIELDS = (*EPISODE_FIELDS, "cavity_pos", "cavity_half", "pos0", "quat0")
