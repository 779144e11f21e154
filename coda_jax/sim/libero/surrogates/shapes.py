"""The few boxes that stand for what a body of LIBERO's models collides with."""

from __future__ import annotations

import functools

import mujoco
import numpy as np

from coda_jax.sim.libero.surrogates.cover import Box, cover, single
from coda_jax.sim.libero.surrogates.vessel import vessel

MOST = 9  # boxes of a body
TOLERANCE = 0.25  # share of a body's volume that its boxes may add
SOLID = 0.5  # a body whose one hull adds no more than this becomes it: cans, whose jaws would slip off anything less even
BOARD_M = 0.004  # least half thickness of a fixture's lying boards: what falls a decimetre, as states begin, moves 3 mm a step


def thickened(box: Box) -> Box:
    """A lying board with its upper face where it was, and ``BOARD_M`` thick below."""
    normal = int(np.argmin(box.half))
    upwards = box.rotation[2, normal]
    if box.half[normal] >= BOARD_M or abs(upwards) < 0.99:
        return box
    half = box.half.copy()
    half[normal] = BOARD_M
    down = -np.sign(upwards) * (BOARD_M - box.half[normal])
    return Box(box.pos + down * box.rotation[:, normal], box.rotation, half)


def boxes_of(model: mujoco.MjModel, body: int) -> list[Box]:
    """The collision geoms of a body, in its frame; of a mesh the box about it, in the mesh's own frame of inertia.

    Raises:
      ValueError: a geom is neither a box nor a mesh.
    """
    found = []
    for g in np.flatnonzero(model.geom_bodyid == body):
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, model.geom_quat[g])
        rotation = rotation.reshape(3, 3)
        if model.geom_type[g] == mujoco.mjtGeom.mjGEOM_BOX:
            found.append(Box(model.geom_pos[g].copy(), rotation, model.geom_size[g].copy()))
        elif model.geom_type[g] == mujoco.mjtGeom.mjGEOM_MESH:
            centre, half = np.split(model.geom_aabb[g], 2)
            found.append(Box(model.geom_pos[g] + rotation @ centre, rotation, half.copy()))
        else:
            raise ValueError(f"a geom of {model.body(body).name} is neither a box nor a mesh")
    return found


def shapes_of(model: mujoco.MjModel, body: int) -> tuple[Box, ...]:
    """At most ``MOST`` boxes in place of a body's geoms, more for a vessel's rings.

    Raises:
      ValueError: see ``boxes_of``.
    """
    boxes = boxes_of(model, body)
    if model.body_weldid[body] == 0:
        boxes = [thickened(box) for box in boxes]
    key = np.array([[*b.pos, *b.rotation.reshape(9), *b.half] for b in boxes]).round(9)
    return _covered(key.tobytes(), len(boxes))


@functools.lru_cache(maxsize=256)
def _covered(key: bytes, number: int) -> tuple[Box, ...]:
    """Of things that are made alike once: a bowl takes seconds."""
    rows = np.frombuffer(key).reshape(number, 15)
    boxes = [Box(r[:3], r[3:12].reshape(3, 3), r[12:]) for r in rows]
    if (found := vessel(boxes)) is not None:
        return found
    solid = single(boxes)
    return solid.boxes if solid.added <= SOLID else cover(boxes, MOST, TOLERANCE).boxes
