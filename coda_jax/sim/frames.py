"""What a camera gives: colours, depth and who is seen where; and whose geom is whose."""

from __future__ import annotations

import dataclasses
import re

import mujoco
import numpy as np

from coda_jax.types import ARTICULATED_TOKEN, ENTITIES, FREE_SLOTS, GRIPPER, TABLE

VISIBLE_GROUPS = np.array([1, 1, 1, 0, 0, 0], np.uint8)  # MuJoCo's own convention
ROBOT, BACKGROUND = GRIPPER, ENTITIES  # in a segmentation, beside tokens 0..7 and TABLE


@dataclasses.dataclass(frozen=True)
class Frames:
    """``n`` pictures of one size.

    rgb: [n, height, width, 3] uint8. depth: [n, height, width] float32, m along the camera's axis, ``FAR_M`` where nothing is.
    segmentation: [n, height, width] uint8: tokens 0..7, TABLE, ROBOT or BACKGROUND.
    """

    rgb: np.ndarray
    depth: np.ndarray
    segmentation: np.ndarray


def geom_labels(model: mujoco.MjModel) -> np.ndarray:
    """[g] what each geom counts as in a segmentation, by the canonical names of bodies."""
    of_body = np.full(model.nbody, ROBOT, np.uint8)
    of_body[0] = TABLE
    for body in range(1, model.nbody):
        name = model.body(body).name
        if slot := re.fullmatch(r"([of])(\d)", name):
            of_body[body] = int(slot[2]) + (FREE_SLOTS if slot[1] == "f" else 0)
        elif name in ("base", "link"):
            of_body[body] = ARTICULATED_TOKEN
    return of_body[model.geom_bodyid]
