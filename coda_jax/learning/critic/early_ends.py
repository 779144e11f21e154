"""How the critic reads a chunk that success cut short.

Candidates are always read whole (e actions), for nobody knows where they would end. If chunks that succeed early were only ever read up to
their end, the network would learn success from shortened chunks alone and guess at the whole ones that backups ask for: in the probe of two
subgoals the state before success is then off by 0.6. But what would have followed a success cannot change its value: so the rest is filled
with the actions of a stored candidate, and the chunk is read whole. Its return and discounts keep the true h_k.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from coda_jax.learning.critic.batch import CriticBatch
from coda_jax.types import Array

EARLY_ENDS = ("fill", "mask")


def read_chunk(
    batch: CriticBatch, executed: Int[Array, ""] | int, kind: str, pick: Int[Array, " b"]
) -> tuple[Float[Array, "b h 7"], Bool[Array, "b h"]]:
    """Actions and mask that the network reads for the executed chunks; "mask" reads what was carried out and no more.

    A chunk cut by a time-out is read as far as it went: the policy would have chosen anew from there.

    Args:
      executed: e. pick: the candidate of each row whose actions stand in for those that success made unnecessary.
    """
    if kind == "mask":
        return batch.actions, batch.mask
    stand_in = jnp.take_along_axis(batch.candidates, pick[:, None, None, None], axis=1)[:, 0]
    whole = jnp.arange(batch.mask.shape[1]) < executed
    filled = batch.terminal[:, None] & whole & ~batch.mask
    return jnp.where(filled[..., None], stand_in, batch.actions), batch.mask | filled
