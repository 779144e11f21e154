"""The seam between policies and everything that uses them."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from coda_jax.types import Array, Observation, _pytree

Params = Any  # a pytree of arrays; statistics of the actions are part of it and travel with every checkpoint


@_pytree
class WordTable:
    """The texts of a batch once each: tokens share few distinct names, so projecting those saves two thirds of a training step.

    text: [s, d] embeddings. names: [b, o] int32 rows of ``text``, equal to obs.text where a token is present.
    """

    text: Array
    names: Array


@_pytree
class ChunkBatch:
    """``b`` supervised chunks.

    actions: [b, h, 7] labels in LIBERO's convention. mask: [b, h] bool, the label counts. roles: [b, 2] int32, the tokens of target and
    reference (-1: none): labels of training, or given away on purpose by a diagnostic setting; no policy reads them otherwise.
    table: the words of obs.text, or None to read obs.text itself.
    """

    obs: Observation
    actions: Array
    mask: Array
    roles: Array
    table: WordTable | None


def join(first: ChunkBatch, second: ChunkBatch) -> ChunkBatch:
    """The chunks of both, ``first``'s before ``second``'s.

    Raises:
      ValueError: one has a word table and the other none.
    """
    tables = (first.table, second.table)
    if (tables[0] is None) != (tables[1] is None):
        raise ValueError("only one of the two batches has a word table: give both one, or neither")
    plain = [dataclasses.replace(batch, table=None) for batch in (first, second)]
    joined = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), *plain)
    if tables[0] is None or tables[1] is None:
        return joined
    words = WordTable(
        text=jnp.concatenate([tables[0].text, tables[1].text]),
        names=jnp.concatenate([tables[0].names, tables[1].names + tables[0].text.shape[0]]),
    )
    return dataclasses.replace(joined, table=words)


class Policy(Protocol):
    """A chunk policy. Implementations are frozen, hashable records of settings, so that they can be static arguments of jit."""

    chunk: int

    def init(self, key: jax.Array) -> Params: ...

    def sample(self, params: Params, obs: Observation, key: jax.Array, j: int, roles: Array | None = None) -> Array:
        """``j`` candidate chunks [b, j, h, 7]; of the one chosen the first e rows are executed."""
        ...

    def loss(self, params: Params, batch: ChunkBatch, key: jax.Array) -> Array:
        """Imitation loss of each sample, [b]."""
        ...

    def trainable(self, params: Params) -> Any:
        """A tree like ``params`` of bools: what the optimiser may change."""
        ...
