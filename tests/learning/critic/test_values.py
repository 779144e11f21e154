"""Values of whole tables: the same as row by row, in blocks, one executable whatever the size."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax import runtime
from coda_jax.learning.critic.backup import Backup
from coda_jax.learning.critic.values import BLOCK, table_values
from tests.learning.critic import small

CRITIC = small.critic()
N = BLOCK + 40
TABLE = small.random_table(N)


def params():
    fresh = CRITIC.init(jax.random.key(0))
    fresh["net"]["head"]["w"] = jax.random.normal(jax.random.key(1), fresh["net"]["head"]["w"].shape)
    return fresh


def test_blocks_give_what_rows_give():
    own = params()
    found = table_values(CRITIC, own, TABLE, small.gather, Backup("mean", 0.1))
    batch = small.gather(TABLE, jnp.arange(N))
    executed, mask = CRITIC.read_chunk(batch, jnp.zeros(N, jnp.int32))
    chunks = jnp.concatenate([executed[:, None], batch.candidates], axis=1)
    masks = jnp.concatenate([mask[:, None], jnp.broadcast_to(CRITIC.candidate_mask(), batch.candidates.shape[:3])], axis=1)
    q = jax.jit(CRITIC.q)(own, batch.obs, batch.program, chunks, masks)
    np.testing.assert_allclose(found.q, q[:, 0], atol=1e-5)
    np.testing.assert_allclose(found.candidates, q[:, 1:], atol=1e-5)
    np.testing.assert_allclose(found.v, q[:, 1:].mean(-1), atol=1e-5)
    np.testing.assert_allclose(found.advantage, found.q - found.v, atol=1e-6)


def test_one_executable_and_nothing_beyond_the_size():
    own, kind = params(), Backup("log_mean_exp", 0.1)
    whole = table_values(CRITIC, own, TABLE, small.gather, kind)
    part = dataclasses.replace(TABLE, size=jnp.asarray(50, jnp.int32))
    built = runtime.compile_count()
    with jax.transfer_guard("disallow"):
        found = table_values(CRITIC, own, part, small.gather, kind)
    assert runtime.compile_count() == built
    np.testing.assert_allclose(found.q[:50], whole.q[:50], atol=1e-6)
    assert not np.asarray(found.q[50:]).any() and not np.asarray(found.candidates[50:]).any() and not np.asarray(found.v[50:]).any()


def test_the_two_state_values_differ_as_they_should():
    q = np.array([[0.0, 0.4]])
    low, high = Backup("mean", 0.1)(q), Backup("log_mean_exp", 0.1)(q)
    assert low[0] == pytest.approx(0.2) and 0.2 < high[0] < 0.4
