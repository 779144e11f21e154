"""Chunks that success cut short are read whole, those that time cut short as far as they went."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

from coda_jax.learning.critic.early_ends import read_chunk
from tests.learning.critic import small

STEPS = np.array([2, 2, 4, 4])
BATCH = dataclasses.replace(
    small.gather(small.random_table(4), jnp.arange(4)),
    mask=jnp.asarray(np.arange(small.CHUNK) < STEPS[:, None]),
    terminal=jnp.array([True, False, True, False]),
)
PICK = jnp.array([1, 0, 0, 0])


def test_fill():
    actions, mask = read_chunk(BATCH, small.EXECUTED, "fill", PICK)
    assert mask.sum(1).tolist() == [4, 2, 4, 4]
    np.testing.assert_array_equal(actions[0, :2], BATCH.actions[0, :2])
    np.testing.assert_array_equal(actions[0, 2:4], BATCH.candidates[0, 1, 2:4])
    np.testing.assert_array_equal(actions[0, 4:], BATCH.actions[0, 4:])
    np.testing.assert_array_equal(actions[1:], BATCH.actions[1:])


def test_mask():
    actions, mask = read_chunk(BATCH, small.EXECUTED, "mask", PICK)
    assert mask.sum(1).tolist() == STEPS.tolist()
    np.testing.assert_array_equal(actions, BATCH.actions)
