"""A seven-joint arm with two fingers and a site, laid out as LIBERO's robot is: the controller's physics without the package."""

from __future__ import annotations

import mujoco
import numpy as np

from coda_jax.scenes.libero.bddl import Problem
from coda_jax.sim.libero import control
from coda_jax.sim.libero.models import TaskModel

HOME = np.array([0.0, -0.161, 0.0, -2.4446, 0.0, 2.2268, 0.7854])
_AXES = ("0 0 1", "0 1 0", "0 0 1", "0 -1 0", "0 0 1", "0 -1 0", "0 0 -1")
_LENGTHS = (0.33, 0.1, 0.31, 0.1, 0.38, 0.09, 0.1)


def task_model(userdata: int = control.USERDATA) -> TaskModel:
    """One task with nothing in it but the arm."""
    opened = ""
    for i, (axis, length) in enumerate(zip(_AXES, _LENGTHS, strict=True)):
        opened += (
            f'<body pos="0 0 {length}"><joint name="robot0_joint{i + 1}" axis="{axis}" damping="0.1"/>'
            f'<geom type="capsule" size="0.03" fromto="0 0 0 0.05 0 {_LENGTHS[i]}" mass="{2 - 0.2 * i}" contype="0" conaffinity="0"/>'
        )
    fingers = "".join(
        f'<body name="{name}" pos="0 0 0.1"><joint name="gripper0_finger_joint{k}" type="slide" axis="0 1 0" damping="100"/>'
        '<geom size="0.01" mass="0.1" contype="0" conaffinity="0"/></body>'
        for k, name in ((1, "gripper0_leftfinger"), (2, "gripper0_rightfinger"))
    )
    motors = "".join(f'<motor joint="robot0_joint{i + 1}"/>' for i in range(control.ARM))
    motors += "".join(f'<position joint="gripper0_finger_joint{k}" kp="1000"/>' for k in (1, 2))
    xml = (
        f'<mujoco><size nuserdata="{userdata}"/><option timestep="0.002"/><worldbody>{opened}'
        '<site name="gripper0_grip_site" pos="0 0 0.12"/>'
        f"{fingers}{'</body>' * control.ARM}</worldbody><actuator>{motors}</actuator></mujoco>"
    )
    model = mujoco.MjModel.from_xml_string(xml)
    nothing = Problem("arm", "move", (), (), (), (), (), ())
    return TaskModel("tests/arm", nothing, model, HOME, np.zeros(3))


def at_home(model: mujoco.MjModel, worlds: int) -> np.ndarray:
    """[worlds, 1 + nq + nv] states with the arm near home."""
    states = np.zeros((worlds, 1 + model.nq + model.nv))
    states[:, 1 : 1 + control.ARM] = HOME + 0.05 * np.random.default_rng(0).normal(size=(worlds, control.ARM))
    return states
