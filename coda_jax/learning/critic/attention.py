"""Attention over a handful of tokens, with a backward pass that a CPU does well.

The gradient of keys and values contracts over the first axis of small matrices, for which XLA has only plain loops on a CPU; turning those
matrices round first costs half as much.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Float

from coda_jax.learning.policies.layers import settled
from coda_jax.types import Array


def attend(
    query: Float[Array, "n t w"], key: Float[Array, "n s w"], value: Float[Array, "n s w"], bias: Float[Array, "n s"], heads: int
) -> Float[Array, "n t w"]:
    """Multi-head attention; bias is added to the logits of each key. No gradient flows to the bias."""
    mixed: Array = _attend(query, key, value, bias, heads)
    return mixed


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _attend(query: Array, key: Array, value: Array, bias: Array, heads: int) -> Array:
    return _forward(query, key, value, bias, heads)[0]


def _split(x: Array, heads: int) -> Array:
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def _joined(x: Array) -> Array:
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def _forward(query: Array, key: Array, value: Array, bias: Array, heads: int) -> tuple[Array, tuple[Array, ...]]:
    query, key, value = _split(query, heads), _split(key, heads), _split(value, heads)
    scores = jnp.einsum("nhtd,nhsd->nhts", query, key) * query.shape[-1] ** -0.5 + bias[:, None, None]
    weights = jax.nn.softmax(scores, axis=-1)
    return _joined(jnp.einsum("nhts,nhsd->nhtd", weights, value)), (query, key, value, weights, bias)


def _backward(heads: int, kept: tuple[Array, ...], given: Array) -> tuple[Array, ...]:
    query, key, value, weights, bias = kept
    given = _split(given, heads)
    slope = jnp.einsum("nhtd,nhsd->nhts", given, value)
    slope = weights * (slope - (slope * weights).sum(-1, keepdims=True)) * query.shape[-1] ** -0.5
    to_value = jnp.einsum("nhst,nhtd->nhsd", settled(jnp.swapaxes(weights, 2, 3)), given)
    to_key = jnp.einsum("nhst,nhtd->nhsd", settled(jnp.swapaxes(slope, 2, 3)), query)
    to_query = jnp.einsum("nhts,nhsd->nhtd", slope, key)
    return _joined(to_query), _joined(to_key), _joined(to_value), jnp.zeros_like(bias)


_attend.defvjp(_forward, _backward)
