"""Backups by hand, and the property that makes shaping harmless: they commute with adding a constant to a state's candidates."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning.critic.backup import BACKUPS, Backup


@pytest.mark.parametrize("kind", BACKUPS)
@pytest.mark.parametrize("temperature", [0.02, 0.5, 10.0])
def test_commutes_with_a_constant_of_the_state(kind, temperature):
    rng = np.random.default_rng(0)
    q, constant = rng.normal(size=(200, 7)), rng.uniform(-50, 50, 200)
    backup = Backup(kind, temperature)
    np.testing.assert_allclose(backup(q + constant[:, None]), backup(q) + constant, atol=1e-12)
    np.testing.assert_allclose(backup(jnp.asarray(q, jnp.float32)), backup(q), atol=1e-5)  # jax and numpy agree


def test_clipping_would_not_commute():
    q = np.array([[-0.3, 0.2]])
    assert np.maximum(q.max(-1) + 1, 0) == np.maximum(q.max(-1), 0) + 1
    assert np.maximum(q.max(-1) - 1, 0) != np.maximum(q.max(-1), 0) - 1


def test_by_hand():
    q = np.array([[0.0, np.log(3.0)]])
    assert Backup("max", 1.0)(q)[0] == pytest.approx(np.log(3))
    assert Backup("mean", 1.0)(q)[0] == pytest.approx(np.log(3) / 2)
    assert Backup("softmax", 1.0)(q)[0] == pytest.approx(0.75 * np.log(3))  # weights 1/4 and 3/4
    assert Backup("log_mean_exp", 1.0)(q)[0] == pytest.approx(np.log(2))  # mean of 1 and 3
    assert Backup("log_mean_exp", 1e3)(q)[0] == pytest.approx(np.log(3) / 2, abs=1e-3)  # hot: the mean
    assert Backup("softmax", 1e-3)(q)[0] == pytest.approx(np.log(3))  # cold: the maximum


def test_refused():
    with pytest.raises(ValueError, match="max, mean, softmax, log_mean_exp"):
        Backup("median", 1.0)
    with pytest.raises(ValueError, match="above 0"):
        Backup("max", 0.0)
