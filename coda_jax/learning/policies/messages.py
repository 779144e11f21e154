"""What a client tells a policy server about one moment: the names of the entries, and the message of an observation (docs/serving.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coda_jax.types import EPISODE_FIELDS, STEP_FIELDS, Observation

PREFIX = "coda/"  # of entries that only our own servers read
KEY, WORDS, PIXELS = PREFIX + "key", PREFIX + "words", PREFIX + "pixels"
PROMPT, IMAGE, WRIST, STATE = "prompt", "observation/image", "observation/wrist_image", "observation/state"  # openpi's, for LIBERO
FIELDS = (*STEP_FIELDS, *EPISODE_FIELDS)  # arrays of an Observation, sent under PREFIX
GRIPPER_FIELDS = ("ee_pos", "ee_quat", "gripper_opening")  # those that a policy of pictures reads


def message_of(obs: Observation, row: int, words: Sequence[str], prompt: str, key: np.ndarray) -> dict[str, Any]:
    """The message of world ``row`` of an observation of numpy arrays: for our own servers, and as openpi's policies for LIBERO read it.

    Args:
      words: of every token, "" where there is none. key: uint32 [2], of the policy's noise at this decision.
    """
    message: dict[str, Any] = {PROMPT: prompt, KEY: np.asarray(key, np.uint32), STATE: _proprioception(obs, row)}
    for name in GRIPPER_FIELDS if obs.pixels is not None else FIELDS:
        message[PREFIX + name] = np.asarray(getattr(obs, name)[row])
    if obs.pixels is None:
        message[WORDS] = list(words)
    else:
        message |= {PIXELS: obs.pixels[row], IMAGE: obs.pixels[row, 0], WRIST: obs.pixels[row, 1]}
    return message


def _proprioception(obs: Observation, row: int) -> np.ndarray:
    """[8] float32: grip point (m), rotation vector (rad) and the two fingers' positions (m), as LIBERO's policies are told them."""
    half = float(obs.gripper_opening[row]) / 2
    return np.concatenate([obs.ee_pos[row], rotation_vector(np.asarray(obs.ee_quat[row])), [half, -half]]).astype(np.float32)


def rotation_vector(quat: np.ndarray) -> np.ndarray:
    """Axis times angle [3], the angle in [0, 2 pi), of a unit quaternion (w, x, y, z); zeros of the identity. As robosuite's, the sign of
    the quaternion counts: q and -q give vectors of opposite sense."""
    w = float(np.clip(quat[0], -1.0, 1.0))
    sine = np.sqrt(1.0 - w * w)
    return np.zeros(3) if sine < 1e-9 else np.asarray(quat[1:], float) * (2.0 * np.arccos(w) / sine)
