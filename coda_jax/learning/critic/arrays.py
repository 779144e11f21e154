"""numpy for numpy arrays, jax.numpy for jax arrays: the same formulas run in float64 in the certificate and jitted in training."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coda_jax.types import Array


def namespace(*arrays: Array) -> Any:
    """``jax.numpy`` if any of ``arrays`` is a jax array or tracer, else ``numpy``."""
    return jnp if any(isinstance(a, jax.Array) for a in arrays) else np
