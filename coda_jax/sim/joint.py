"""The joint of the articulated slot: written into a model, and read back as the pose and velocity of the handle."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import mujoco
import numpy as np

from coda_jax.scenes.articulated import Articulated
from coda_jax.scenes.shapes.build import bounding_box
from coda_jax.scenes.spec import Articulation, Placement
from coda_jax.types import Array

# Of a slide (kg) and of a hinge (kg m^2): keeps light links calm under stiff contacts, and loaded ones from creeping.
SLIDE_ARMATURE, HINGE_ARMATURE = 0.2, 0.002
STIFF = 0.99  # impedance of the friction constraint: with 0.9 a loaded joint creeps visibly, at 0.999 the line search of 20 steps fails


@dataclasses.dataclass(frozen=True)
class Joint:
    """One world's joint in the base frame.

    hinge: else a slide. axis [3], anchor [3], handle [3]: direction, a point on the axis, and the handle's middle at joint value 0. quat
    [4]: of the link at 0. half_extent [3]: of the handle's box in the link's frame. low, high, start: joint values, m or rad.
    """

    hinge: bool
    axis: np.ndarray
    anchor: np.ndarray
    handle: np.ndarray
    quat: np.ndarray
    half_extent: np.ndarray
    high: float
    start: float
    local_axis: tuple[float, float, float]
    local_anchor: tuple[float, float, float]

    @property
    def moves(self) -> bool:
        return self.high > 0


NONE = Joint(
    False,
    np.array([1.0, 0.0, 0.0]),
    np.zeros(3),
    np.zeros(3),
    np.array([1.0, 0.0, 0.0, 0.0]),
    np.zeros(3),
    0.0,
    0.0,
    (1.0, 0.0, 0.0),
    (0.0, 0.0, 0.0),
)


def of(asset: Articulated, placement: Placement) -> Joint:
    """The joint of a placed asset, at the placement's opening."""
    c, s = math.cos(placement.yaw_rad), math.sin(placement.yaw_rad)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    at = np.array(placement.pos_m)
    link = asset.link
    low, high = bounding_box([link.primitives[i] for i in link.handle])
    middle, half = (np.array(low) + high) / 2, (np.array(high) - low) / 2
    return Joint(
        hinge=link.joint == "hinge",
        axis=turn @ link.axis,
        anchor=at + turn @ link.anchor_m,
        handle=at + turn @ middle,
        quat=np.array([math.cos(placement.yaw_rad / 2), 0.0, 0.0, math.sin(placement.yaw_rad / 2)]),
        half_extent=half,
        high=link.travel,
        start=(placement.opening or 0.0) * link.travel,
        local_axis=link.axis,
        local_anchor=link.anchor_m,
    )


def write(target: mujoco.MjsJoint, joint: Joint, articulation: Articulation | None) -> None:
    """Set a model's joint; without articulation it is one that nothing moves."""
    target.type = mujoco.mjtJoint.mjJNT_HINGE if joint.hinge else mujoco.mjtJoint.mjJNT_SLIDE
    target.axis, target.pos = joint.local_axis, joint.local_anchor
    target.armature = HINGE_ARMATURE if joint.hinge else SLIDE_ARMATURE
    target.range = (0.0, joint.high if joint.moves else 1.0)
    stiffness, damping = (0.0, 0.0) if articulation is None else (articulation.stiffness, articulation.damping)
    target.stiffness, target.damping = (stiffness, 0.0, 0.0), (damping, 0.0, 0.0)  # linear, without higher powers
    target.frictionloss = 1.0 if articulation is None else articulation.friction


class JointReader:
    """Handle poses of a batch of worlds from their joint values."""

    def __init__(self, joints: list[Joint]):
        self.moves = np.array([j.moves for j in joints])
        self.frames = {name: np.stack([values[name] for values in map(frame, joints)]) for name in FRAME}
        self.range = np.stack([np.zeros(len(joints)), [j.high for j in joints]], 1)

    def read(self, value: np.ndarray, speed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """As ``handle_pose``."""
        return handle_pose(self.frames, value, speed)


FRAME = ("hinge", "axis", "anchor", "handle", "quat")


def frame(joint: Joint) -> dict[str, np.ndarray]:
    """What ``handle_pose`` needs of a joint."""
    return {name: np.asarray(getattr(joint, name)) for name in FRAME}


def handle_pose(frames: Mapping[str, Array], value: Array, speed: Array, xp=np) -> tuple[Array, Array, Array, Array]:
    """pos [b, 3], quat [b, 4], linvel [b, 3], angvel [b, 3] of the handles.

    Args:
      frames: stacked ``frame``. value, speed: [b] joint values (m or rad) and speeds. xp: numpy or jax.numpy.
    """
    axis, anchor, handle, quat, hinge = (frames[name] for name in ("axis", "anchor", "handle", "quat", "hinge"))
    turns = hinge[:, None]
    away = handle - anchor
    c, s = xp.cos(value)[:, None], xp.sin(value)[:, None]
    along = (axis * away).sum(1, keepdims=True) * axis
    turned = anchor + c * (away - along) + s * xp.cross(axis, away) + along
    pos = xp.where(turns, turned, handle + value[:, None] * axis)
    half = xp.where(hinge, value / 2, 0.0)[:, None]
    w, v = xp.cos(half), xp.sin(half) * axis
    q0, qv = quat[:, :1], quat[:, 1:]
    turned_quat = xp.concatenate([w * q0 - (v * qv).sum(1, keepdims=True), w * qv + q0 * v + xp.cross(v, qv)], 1)
    rate = speed[:, None] * axis
    return pos, turned_quat, xp.where(turns, xp.cross(rate, pos - anchor), rate), xp.where(turns, rate, 0.0)
