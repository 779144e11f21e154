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


@dataclasses.dataclass(frozen=True)
class _Raw:
    """What batches hold of all worlds, world frame: poses of the tokens' root bodies, velocities of free ones, joints, contacts, sites."""

    body_pos: np.ndarray  # [b, o, 3]
    body_quat: np.ndarray  # [b, o, 4]
    drift: np.ndarray  # [b, o, 3] velocity of a free body's origin
    spin: np.ndarray  # [b, o, 3] in the body's frame
    joint: np.ndarray  # [b, o]
    joint_speed: np.ndarray  # [b, o]
    finger_contact: np.ndarray  # [b, o, 2]
    contact: np.ndarray  # [b, o, o + 1]
    site_pos: np.ndarray  # [b, r, 3]
    site_rotation: np.ndarray  # [b, r, 9]
    region_joint: np.ndarray  # [b, r]
    grip_pos: np.ndarray  # [b, 3]
    hand_quat: np.ndarray  # [b, 4]
    opening: np.ndarray  # [b]


class _Gatherer:
    """Takes the numbers of one batch's worlds out of its arrays; numpy's calls cost more than the numbers, so the rest is done for all."""

    def __init__(self, worlds: Worlds, layouts: Sequence[Layout]):
        self._worlds, self._rows = worlds, np.arange(len(layouts))[:, None]
        self._hand = worlds.models[0].body(HAND).id

        def stacked(name: str) -> np.ndarray:
            return np.stack([getattr(x, name) for x in layouts])

        self._body, self._site, self._joint, self._joint_v = (stacked(n) for n in ("body", "site", "joint", "joint_v"))
        self._velocity = stacked("free_v")[:, :, None] + np.arange(6)
        self._region_joint = stacked("region_joint")
        first = layouts[0]  # worlds of one structure have the same things, hence the same sensors
        self._fingers, self._pairs = first.fingers, first.pairs

    def gather(self) -> _Raw:
        w, rows = self._worlds, self._rows
        velocity = w.qvel[rows[:, :, None], self._velocity]
        found = w.sensordata > 0
        finger_contact = np.zeros((len(rows), TOKENS, 2), bool)
        contact = np.zeros((len(rows), TOKENS, TOKENS + 1), bool)
        place, token, side = self._fingers.T
        finger_contact[:, token, side] = found[:, place]
        place, first, second = self._pairs.T
        contact[:, first, second] = found[:, place]
        return _Raw(
            body_pos=w.xpos[rows, self._body],
            body_quat=w.xquat[rows, self._body],
            drift=velocity[..., :3],
            spin=velocity[..., 3:],
            joint=w.qpos[rows, self._joint],
            joint_speed=w.qvel[rows, self._joint_v],
            finger_contact=finger_contact,
            contact=contact,
            site_pos=w.site_xpos[rows, self._site],
            site_rotation=w.site_xmat[rows, self._site],
            region_joint=w.qpos[rows, self._region_joint],
            grip_pos=w.grip_pos,
            hand_quat=w.xquat[:, self._hand],
            opening=w.qpos[:, ARM] - w.qpos[:, ARM + 1],
        )


class Reader:
    """Reads the views of worlds in several batches; holds what stays while their scenes stay.

    Args:
      groups: every batch with the numbers of its worlds, in its order. layouts: one per world. scales: [b, o] of the things.
    """

    def __init__(self, groups: Sequence[tuple[Worlds, np.ndarray]], layouts: Sequence[Layout], scales: np.ndarray):
        n = len(layouts)
        self._gatherers = [_Gatherer(worlds, [layouts[r] for r in rows]) for worlds, rows in groups]
        self._order = np.argsort(np.concatenate([rows for _, rows in groups]))
        self._base, self._size = np.zeros((n, 3)), np.zeros((n, REGIONS, 3))
        for worlds, rows in groups:
            for task, model, row in zip(worlds.tasks, worlds.models, rows, strict=True):
                self._base[row], self._size[row] = task.base, model.site_size[layouts[row].site]

        def stacked(name: str) -> np.ndarray:
            return np.stack([getattr(x, name) for x in layouts])

        self._free, self._present, self._jointed = stacked("free")[..., None], stacked("present"), stacked("jointed")
        self._way, self._slides, self._used, self._parent = (stacked(k) for k in ("way", "slides", "region", "parent"))
        self._moves = stacked("region_joint") >= 0
        self._range = np.zeros((n, TOKENS, 2), np.float32)
        self._range[..., 1] = stacked("span")
        self._centre, self._half, cavity_pos, cavity_half = (np.zeros((n, TOKENS, 3)) for _ in range(4))
        self._upright = np.zeros((n, TOKENS, 4))
        self._upright[..., 0] = 1.0
        for i, layout in enumerate(layouts):
            for o, thing in enumerate(layout.things):
                self._centre[i, o], self._half[i, o] = thing.centre_m, thing.half_m
                cavity_pos[i, o], cavity_half[i, o] = cavity(thing)
                self._upright[i, o] = thing.up[0], -thing.up[1], -thing.up[2], -thing.up[3]
        factor = scales[:, :, None]
        self._centre = self._centre * factor
        self._half, self._cavity_pos, self._cavity_half = ((v * factor).astype(np.float32) for v in (self._half, cavity_pos, cavity_half))
        self._size = np.where(self._used[..., None], self._size, 0.0).astype(np.float32)

    def read(self, control_step: np.ndarray) -> WorldView:
        """The view of the present moment; pos0 and quat0 are its own poses."""
        parts = [g.gather() for g in self._gatherers]
        raw = parts[0]
        if len(parts) > 1:
            raw = _Raw(*(np.concatenate([getattr(p, f.name) for p in parts])[self._order] for f in dataclasses.fields(_Raw)))
        joint = self._way * np.where(self._jointed, raw.joint, 0.0)
        joint_speed = self._way * np.where(self._jointed, raw.joint_speed, 0.0)
        origin = raw.body_pos - self._base[:, None]
        quat = multiplied(raw.body_quat, self._upright)
        turn = rotation_matrices(quat)
        arm = (turn @ (self._centre + self._slides * (self._way * joint)[..., None])[..., None])[..., 0]
        pos = origin + arm
        angvel = np.where(self._free, (rotation_matrices(raw.body_quat) @ raw.spin[..., None])[..., 0], 0.0)
        slid = (turn @ (self._slides * (self._way * joint_speed)[..., None])[..., None])[..., 0]
        linvel = np.where(self._free, raw.drift + np.cross(angvel, arm), slid)
        absent = ~self._present
        pos[absent], linvel[absent], angvel[absent], origin[absent] = 0.0, 0.0, 0.0, 0.0
        quat[absent] = (1.0, 0.0, 0.0, 0.0)
        contact = raw.contact
        contact[:, :, :TOKENS] |= contact[:, :, :TOKENS].swapaxes(1, 2)
        single = np.float32
        pos, quat = pos.astype(single), quat.astype(single)
        return WorldView(
            ee_pos=(raw.grip_pos - self._base).astype(single),
            ee_quat=raw.hand_quat.astype(single),
            gripper_opening=raw.opening.astype(single),
            pos=pos,
            quat=quat,
            linvel=linvel.astype(single),
            angvel=angvel.astype(single),
            half_extent=self._half,
            cavity_pos=self._cavity_pos,
            cavity_half=self._cavity_half,
            articulation=joint.astype(single),
            articulation_range=self._range,
            finger_contact=raw.finger_contact,
            contact=contact,
            present=self._present,
            pos0=pos,
            quat0=quat,
            control_step=control_step,
            regions=self._regions(raw, origin),
        )

    def _regions(self, raw: _Raw, origin: np.ndarray) -> Regions:
        used, single = self._used, np.float32
        parents = np.broadcast_to(self._parent[:, None], (len(used), TOKENS, REGIONS))
        touches = (self._parent == TOKENS)[:, None] | np.take_along_axis(raw.contact, parents, 2)
        return Regions(
            pos=np.where(used[..., None], raw.site_pos - self._base[:, None], 0.0).astype(single),
            rotation=raw.site_rotation.reshape(-1, REGIONS, 3, 3).astype(single),
            half=self._size,
            touches=touches & used[:, None],
            joint=np.where(self._moves & used, raw.region_joint, FAR).astype(single),
            origin=origin.astype(single),
        )
