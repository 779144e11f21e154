"""Attention and its own backward pass, against what jax derives from the plain formula."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning.critic.attention import attend

HEADS = 4


def plain(query, key, value, bias):
    query, key, value = (x.reshape(*x.shape[:2], HEADS, -1) for x in (query, key, value))
    scores = jnp.einsum("nthd,nshd->nhts", query, key) * query.shape[-1] ** -0.5 + bias[:, None, None]
    mixed = jnp.einsum("nhts,nshd->nthd", jax.nn.softmax(scores, axis=-1), value)
    return mixed.reshape(*mixed.shape[:2], -1)


@pytest.mark.parametrize(("t", "s"), [(4, 4), (8, 10), (1, 3)])
def test_values_and_gradients_are_those_of_the_plain_formula(t, s):
    keys = jax.random.split(jax.random.key(t), 4)
    query, given = (jax.random.normal(k, (3, t, 32)) for k in keys[:2])
    key, value = (jax.random.normal(k, (3, s, 32)) for k in keys[2:])
    bias = jnp.zeros((3, s)).at[0, -1].set(-1e9)

    mixed, back = jax.vjp(lambda q, k, v: attend(q, k, v, bias, HEADS), query, key, value)
    wanted, wanted_back = jax.vjp(lambda q, k, v: plain(q, k, v, bias), query, key, value)

    np.testing.assert_allclose(mixed, wanted, atol=2e-6)
    for found, expected in zip(back(given), wanted_back(given), strict=True):
        assert np.abs(expected).max() > 0.1
        np.testing.assert_allclose(found, expected, atol=5e-6)


def test_a_masked_key_gets_no_gradient():
    x = jax.random.normal(jax.random.key(0), (1, 4, 32))
    bias = jnp.array([[0.0, -1e9, 0.0, 0.0]])

    gradient = jax.grad(lambda key: attend(x, key, x, bias, HEADS).sum())(x)

    assert np.abs(gradient[0, 0]).max() > 0 and not np.asarray(gradient[0, 1]).any()
