"""What of an MJX state a step reads: enough to go on from; everything else is computed anew by the next step."""

from __future__ import annotations

from typing import Any

import numpy as np

from coda_jax.types import Array

DATA = "data"  # the mesh axis over which worlds are spread
_CARRIED = ("time", "qpos", "qvel", "ctrl", "qacc_warmstart")


def saved(physics: Any) -> dict[str, Array]:
    """The fields of a batch of mjx.Data that its next step reads."""
    return {name: getattr(physics, name) for name in _CARRIED}


def resumed(physics: Any, fields: dict[str, Array]) -> Any:
    """``physics`` in the state of ``fields``."""
    return physics.replace(**fields)


def native_qpos(articulated: bool, qpos: Array, xp: Any = np) -> Array:
    """Coordinates [b, q] in the layout of native models, which have one joint where MJX's ``articulated`` buckets have a slide and a hinge.

    xp: numpy or jax.numpy.
    """
    return xp.concatenate([qpos[:, :-2], qpos[:, -2:].sum(1, keepdims=True)], 1) if articulated else qpos
