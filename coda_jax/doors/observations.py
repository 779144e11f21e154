"""The dictionary in which a client describes one moment to a served policy, checked and made an Observation (docs/serving.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from coda_jax.evaluation.words import EmbedFn
from coda_jax.learning.policies.messages import FIELDS, GRIPPER_FIELDS, KEY, PIXELS, PREFIX, PROMPT, WORDS
from coda_jax.sim.recording import FIELD_SHAPES
from coda_jax.types import TOKENS, Observation

MOST_TEXT = 400  # characters of a prompt or of an object's words
_FAR = 1e4  # beyond any length, speed or angle
_UNIT = 1e-2  # by which a quaternion may differ from unit length
_IDENTITY = np.array([1.0, 0.0, 0.0, 0.0], np.float32)


class ObservationError(ValueError):
    """A client's dictionary cannot be used; the message names the entry and what it must be."""


def fields_of(pixels: tuple[int, ...] | None) -> tuple[str, ...]:
    """Names of the arrays that a client must send, without their prefix; pixels: shape of the pictures, None for a policy of states."""
    return FIELDS if pixels is None else GRIPPER_FIELDS


def observation_of(message: Mapping[str, Any], pixels: tuple[int, ...] | None, embed: EmbedFn) -> Observation:
    """The observation [1, ...] of a client's message. What a policy of pictures does not read is zero.

    Args:
      pixels: [cameras, height, width, 3] that the policy sees, None for a policy of states. embed: sentences to [n, d].

    Raises:
      ObservationError: an entry is missing, of another shape or type, not finite, or too long.
    """
    read = {name: _field(message, name) for name in fields_of(pixels)}
    values = {name: read.get(name, np.zeros(FIELD_SHAPES[name], np.float32)) for name in FIELDS}
    values["present"] = values["present"] != 0
    _check_quat("ee_quat", values["ee_quat"])
    for token in np.flatnonzero(values["present"]):
        _check_quat(f"quat of object {token}", values["quat"][token])
    values["quat"] = np.where(values["present"][:, None], values["quat"], _IDENTITY)
    words = _words(message, values["present"]) if pixels is None else [""] * TOKENS
    prompt = _text(message.get(PROMPT), PROMPT)
    shown = [word for word in words if word]
    embedded = embed([*shown, prompt])
    text = np.zeros((TOKENS, embedded.shape[-1]), np.float32)
    text[[i for i, word in enumerate(words) if word]] = embedded[:-1]
    seen = None if pixels is None else _pictures(message, pixels)[None]
    return Observation(**{name: value[None] for name, value in values.items()}, text=text[None], instruction=embedded[-1:], pixels=seen)


def noise_key(message: Mapping[str, Any]) -> np.ndarray | None:
    """Two numbers uint32 [2] from which the policy's noise of this decision is drawn, None where the client leaves it to the server.

    Raises:
      ObservationError: they are none.
    """
    key = message.get(KEY)
    if key is None:
        return None
    if not isinstance(key, np.ndarray) or key.shape != (2,) or key.dtype != np.uint32:
        raise ObservationError(f"{KEY} is {_described(key)}; it must be two numbers of type uint32, or be left out")
    return key


def _field(message: Mapping[str, Any], name: str) -> np.ndarray:
    entry, shape = PREFIX + name, FIELD_SHAPES[name]
    value = message.get(entry)
    if value is None:
        raise ObservationError(f"{entry} is missing; it must be numbers of shape {shape}")
    if isinstance(value, (bool, int, float, np.generic)):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray) or value.shape != shape or value.dtype.kind not in "biuf":
        raise ObservationError(f"{entry} is {_described(value)}; it must be numbers of shape {shape}")
    value = value.astype(np.float32)
    if not (np.abs(value) <= _FAR).all():  # also refuses NaN
        raise ObservationError(f"{entry} holds numbers that are not finite or beyond {_FAR:g}; SI units are meant")
    return value


def _check_quat(name: str, quat: np.ndarray) -> None:
    length = float(np.linalg.norm(quat))
    if abs(length - 1) > _UNIT:
        raise ObservationError(f"{PREFIX}{name} has length {length:.3g}; a quaternion (w, x, y, z) of unit length is meant")


def _words(message: Mapping[str, Any], present: np.ndarray) -> list[str]:
    words = message.get(WORDS)
    if not isinstance(words, (list, tuple)) or len(words) != TOKENS:
        raise ObservationError(f"{WORDS} is {_described(words)}; it must be a list of {TOKENS} texts, empty where there is no object")
    return [_text(word, f"{WORDS}[{i}]") if present[i] else "" for i, word in enumerate(words)]


def _text(value: Any, entry: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MOST_TEXT:
        raise ObservationError(f"{entry} is {_described(value)}; it must be a text of 1 to {MOST_TEXT} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ObservationError(f"{entry} holds half a surrogate pair; send whole characters") from None
    return value


def _pictures(message: Mapping[str, Any], shape: tuple[int, ...]) -> np.ndarray:
    value = message.get(PIXELS)
    if not isinstance(value, np.ndarray) or value.shape != shape or value.dtype != np.uint8:
        raise ObservationError(f"{PIXELS} is {_described(value)}; it must be uint8 of shape {shape}: cameras, height, width, colours")
    return value


def _described(value: Any) -> str:
    if value is None:
        return "missing"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    if isinstance(value, str):
        return f"a text of {len(value)} characters"
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, (list, tuple, dict)) else "")
