"""The seam between policies and everything that uses them."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from coda_jax.types import Array, Observation, _pytree, where_rows

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

    actions: [b, h, 7] labels in LIBERO's convention. mask: [b, h] bool, the label counts. roles: [b, ROLES] int32, the tokens of target
    and reference of each goal (-1: none): labels of training, or given away on purpose by a diagnostic setting; otherwise unread.
    table: the words of obs.text, or None to read obs.text itself.
    """

    obs: Observation
    actions: Array
    mask: Array
    roles: Array
    table: WordTable | None


def mixed(take: Array, first: ChunkBatch, second: ChunkBatch) -> ChunkBatch:
    """``b`` chunks, ``first``'s where ``take`` [b] and ``second``'s elsewhere: how many of each may then be traced.

    Raises:
      ValueError: one has a word table and the other none.
    """
    tables = (first.table, second.table)
    if (tables[0] is None) != (tables[1] is None):
        raise ValueError("only one of the two batches has a word table: give both one, or neither")
    if tables[0] is not None and tables[1] is not None:
        text = jnp.concatenate([tables[0].text, tables[1].text])
        first = dataclasses.replace(first, table=WordTable(text, tables[0].names))
        second = dataclasses.replace(second, table=WordTable(text, tables[1].names + tables[0].text.shape[0]))
    plain = [dataclasses.replace(batch, table=None) for batch in (first, second)]
    chosen = where_rows(take, *plain)
    if first.table is None or second.table is None:
        return chosen
    names = jnp.where(take[:, None], first.table.names, second.table.names)
    return dataclasses.replace(chosen, table=WordTable(first.table.text, names))


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
