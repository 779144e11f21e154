"""Pictures of a dataset's rows, on the disk; a block of updates gets those of the rows that it will draw.

A picture of 64x64 from two cameras takes 25 kB where the rest of a control step takes half a kilobyte: the device holds one block alone.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from coda_jax.types import Array, _pytree

BLOCK = 10  # updates whose pictures are handed over together
AT_ONCE = 256  # states drawn between two looks at the clock


@_pytree
class Seen:
    """Rows and pictures of BLOCK updates. rows: [u, b] int32, of a Dataset. pixels: [u, b, cameras, height, width, 3] uint8."""

    rows: Array
    pixels: Array


@dataclasses.dataclass(frozen=True)
class PictureTable:
    """Pictures of ``p`` rows of a Dataset. rows: [p] int32. pixels: [p, cameras, height, width, 3] uint8, an array or a file's map."""

    rows: np.ndarray
    pixels: np.ndarray

    def __post_init__(self):
        if not len(self.rows) or len(self.rows) != len(self.pixels):
            raise ValueError(f"{len(self.rows)} rows and {len(self.pixels)} pictures: give one picture for each of at least one row")

    def block(self, key: jax.Array, first: int, b: int) -> Seen:
        """What updates ``first`` to ``first + BLOCK`` learn from; an update's rows depend on ``key`` and its number alone."""
        chosen = np.asarray(_drawn(key, jnp.asarray(first, jnp.int32), jnp.asarray(len(self.rows), jnp.int32), b))
        return Seen(jnp.asarray(self.rows[chosen], jnp.int32), jnp.asarray(self.pixels[chosen]))


def blank(shape: tuple[int, ...]) -> PictureTable:
    """One black picture of ``shape`` (cameras, height, width, 3) of row 0: what executables are built with before there are any others."""
    return PictureTable(np.zeros(1, np.int32), np.zeros((1, *shape), np.uint8))


@functools.partial(jax.jit, static_argnames=("b",))
def _drawn(key: jax.Array, first: Array, size: Array, b: int) -> Array:
    """[BLOCK, b] uniform numbers below ``size``."""
    keys = jax.vmap(lambda step: jax.random.split(jax.random.fold_in(key, step), 3)[0])(first + jnp.arange(BLOCK))
    return jax.vmap(lambda k: jax.random.randint(k, (b,), 0, size))(keys)
