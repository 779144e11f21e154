"""A robot of one's own as MJCF of our template: canonical names, our servos, and of the user's file nothing but numbers."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from coda_jax.sim.own_robot.facts import Geom
from coda_jax.sim.own_robot.hand import Hand
from coda_jax.sim.own_robot.parts import Assembly, Part
from coda_jax.sim.panda import GRIP_POINT_M, finger_servos, numbers
from coda_jax.sim.robot import FINGER_TRAVEL_M

_ARMATURE = 0.1


def frames_of(made: Assembly) -> tuple[np.ndarray, np.ndarray]:
    """World origin [q, 3] and rotation [q, 3, 3] of each link at zero: z is the joint's axis."""
    joints = [p.joint for p in made.links[1:] if p.joint is not None]
    return np.array([j.anchor for j in joints]), np.array([_upright(j.axis) for j in joints])


def _upright(axis: np.ndarray) -> np.ndarray:
    """The least turn of the world's frame that brings z to ``axis``; half a turn about x where they are opposite."""
    quat, matrix = np.array([1 + axis[2], -axis[1], axis[0], 0.0]), np.empty(9)
    if quat[0] < 1e-9:
        quat = np.array([0.0, 1.0, 0.0, 0.0])
    mujoco.mju_normalize4(quat)
    mujoco.mju_quat2Mat(matrix, quat)
    return matrix.reshape(3, 3)


def bodies_xml(made: Assembly, hand: Hand, lower: np.ndarray, upper: np.ndarray) -> str:
    """Base, links, hand and fingers. Only the palm and the fingers collide."""
    origins, rotations = frames_of(made)
    xml = ['<body name="link0">', _geoms(made.links[0].geoms, np.zeros(3), np.eye(3))]
    at, turned = np.zeros(3), np.eye(3)
    for i, part in enumerate(made.links[1:]):
        xml.append(f'<body name="link{i + 1}" {_pose(origins[i], rotations[i], at, turned)} gravcomp="1">')
        at, turned = origins[i], rotations[i]
        xml.append(_inertial(part, at, turned))
        xml.append(f'<joint name="joint{i + 1}" axis="0 0 1" range="{numbers((lower[i], upper[i]))}" armature="{_ARMATURE}"/>')
        drawn = [g for g in part.geoms if not any(g is p for p in made.palm)]
        xml.append(_geoms(drawn, at, turned) + _geoms(made.palm if part is made.links[-1] else (), at, turned, collide=True))
    origin = made.grip.pos - GRIP_POINT_M * hand.rotation[:, 2]
    xml.append(f'<body name="hand" {_pose(origin, hand.rotation, at, turned)}><site name="grip" pos="0 0 {GRIP_POINT_M}"/></body>')
    for side, part, shift in (("left", made.left, hand.closed_left), ("right", made.right, hand.closed_right)):
        out = hand.rotation[:, 1] * (1 if side == "left" else -1)
        closed = made.grip.pos - shift * out  # what was here when the facts were taken is at the grip point once the finger is closed
        xml.append(f'<body name="finger_{side}" {_pose(made.grip.pos, hand.rotation, at, turned)} gravcomp="1">')
        xml.append(_inertial(part, closed, hand.rotation))
        xml.append(
            f'<joint name="finger_{side}" type="slide" axis="0 {1 if side == "left" else -1} 0" range="0 {FINGER_TRAVEL_M}" '
            f'armature="{_ARMATURE}" damping="2"/>'
        )
        for collide in (False, True):
            xml.append(_geoms([g for g in part.geoms if g.collides is collide], closed, hand.rotation, collide))
        xml.append("</body>")
    return "".join(xml) + "</body>" * len(made.links)


def actuators_xml(stiffness: Sequence[float], lower: np.ndarray, upper: np.ndarray) -> str:
    """Position servos (damping a tenth of the stiffness), whatever actuators the model had: their lag is what policies learn."""
    arm = "".join(
        f'<position name="joint{i + 1}" joint="joint{i + 1}" kp="{kp:.9g}" kv="{kp / 10:.9g}" ctrlrange="{numbers((lower[i], upper[i]))}"/>'
        for i, kp in enumerate(stiffness)
    )
    return f"<actuator>{arm}{finger_servos()}</actuator>"


def _pose(origin: np.ndarray, rotation: np.ndarray, at: np.ndarray, turned: np.ndarray) -> str:
    return f'pos="{numbers(turned.T @ (origin - at))}" quat="{_quat(turned.T @ rotation)}"'


def _quat(rotation: np.ndarray) -> str:
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(rotation).ravel())
    return numbers(quat)


def _inertial(part: Part, at: np.ndarray, turned: np.ndarray) -> str:
    principal, axes = np.linalg.eigh(turned.T @ part.inertia @ turned)
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    centre = turned.T @ (part.com - at)
    diagonal = numbers(np.maximum(principal, 1e-9))
    return f'<inertial pos="{numbers(centre)}" quat="{_quat(axes)}" mass="{part.mass:.9g}" diaginertia="{diagonal}"/>'


def _geoms(geoms: Sequence[Geom], at: np.ndarray, turned: np.ndarray, collide: bool = False) -> str:
    used = {"box": 3, "ellipsoid": 3, "sphere": 1, "capsule": 2, "cylinder": 2}
    return "".join(
        f'<geom class="{"robot" if collide else "visual"}" type="{g.shape}" size="{numbers(g.size[: used[g.shape]])}" '
        f'pos="{numbers(turned.T @ (g.pos - at))}" quat="{_quat(turned.T @ g.rotation)}" rgba="{numbers(np.clip(g.rgba, 0, 1))}"/>'
        for g in geoms
    )
