"""What a moment of LIBERO worlds looks like (WorldView): token poses, contacts, and the regions that LIBERO's predicates read.

A token stands at the centre of its thing's bounding box, turned as against the thing standing upright at yaw 0 (scenes/libero/things.py).
A cabinet or stove stays where it is and shows its top drawer's or knob's opening; the middle drawer moves. Contacts and poses are read
where the official environment reads them after a step: 2 ms before the coordinates of joints.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from coda_jax.sim.libero.control import ARM
from coda_jax.sim.libero.layout import HAND, Layout, cavity
from coda_jax.sim.libero.worlds import Worlds
from coda_jax.sim.state import rotation_matrices
from coda_jax.types import REGIONS, TOKENS, Regions, WorldView

FAR = np.inf  # joint value of a region that moves with none


def multiplied(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Products of rotations [..., 4], wxyz."""
    (w, x, y, z), (e, f, g, h) = np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0)
    return np.stack(
        [w * e - x * f - y * g - z * h, w * f + x * e + y * h - z * g, w * g - x * h + y * e + z * f, w * h + x * g - y * f + z * e], -1
    )


class Reader:
    """Reads the views of worlds of one structure; holds what stays while their scenes stay.

    Args:
      layouts: one per world. scales: [b, o] of the things.
    """

    def __init__(self, worlds: Worlds, layouts: Sequence[Layout], scales: np.ndarray):
        self._worlds, n = worlds, len(layouts)
        stacked = {f.name: np.stack([getattr(x, f.name) for x in layouts]) for f in dataclasses.fields(Layout) if f.name not in _UNSTACKED}
        self._at = stacked
        self._rows = np.arange(n)[:, None]
        self._base = np.stack([t.base for t in worlds.tasks])
        self._hand = worlds.models[0].body(HAND).id
        scales = scales[:, :, None]
        self._centre, self._half = np.zeros((n, TOKENS, 3)), np.zeros((n, TOKENS, 3))
        self._cavity_pos, self._cavity_half = np.zeros((n, TOKENS, 3)), np.zeros((n, TOKENS, 3))
        self._upright = np.zeros((n, TOKENS, 4))
        self._upright[..., 0] = 1.0
        for i, layout in enumerate(layouts):
            for o, thing in enumerate(layout.things):
                self._centre[i, o], self._half[i, o] = thing.centre_m, thing.half_m
                self._cavity_pos[i, o], self._cavity_half[i, o] = cavity(thing)
                self._upright[i, o] = thing.up[0], -thing.up[1], -thing.up[2], -thing.up[3]
        self._centre, self._half = self._centre * scales, self._half * scales
        self._cavity_pos, self._cavity_half = self._cavity_pos * scales, self._cavity_half * scales
        self._size = np.stack([worlds.models[i].site_size[x.site] for i, x in enumerate(layouts)])
        self._range = np.zeros((n, TOKENS, 2), np.float32)
        self._range[..., 1] = stacked["span"]

    def read(self, control_step: np.ndarray) -> WorldView:
        """The view of the present moment; pos0 and quat0 are its own poses."""
        w, at, rows = self._worlds, self._at, self._rows
        b = len(rows)
        absent, free = ~at["present"], at["free"]
        joint = at["way"] * np.where(at["jointed"], w.qpos[rows, at["joint"]], 0.0)
        joint_speed = at["way"] * np.where(at["jointed"], w.qvel[rows, at["joint_v"]], 0.0)
        origin = w.xpos[rows, at["body"]] - self._base[:, None]
        quat = multiplied(w.xquat[rows, at["body"]], self._upright)
        turn = rotation_matrices(quat)
        slid = at["slides"] * (at["way"] * joint)[..., None]
        arm = (turn @ (self._centre + slid)[..., None])[..., 0]
        pos = origin + arm
        still = np.zeros((b, TOKENS, 3))
        body_spin = np.stack([w.qvel[rows, at["free_v"] + k] for k in (3, 4, 5)], -1)
        angvel = np.where(free[..., None], (rotation_matrices(w.xquat[rows, at["body"]]) @ body_spin[..., None])[..., 0], still)
        linvel = np.where(free[..., None], np.stack([w.qvel[rows, at["free_v"] + k] for k in (0, 1, 2)], -1) + np.cross(angvel, arm), still)
        linvel += (turn @ (at["slides"] * (at["way"] * joint_speed)[..., None])[..., None])[..., 0]
        pos[absent], linvel[absent], angvel[absent] = 0.0, 0.0, 0.0
        quat[absent] = (1.0, 0.0, 0.0, 0.0)
        finger_contact, contact = self._contacts()
        single = np.float32
        pos32, quat32 = pos.astype(single), quat.astype(single)
        return WorldView(
            ee_pos=(w.grip_pos - self._base).astype(single),
            ee_quat=w.xquat[:, self._hand].astype(single),
            gripper_opening=(w.qpos[:, ARM] - w.qpos[:, ARM + 1]).astype(single),
            pos=pos32,
            quat=quat32,
            linvel=linvel.astype(single),
            angvel=angvel.astype(single),
            half_extent=self._half.astype(single),
            cavity_pos=self._cavity_pos.astype(single),
            cavity_half=self._cavity_half.astype(single),
            articulation=joint.astype(single),
            articulation_range=self._range,
            finger_contact=finger_contact,
            contact=contact,
            present=at["present"],
            pos0=pos32,
            quat0=quat32,
            control_step=control_step,
            regions=self._regions(origin, contact),
        )

    def _contacts(self) -> tuple[np.ndarray, np.ndarray]:
        found = self._worlds.sensordata > 0
        finger_contact = np.zeros((len(found), TOKENS, 2), bool)
        contact = np.zeros((len(found), TOKENS, TOKENS + 1), bool)
        for (place, token, side), column in zip(self._at["fingers"][0], found[:, self._at["fingers"][0][:, 0]].T, strict=True):
            del place
            finger_contact[:, token, side] = column
        for (place, first, second), column in zip(self._at["pairs"][0], found[:, self._at["pairs"][0][:, 0]].T, strict=True):
            del place
            contact[:, first, second] |= column
        contact[:, :, :TOKENS] |= contact[:, :, :TOKENS].swapaxes(1, 2)
        return finger_contact, contact

    def _regions(self, origin: np.ndarray, contact: np.ndarray) -> Regions:
        w, at, rows = self._worlds, self._at, self._rows
        used = at["region"]
        of_table = at["parent"] == TOKENS
        parents = np.broadcast_to(at["parent"][:, None], (len(rows), TOKENS, REGIONS))
        touches = np.where(of_table[:, None], True, np.take_along_axis(contact, parents, 2))
        joint = np.where(at["region_joint"] >= 0, w.qpos[rows, at["region_joint"]], FAR)
        single = np.float32
        return Regions(
            pos=np.where(used[..., None], w.site_xpos[rows, at["site"]] - self._base[:, None], 0.0).astype(single),
            rotation=w.site_xmat[rows, at["site"]].reshape(len(rows), REGIONS, 3, 3).astype(single),
            half=np.where(used[..., None], self._size, 0.0).astype(single),
            touches=touches & used[:, None],
            joint=np.where(used, joint, FAR).astype(single),
            origin=np.where(at["present"][..., None], origin, 0.0).astype(single),
        )


_UNSTACKED = ("index", "things")
