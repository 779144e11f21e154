"""Products and norms with gradients of their own, against what jax derives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning.policies.layers import layer_norm, matmul


@pytest.mark.parametrize("shape", [(6,), (5, 6), (2, 3, 6)])
@pytest.mark.parametrize("out", [4, 9])
def test_products_have_the_gradients_that_jax_derives(shape, out):
    keys = jax.random.split(jax.random.key(out), 3)
    x, w, given = jax.random.normal(keys[0], shape), jax.random.normal(keys[1], (6, out)), jax.random.normal(keys[2], (*shape[:-1], out))

    y, back = jax.vjp(matmul, x, w)
    wanted, wanted_back = jax.vjp(jnp.matmul, x, w)

    np.testing.assert_allclose(y, wanted, atol=1e-6)
    for found, expected in zip(back(given), wanted_back(given), strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize("learns", [0, 1])
def test_a_factor_that_does_not_learn_costs_no_product(learns):
    x, w = jnp.ones((5, 6)), jnp.ones((6, 4))
    gradient = jax.make_jaxpr(jax.grad(lambda *both: matmul(*both).sum(), argnums=learns))
    assert str(gradient(x, w)).count("dot_general") == 2  # forward and one gradient


def test_products_over_a_batch_of_weights():
    x, w = jax.random.normal(jax.random.key(0), (3, 5, 6)), jax.random.normal(jax.random.key(1), (3, 6, 4))

    found = jax.vmap(jax.grad(lambda w, x: jnp.square(matmul(x, w)).sum()))(w, x)

    np.testing.assert_allclose(found, jax.grad(lambda w: jnp.square(x @ w).sum())(w), atol=1e-4)


def test_norms_have_the_gradients_that_jax_derives():
    def plain(x):
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6)

    x, given = jax.random.normal(jax.random.key(0), (2, 3, 16)), jax.random.normal(jax.random.key(1), (2, 3, 16))

    y, back = jax.vjp(layer_norm, x)
    wanted, wanted_back = jax.vjp(plain, x)

    np.testing.assert_allclose(y, wanted, atol=1e-6)
    np.testing.assert_allclose(back(given)[0], wanted_back(given)[0], atol=2e-6)
    assert np.abs(back(given)[0]).max() > 0.1
