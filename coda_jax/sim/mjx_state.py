"""What of an MJX state a step reads: enough to go on from; everything else is computed anew by the next step."""

from __future__ import annotations

from typing import Any

from coda_jax.types import Array

DATA = "data"  # the mesh axis over which worlds are spread
_CARRIED = ("time", "qpos", "qvel", "ctrl", "qacc_warmstart")


def saved(physics: Any) -> dict[str, Array]:
    """The fields of a batch of mjx.Data that its next step reads."""
    return {name: getattr(physics, name) for name in _CARRIED}


def resumed(physics: Any, fields: dict[str, Array]) -> Any:
    """``physics`` in the state of ``fields``."""
    return physics.replace(**fields)
