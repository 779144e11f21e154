"""Values of a whole table: Q of every row's chunk, V of its state, the advantage of one over the other (METHOD 4)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from coda_jax.learning.critic.backup import Backup
from coda_jax.learning.critic.batch import CriticBatch
from coda_jax.learning.critic.network import Critic
from coda_jax.learning.policies.base import Params
from coda_jax.types import Array, _pytree

BLOCK = 256  # rows evaluated together


class Table(Protocol):
    """A table of transitions, such as ``experience.Experience``: terminal [n], of whose rows the first ``size`` [] are real."""

    @property
    def terminal(self) -> Array: ...

    @property
    def size(self) -> Array: ...


Gather = Callable[[Any, Array], CriticBatch]  # (table, rows [b]) to transitions, e.g. experience.critic_batch; static in jit


@_pytree
class Values:
    """advantage: [n] = q - v. q: [n] of the executed chunk. v: [n] of the state. candidates: [n, j] of the stored candidates.

    In rows that begin no transition (closing ones) q and advantage mean nothing; rows beyond the table's size are 0.
    """

    advantage: Array
    q: Array
    v: Array
    candidates: Array


@functools.partial(jax.jit, static_argnames=("critic", "gather", "state_value"))
def table_values(critic: Critic, params: Params, table: Table, gather: Gather, state_value: Backup) -> Values:
    """Values of a whole table, read in blocks: one executable for each shape of it, whatever its size.

    They are those of the shaped problem, Q - beta Phi; advantages do not depend on the potential.

    Args:
      state_value: V from the candidates, "mean" or "log_mean_exp".
    """
    capacity, size = table.terminal.shape[0], table.size

    def block(i, found):
        rows = i * BLOCK + jnp.arange(BLOCK)
        batch = gather(table, jnp.minimum(rows, size - 1))
        mask = jnp.broadcast_to(critic.candidate_mask(), batch.candidates.shape[:3])
        executed, read = critic.read_chunk(batch, jnp.zeros_like(rows))
        chunks = jnp.concatenate([executed[:, None], batch.candidates], axis=1)
        q = critic.q(params, batch.obs, batch.program, chunks, jnp.concatenate([read[:, None], mask], axis=1))
        return jax.lax.dynamic_update_slice(found, jnp.where((rows < size)[:, None], q, 0.0), (i * BLOCK, 0))

    one = jax.eval_shape(gather, table, jax.ShapeDtypeStruct((1,), jnp.int32))
    found = jnp.zeros((-(-capacity // BLOCK) * BLOCK, 1 + one.candidates.shape[1]))
    q = jax.lax.fori_loop(0, -(-size // BLOCK), block, found)[:capacity]
    v = state_value(q[:, 1:])
    return Values(advantage=q[:, 0] - v, q=q[:, 0], v=v, candidates=q[:, 1:])
