"""Many policies of one shape in one executable: parameters stacked, worlds grouped by whose they are.

A block is a few worlds of one policy; an executable takes a fixed number of blocks, each with its row of the stacked parameters. So a
decision is matrix products [blocks, worlds of a block], not one product with a vector for each world.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coda_jax.learning.policies.base import Params
from coda_jax.learning.policies.flow import FlowPolicy
from coda_jax.types import ACTION_DIM, Array, Observation


class Blocks(NamedTuple):
    """Worlds in blocks: ``which`` [B] row of the stacked parameters, ``rows`` [B, s] worlds of each (short blocks repeat their first),
    ``worlds`` and ``places``: each world that decides, and its place among the B * s rows."""

    which: np.ndarray
    rows: np.ndarray
    worlds: np.ndarray
    places: np.ndarray


def stack(params: Sequence[Params]) -> Params:
    """Parameters [c, ...] of ``c`` policies of the same shapes.

    Raises:
      ValueError: there are none, or they differ in shape.
    """
    if not params:
        raise ValueError("no parameters to stack: give at least one policy")
    shapes = [jax.tree.map(jnp.shape, p) for p in params]
    for number, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(f"policy {number} has other shapes than policy 0; stack only policies of the same settings")
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack([np.asarray(leaf) for leaf in leaves])), *params)


def blocks_of(policies: np.ndarray, decides: np.ndarray, size: int) -> Blocks:
    """Worlds grouped by policy into blocks of ``size``.

    policies: [W] int, row of the stacked parameters. decides: [W] bool, worlds that need a chunk.
    """
    which, rows, worlds, places = [], [], [], []
    for policy in np.unique(policies[decides]):
        own = np.flatnonzero(decides & (policies == policy))
        for start in range(0, len(own), size):
            part = own[start : start + size]
            worlds.append(part)
            places.append(len(rows) * size + np.arange(len(part)))
            which.append(policy)
            rows.append(np.concatenate([part, np.full(size - len(part), part[0])]))
    if not rows:
        return Blocks(np.zeros(0, np.int32), np.zeros((0, size), np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))
    return Blocks(np.array(which, np.int32), np.stack(rows).astype(np.int32), np.concatenate(worlds), np.concatenate(places))


@functools.partial(jax.jit, static_argnames="policy")
def sample_blocks(
    policy: FlowPolicy,
    stacked: Params,
    which: Array,
    rows: Array,
    obs: Observation,
    keys: Array,
    temperatures: Array,
    roles: Array | None,
) -> Array:
    """One chunk [B, s, h, 7] for the worlds ``rows`` [B, s], each block by its own policy; obs, keys, temperatures, roles: of W worlds."""

    def block(params: Params, own: Array) -> Array:
        seen, given = jax.tree.map(lambda leaf: leaf[own], (obs, roles))
        return policy.sample(params, seen, keys[own], 1, given, temperatures[own])[:, 0]

    return jax.vmap(block)(jax.tree.map(lambda leaf: leaf[which], stacked), rows)


def sample_stacked(
    policy: FlowPolicy,
    stacked: Params,
    policies: np.ndarray,
    decides: np.ndarray,
    size: int,
    obs: Observation,
    keys: Array,
    temperatures: np.ndarray,
    roles: np.ndarray | None = None,
) -> np.ndarray:
    """Chunks [W, h, 7] of worlds that each have their own policy and temperature; zeros where a world does not decide.

    One executable of W / size + 1 blocks, called again where many policies with few worlds each need more.
    """
    worlds = len(policies)
    most = -(-worlds // size) + 1
    blocks = blocks_of(policies, decides, size)
    found = np.zeros((worlds, policy.chunk, ACTION_DIM), np.float32)
    parts = []
    for start in range(0, len(blocks.which), most):
        which, rows = blocks.which[start : start + most], blocks.rows[start : start + most]
        short = most - len(which)
        which, rows = np.pad(which, (0, short), mode="edge"), np.pad(rows, ((0, short), (0, 0)), mode="edge")
        parts.append(sample_blocks(policy, stacked, which, rows, obs, keys, temperatures, roles))
    if parts:
        flat = np.concatenate([np.asarray(part).reshape(-1, policy.chunk, ACTION_DIM) for part in parts])
        found[blocks.worlds] = flat[blocks.places]
    return found
