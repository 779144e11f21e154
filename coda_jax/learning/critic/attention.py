"""Attention over a handful of tokens."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float

from coda_jax.types import Array


def attend(
    query: Float[Array, "n t w"], key: Float[Array, "n s w"], value: Float[Array, "n s w"], bias: Float[Array, "n s"], heads: int
) -> Float[Array, "n t w"]:
    """Multi-head attention; bias is added to the logits of each key."""
    query, key, value = (x.reshape(*x.shape[:2], heads, x.shape[2] // heads) for x in (query, key, value))
    scores = jnp.einsum("nthd,nshd->nhts", query, key) * query.shape[-1] ** -0.5 + bias[:, None, None]
    mixed = jnp.einsum("nhts,nshd->nthd", jax.nn.softmax(scores, axis=-1), value)
    return mixed.reshape(*mixed.shape[:2], -1)
