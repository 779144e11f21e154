"""Dense layers as plain parameter trees: {"w": [..., in, out], "b": [..., out]}, with low-rank adapters where learning/lora.py put them.

Code reads a weight through ``linear``, ``part`` or ``kernel``, never as ``params["w"]``: that would pass over the adapter.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from coda_jax.types import Array


def init_dense(key: jax.Array, fan_in: int, fan_out: int, scale: float = 1.0) -> dict[str, Array]:
    """Weights of variance scale^2 / fan_in, zero bias."""
    return {"w": jax.random.normal(key, (fan_in, fan_out)) * scale * fan_in**-0.5, "b": jnp.zeros((fan_out,))}


def dense(params: dict[str, Array], x: Array) -> Array:
    return linear(params, x) + params["b"]


def linear(params: dict[str, Array], x: Array) -> Array:
    """``x`` [..., in] times the weights, without the bias: x w + scale (x a) b where there is an adapter."""
    product = matmul(x, params["w"])
    if "lora_a" in params:
        product = product + params["lora_scale"] * (matmul(matmul(x, params["lora_a"]), params["lora_b"]))
    return product


def part(params: dict[str, Array], inputs: slice = slice(None), outputs: slice = slice(None)) -> dict[str, Array]:
    """The Dense that reads some inputs and writes some outputs of ``params``, with its share of the adapter."""
    found = {"w": params["w"][..., inputs, outputs], "b": params["b"][..., outputs]}
    if "lora_a" in params:
        own = {"lora_a": params["lora_a"][..., inputs, :], "lora_b": params["lora_b"][..., outputs]}
        found |= own | {"lora_scale": params["lora_scale"]}
    return found


def kernel(params: dict[str, Array]) -> Array:
    """The weights [..., in, out] that a Dense acts by: w, or w + scale a b."""
    if "lora_a" not in params:
        return params["w"]
    return params["w"] + params["lora_scale"][..., None, None] * (params["lora_a"] @ params["lora_b"])


def init_mlp(key: jax.Array, sizes: tuple[int, ...], last_scale: float = 1.0) -> list[dict[str, Array]]:
    keys = jax.random.split(key, len(sizes) - 1)
    scales = [1.0] * (len(sizes) - 2) + [last_scale]
    return [init_dense(k, i, o, s) for k, i, o, s in zip(keys, sizes[:-1], sizes[1:], scales, strict=True)]


def mlp(layers: list[dict[str, Array]], x: Array) -> Array:
    """Dense layers with SiLU between them, none after the last."""
    for layer in layers[:-1]:
        x = jax.nn.silu(dense(layer, x))
    return dense(layers[-1], x)


def settled(x: Array) -> Array:
    """``x`` as an array of its own on a CPU, where XLA would else fold a transposition into a product and loop over it slowly."""
    return jax.lax.platform_dependent(x, cpu=jax.lax.optimization_barrier, default=lambda x: x)


@jax.custom_vjp
def matmul(x: Array, w: Array) -> Array:
    """x [..., in] times w [in, out], with a gradient of w that turns the narrower factor round first (half the time on a CPU)."""
    return x @ w


def _matmul_forward(x: Any, w: Any) -> tuple[Array, tuple[Array | None, Array | None]]:
    kept = x.value if w.perturbed else None, w.value if x.perturbed else None  # nothing for the gradient of what does not learn
    return x.value @ w.value, kept


def _matmul_backward(kept: tuple[Array | None, Array | None], given: Array) -> tuple[Array | None, Array | None]:
    x, w = kept
    to_x = None if w is None else given @ w.T
    if x is None:
        return to_x, None
    rows, out = x.reshape(-1, x.shape[-1]), given.reshape(-1, given.shape[-1])
    if rows.shape[1] <= out.shape[1]:
        return to_x, settled(rows.T) @ out
    return to_x, settled(settled(out.T) @ rows).T


matmul.defvjp(_matmul_forward, _matmul_backward, symbolic_zeros=True)


@jax.custom_vjp
def layer_norm(x: Array) -> Array:
    """Zero mean and unit variance over the last axis, without learned scale."""
    return _norm_forward(x)[0]


def _norm_forward(x: Array) -> tuple[Array, tuple[Array, Array]]:
    x = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6)
    return x * scale, (x * scale, scale)


def _norm_backward(kept: tuple[Array, Array], given: Array) -> tuple[Array]:
    normed, scale = kept
    along = (given * normed).mean(-1, keepdims=True)
    return (scale * (given - given.mean(-1, keepdims=True) - normed * along),)


layer_norm.defvjp(_norm_forward, _norm_backward)
