"""Arms made for the tests: any number of joints with axes, offsets and turns of our choice, with the same hand at the end."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from coda_jax.sim import panda
from coda_jax.sim.own_robot.load import robot_from_mjcf
from coda_jax.sim.robot import Robot

HAND = (
    '<body name="gripper" {pose}><geom name="palm" type="box" size="0.03 0.08 0.03" pos="0 0 0.03" mass="0.5"/>'
    '<site name="tips" pos="0 0 0.11"/>'
    '<body name="jaw_l" pos="0 0 0.1"><joint name="jaw_l" type="slide" axis="0 1 0" range="0 0.04"/>'
    '<geom name="pad_l" type="box" size="0.01 0.004 0.0195" pos="0 0.004 0" mass="0.02"/></body>'
    '<body name="jaw_r" pos="0 0 0.1"><joint name="jaw_r" type="slide" axis="0 -1 0" range="0 0.04"/>'
    '<geom name="pad_r" type="box" size="0.01 0.004 0.0195" pos="0 -0.004 0" mass="0.02"/></body></body>'
)
# The right jaw as the left one turned by half a turn, as many models have it.
TURNED = (
    HAND.replace('<body name="jaw_r" pos="0 0 0.1">', '<body name="jaw_r" pos="0 0 0.1" quat="0 0 0 1">')
    .replace('axis="0 -1 0"', 'axis="0 1 0"')
    .replace('pos="0 -0.004 0"', 'pos="0 0.004 0"')
)
PARTS = {"grip_site": "tips", "hand_body": "gripper", "fingers": ("jaw_l", "jaw_r")}
EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "six_joint_arm.xml"
EXAMPLE_PARTS = {
    "grip_site": "between_tips",
    "hand_body": "gripper",
    "fingers": ("jaw_left", "jaw_right"),
    "home": (0, -1.6, 2, 1.2, 0, 1.57),
}


def random_arm(seed: int, dof: int) -> str:
    """MJCF of an arm whose joints turn about any axis through any point, with reference angles that are not 0 and fixed bodies between."""
    rng = np.random.default_rng(seed)

    def numbers(values) -> str:
        return " ".join(f"{v:.17g}" for v in values)

    xml, closing = ['<mujoco><compiler angle="radian"/><worldbody><geom type="plane" size="1 1 1"/><body name="base" pos="0.1 0 0.2">'], 1
    for i in range(dof):
        pose = f'pos="{numbers(rng.uniform(-0.2, 0.2, 3))}" quat="{numbers(rng.normal(size=4))}"'
        if i % 2:
            xml.append(f'<body name="fixed{i}" pos="0.03 0 0.05" euler="0.3 0.1 -0.2"><geom type="sphere" size="0.02" mass="0.1"/>')
            closing += 1
        ref, axis, anchor = rng.uniform(-0.5, 0.5), numbers(rng.normal(size=3)), numbers(rng.uniform(-0.1, 0.1, 3))
        xml.append(
            f'<body name="part{i}" {pose}><joint name="turn{i}" axis="{axis}" pos="{anchor}" ref="{ref}" range="{ref - 2} {ref + 2}"/>'
            f'<geom type="capsule" size="0.03 0.05" mass="{rng.uniform(0.5, 3)}"/>'
        )
        closing += 1
    pose = f'pos="{numbers(rng.uniform(-0.1, 0.1, 3))}" quat="{numbers(rng.normal(size=4))}"'
    return "".join([*xml, (TURNED if seed % 2 else HAND).format(pose=pose), "</body>" * closing, "</worldbody></mujoco>"])


def panda_file(folder: Path) -> Path:
    """Our own Panda as a user would have it in a file."""
    classes = '<default class="visual"><geom contype="0" conaffinity="0" mass="0"/></default>'
    classes = f'<compiler angle="radian"/><default>{classes}<default class="robot"><geom mass="0"/></default></default>'
    path = folder / "copy.xml"
    path.write_text(f"<mujoco>{classes}<worldbody>{panda.arm_xml()}</worldbody>{panda.actuator_xml()}</mujoco>")
    return path


def panda_copy(folder: Path) -> Robot:
    fingers = ("finger_left", "finger_right")
    return robot_from_mjcf(panda_file(folder), grip_site="grip", hand_body="hand", fingers=fingers, home=panda.HOME_RAD.tolist())
