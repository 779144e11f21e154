"""The named arrays of a moment (WorldView), read from the generalised coordinates and contact sensors of a batch of worlds."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import CompiledScene, contact_sensors
from coda_jax.sim.joint import JointReader
from coda_jax.types import ARTICULATED_TOKEN, FIXTURE_SLOTS, FREE_SLOTS, TOKENS, Array, WorldView


def rotation_matrices(quat: Array) -> Array:
    """[..., 3, 3] of wxyz quaternions [..., 4]."""
    w, x, y, z = quat[..., 0], quat[..., 1], quat[..., 2], quat[..., 3]
    rows = [
        1 - 2 * (y * y + z * z),
        2 * (x * y - w * z),
        2 * (x * z + w * y),
        2 * (x * y + w * z),
        1 - 2 * (x * x + z * z),
        2 * (y * z - w * x),
        2 * (x * z - w * y),
        2 * (y * z + w * x),
        1 - 2 * (x * x + y * y),
    ]
    return np.stack(rows, -1).reshape(*quat.shape[:-1], 3, 3)


@functools.cache
def _contact_places(bucket: Bucket) -> tuple[list[int], list[int], list[tuple[list[int], list[int]]]]:
    """Which sensors are of fingers and where they go, flat places in finger_contact [o * 2]; the same of pairs and contact [o * (o + 1)],
    once for the slots, then for an articulated thing's base and its link, which share a token."""
    token = {f"o{i}": i for i in range(FREE_SLOTS)} | {f"f{i}": FREE_SLOTS + i for i in range(FIXTURE_SLOTS)} | {"table": TOKENS}
    token |= dict.fromkeys(("base", "link"), ARTICULATED_TOKEN)
    of_fingers, fingers = [], []
    pairs: dict[str, tuple[list[int], list[int]]] = {}
    for sensor, (name, _, _) in enumerate(contact_sensors(bucket)):
        a, b = name.split("_")
        if b in ("left", "right"):
            of_fingers.append(sensor)
            fingers.append(token[a] * 2 + (b == "right"))
        else:
            sensors, places = pairs.setdefault(b if b in ("base", "link") else "", ([], []))
            sensors.append(sensor)
            places.append(token[a] * (TOKENS + 1) + token[b])
    return of_fingers, fingers, list(pairs.values())


def contacts(bucket: Bucket, sensordata: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(finger_contact [b, o, 2], contact [b, o, o + 1]) bool, from the bucket's contact sensors [b, s]."""
    found = sensordata > 0
    b = found.shape[0]
    of_fingers, fingers, pairs = _contact_places(bucket)
    finger_contact, contact = np.zeros((b, TOKENS * 2), bool), np.zeros((b, TOKENS * (TOKENS + 1)), bool)
    finger_contact[:, fingers] = found[:, of_fingers]
    for sensors, places in pairs:
        contact[:, places] |= found[:, sensors]
    contact = contact.reshape(b, TOKENS, TOKENS + 1)
    contact[:, :, :TOKENS] |= contact[:, :, :TOKENS].swapaxes(1, 2)
    return finger_contact.reshape(b, TOKENS, 2), contact


class ViewBuilder:
    """Builds WorldViews of one batch; holds what does not change while its scenes stay."""

    def __init__(self, bucket: Bucket, scenes: Sequence[CompiledScene]):
        self.bucket, self._first = bucket, scenes[0].robot.coordinates  # of a free body, after arm and fingers
        self._half_extent = np.stack([s.half_extent for s in scenes]).astype(np.float32)
        self._cavity_pos = np.stack([s.cavity_pos for s in scenes]).astype(np.float32)
        self._cavity_half = np.stack([s.cavity_half for s in scenes]).astype(np.float32)
        self._present = np.stack([s.present for s in scenes])
        self._fixture_pos = np.stack([s.fixture_pos for s in scenes])
        self._fixture_quat = np.stack([s.fixture_quat for s in scenes])
        self._joints = JointReader([s.joint for s in scenes])
        self._range = np.zeros((len(scenes), TOKENS, 2), np.float32)
        self._range[:, ARTICULATED_TOKEN] = self._joints.range

    def build(self, qpos, qvel, sensordata, ee_pos, ee_quat, control_step, start: WorldView | None) -> WorldView:
        """The view of a moment; ``start`` is the view at the reset, whose poses become pos0 and quat0 (None: this is the reset)."""
        b, n, first = qpos.shape[0], self.bucket.free, self._first
        pos, quat = np.zeros((b, TOKENS, 3)), np.zeros((b, TOKENS, 4))
        quat[:, :, 0] = 1.0
        linvel, angvel = np.zeros((b, TOKENS, 3)), np.zeros((b, TOKENS, 3))
        free_q = qpos[:, first : first + 7 * n].reshape(b, n, 7)
        free_v = qvel[:, first : first + 6 * n].reshape(b, n, 6)
        pos[:, :n], quat[:, :n], linvel[:, :n] = free_q[:, :, :3], free_q[:, :, 3:], free_v[:, :, :3]
        # A free joint's angular velocity is given in the body's frame.
        angvel[:, :n] = (rotation_matrices(free_q[:, :, 3:]) @ free_v[:, :, 3:, None])[..., 0]
        pos[:, FREE_SLOTS:], quat[:, FREE_SLOTS:] = self._fixture_pos, self._fixture_quat
        articulation = np.zeros((b, TOKENS), np.float32)
        if self.bucket.articulated:
            moved, jointed = self._joints.read(qpos[:, -1], qvel[:, -1]), self._joints.moves
            for field, values in zip((pos, quat, linvel, angvel), moved, strict=True):
                field[jointed, ARTICULATED_TOKEN] = values[jointed]
            articulation[jointed, ARTICULATED_TOKEN] = qpos[jointed, -1]
        absent = ~self._present
        pos[absent], linvel[absent], angvel[absent] = 0.0, 0.0, 0.0
        quat[absent] = (1.0, 0.0, 0.0, 0.0)
        finger_contact, contact = contacts(self.bucket, sensordata)
        pos, quat = pos.astype(np.float32), quat.astype(np.float32)
        return WorldView(
            ee_pos=ee_pos.astype(np.float32),
            ee_quat=ee_quat.astype(np.float32),
            gripper_opening=(qpos[:, first - 2] + qpos[:, first - 1]).astype(np.float32),
            pos=pos,
            quat=quat,
            linvel=linvel.astype(np.float32),
            angvel=angvel.astype(np.float32),
            half_extent=self._half_extent,
            cavity_pos=self._cavity_pos,
            cavity_half=self._cavity_half,
            articulation=articulation,
            articulation_range=self._range,
            finger_contact=finger_contact,
            contact=contact,
            present=self._present,
            pos0=pos if start is None else start.pos0,
            quat0=quat if start is None else start.quat0,
            control_step=control_step,
        )
