"""A small image encoder: patches, then 3x3 layers, as plain dense layers; and where in a picture a thing is to be found.

Neighbourhoods are put side by side and multiplied by one matrix: on a CPU that is several times faster than XLA's convolutions backward.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coda_jax.learning.policies.layers import dense, init_dense, layer_norm
from coda_jax.types import Array

_WINDOW = 2  # cells around its best one that hard attention keeps


def init(key: jax.Array, patch: int, channels: int, layers: int) -> dict[str, Any]:
    """Parameters of an encoder of one camera's pictures."""
    keys = jax.random.split(key, layers + 1)
    return {"stem": init_dense(keys[0], patch * patch * 3, channels), "layers": [init_dense(k, 9 * channels, channels) for k in keys[1:]]}


def cells(params: dict[str, Any], pixels: Array, patch: int) -> Array:
    """Features [b, rows, columns, channels] of the patches of pictures [b, height, width, 3] uint8."""
    b, height, width, _ = pixels.shape
    x = pixels.reshape(b, height // patch, patch, width // patch, patch, 3).swapaxes(2, 3)
    x = x.reshape(b, height // patch, width // patch, -1).astype(jnp.float32) / 127.5 - 1.0
    x = jax.nn.silu(dense(params["stem"], x))
    for layer in params["layers"]:
        x = x + jax.nn.silu(dense(layer, _neighbourhoods(layer_norm(x))))
    return layer_norm(x)


def _neighbourhoods(x: Array) -> Array:
    """[b, rows, columns, 9 c]: every cell beside its eight neighbours, zeros beyond the picture."""
    rows, columns = x.shape[1:3]
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return jnp.concatenate([padded[:, i : i + rows, j : j + columns] for i in range(3) for j in range(3)], axis=-1)


def places(rows: int, columns: int) -> np.ndarray:
    """Centre [rows * columns, 2] of each cell, to the right and up, -1 to 1."""
    u = 2 * (np.arange(columns) + 0.5) / columns - 1
    v = 1 - 2 * (np.arange(rows) + 0.5) / rows
    return np.stack(np.broadcast_arrays(u[None, :], v[:, None]), -1).reshape(-1, 2).astype(np.float32)


def cell_at(place: Array, depth: Array, rows: int, columns: int) -> Array:
    """Cell [b, o] of a place [b, o, 2] (as in ``places``) at ``depth`` [b, o]; -1 outside the picture and behind the camera."""
    column = jnp.floor((place[..., 0] + 1) / 2 * columns).astype(jnp.int32)
    row = jnp.floor((1 - place[..., 1]) / 2 * rows).astype(jnp.int32)
    inside = (depth > 0) & (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
    return jnp.where(inside, row * columns + column, -1)


def near_best(scores: Array, rows: int, columns: int) -> Array:
    """Logits [..., rows * columns] with what is not near their largest one left out: the mean place of two like things is neither's."""
    best = scores.argmax(-1)[..., None]
    cell = jnp.arange(rows * columns)
    apart = jnp.maximum(abs(cell // columns - best // columns), abs(cell % columns - best % columns))
    return jnp.where(apart <= _WINDOW, scores, -1e9)
