"""A Franka Panda of our own, the robot of the frozen suites: kinematic facts and its MJCF.

Link frames, ranges and masses are the robot's published figures; inertias are those of solid cylinders of the links' size and mass,
which is close enough for a gravity-compensated, position-controlled arm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from coda_jax.sim.robot import FINGER_CLOSED_M, FINGER_TRAVEL_M, Matrix, Robot

HOME_RAD = np.array([0.0, -0.18483314, 0.0, -2.49674039, 0.0, 2.31190726, -math.pi / 4])
LOWER_RAD = np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
UPPER_RAD = np.array([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
STIFFNESS = np.array([4500.0, 4500.0, 3500.0, 3500.0, 2000.0, 2000.0, 2000.0])  # N m / rad
GRIP_POINT_M = 0.1034  # from the hand frame along the approach axis
FINGER_FRAME_M = 0.0584
PAD_HALF_M = (0.010, 0.004, 0.0195)  # width, thickness and length of a finger pad
PAD_Z_M = 0.0345  # pad centre in the finger frame
TIP_BELOW_GRIP_M = FINGER_FRAME_M + PAD_Z_M + PAD_HALF_M[2] - GRIP_POINT_M  # how far the tips reach past the grip point
PALM_HALF_M = (0.030, 0.100, 0.033)
PALM_Z_M = 0.033

_S = math.sqrt(0.5)
# Frame of link i in link i-1: translation (m) and quaternion (wxyz); joint axes are z.
_FRAMES = (
    ((0.0, 0.0, 0.333), (1.0, 0.0, 0.0, 0.0)),
    ((0.0, 0.0, 0.0), (_S, -_S, 0.0, 0.0)),
    ((0.0, -0.316, 0.0), (_S, _S, 0.0, 0.0)),
    ((0.0825, 0.0, 0.0), (_S, _S, 0.0, 0.0)),
    ((-0.0825, 0.384, 0.0), (_S, -_S, 0.0, 0.0)),
    ((0.0, 0.0, 0.0), (_S, _S, 0.0, 0.0)),
    ((0.088, 0.0, 0.0), (_S, _S, 0.0, 0.0)),
)
_HAND = ((0.0, 0.0, 0.107), (math.cos(-math.pi / 8), 0.0, 0.0, math.sin(-math.pi / 8)))
_MASS_KG = (4.97, 0.65, 3.23, 3.59, 1.23, 1.67, 0.74)
# One capsule a link (from, to, radius, m): the picture of the arm, and the size behind its inertia. They collide with nothing.
_SHAPES = (
    ((0.0, 0.0, -0.25), (0.0, 0.0, 0.0), 0.06),
    ((0.0, 0.0, 0.0), (0.0, -0.12, 0.0), 0.06),
    ((0.0, 0.0, -0.12), (0.0, 0.0, 0.0), 0.058),
    ((0.0, 0.0, 0.0), (-0.0825, 0.10, 0.0), 0.055),
    ((0.0, 0.0, -0.24), (0.0, 0.0, -0.02), 0.05),
    ((0.0, 0.0, 0.0), (0.06, 0.0, 0.0), 0.05),
    ((0.0, 0.0, 0.0), (0.0, 0.0, 0.07), 0.045),
)


def _matrix(quat: tuple[float, ...]) -> Matrix:
    w, x, y, z = quat
    return (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )


def numbers(values: Iterable[float]) -> str:
    """As MJCF has them, with nine digits."""
    return " ".join(f"{float(v):.9g}" for v in values)


def _inertial(i: int) -> str:
    start, end, radius = np.array(_SHAPES[i][0]), np.array(_SHAPES[i][1]), _SHAPES[i][2]
    mass, length = _MASS_KG[i], float(np.linalg.norm(end - start)) + radius
    across = mass * (3 * radius**2 + length**2) / 12
    along = mass * radius**2 / 2
    diagonal = np.full(3, across)
    diagonal[int(np.argmax(np.abs(end - start)))] = along
    return f'<inertial pos="{numbers((start + end) / 2)}" mass="{mass}" diaginertia="{numbers(diagonal)}"/>'


def arm_xml() -> str:
    """The robot's bodies."""
    xml = ['<body name="link0" pos="0 0 0"><geom class="visual" type="cylinder" size="0.08 0.06" pos="0 0 0.06"/>']
    for i, (translation, quat) in enumerate(_FRAMES):
        start, end, radius = _SHAPES[i]
        xml.append(
            f'<body name="link{i + 1}" pos="{numbers(translation)}" quat="{numbers(quat)}" gravcomp="1">{_inertial(i)}'
            f'<joint name="joint{i + 1}" axis="0 0 1" range="{LOWER_RAD[i]} {UPPER_RAD[i]}" armature="0.1"/>'
            f'<geom class="visual" type="capsule" size="{radius}" fromto="{numbers(start + end)}"/>'
        )
    xml.append(
        f'<body name="hand" pos="{numbers(_HAND[0])}" quat="{numbers(_HAND[1])}" gravcomp="1">'
        '<inertial pos="0 0 0.04" mass="0.73" diaginertia="0.0025 0.0008 0.0025"/>'
        f'<geom name="palm" class="robot" type="box" size="{numbers(PALM_HALF_M)}" pos="0 0 {PALM_Z_M}"/>'
        f'<site name="grip" pos="0 0 {GRIP_POINT_M}"/>'
    )
    for side, sign in (("left", 1), ("right", -1)):
        pad = f'type="box" size="{numbers(PAD_HALF_M)}" pos="0 {sign * PAD_HALF_M[1]} {PAD_Z_M}"'
        xml.append(
            f'<body name="finger_{side}" pos="0 0 {FINGER_FRAME_M}" gravcomp="1">'
            f'<inertial pos="0 0 0.03" mass="0.015" diaginertia="3e-6 3e-6 1e-6"/>'
            f'<joint name="finger_{side}" type="slide" axis="0 {sign} 0" range="0 {FINGER_TRAVEL_M}" armature="0.1" damping="2"/>'
            f'<geom name="pad_{side}" class="robot" {pad}/></body>'
        )
    return "".join(xml) + "</body>" + "</body>" * 8


def actuator_xml() -> str:
    """Position servos: seven joints (damping a tenth of the stiffness) and two fingers with the same command."""
    arm = "".join(
        f'<position name="joint{i + 1}" joint="joint{i + 1}" kp="{STIFFNESS[i]}" kv="{STIFFNESS[i] / 10}" '
        f'ctrlrange="{LOWER_RAD[i]} {UPPER_RAD[i]}"/>'
        for i in range(7)
    )
    return f"<actuator>{arm}{finger_servos()}</actuator>"


def finger_servos() -> str:
    """Two position servos with at most 20 N each, of every robot."""
    return "".join(
        f'<position name="finger_{side}" joint="finger_{side}" kp="350" kv="40" forcerange="-20 20" '
        f'ctrlrange="{FINGER_CLOSED_M} {FINGER_TRAVEL_M}"/>'
        for side in ("left", "right")
    )


PANDA = Robot(
    name="panda",
    home_rad=tuple(HOME_RAD.tolist()),
    lower_rad=tuple(LOWER_RAD.tolist()),
    upper_rad=tuple(UPPER_RAD.tolist()),
    translations=tuple(t for t, _ in _FRAMES),
    rotations=tuple(_matrix(q) for _, q in _FRAMES),
    tool_translation=(0.0, 0.0, _HAND[0][2] + GRIP_POINT_M),
    tool_rotation=_matrix(_HAND[1]),
    bodies_xml=arm_xml(),
    actuators_xml=actuator_xml(),
)
