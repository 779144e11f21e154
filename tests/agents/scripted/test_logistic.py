"""The solver: optimality, known answers, and data that break an unpenalised fit."""

import numpy as np
import pytest

from coda_jax.agents.scripted.logistic import fit, log_likelihood, sigmoid, standardise


def _data(n=60, f=3, seed=0):
    rng = np.random.default_rng(seed)
    x = standardise(rng.normal(size=(n, f)))[0]
    trials = rng.integers(1, 9, n).astype(float)
    return x, rng.binomial(trials.astype(int), sigmoid(x @ np.array([1.0, -0.5, 0.0]))).astype(float), trials


def test_the_gradient_vanishes():
    x, k, trials = _data()
    beta = fit(x, k, trials, ridge=0.7)
    residual = k - trials * sigmoid(beta[0] + x @ beta[1:])
    assert np.allclose(residual @ x - 0.7 * beta[1:], 0, atol=1e-8)


def test_known_odds():
    # no features but a constant: the intercept is the log odds of the smoothed rate, and the penalty pulls nowhere else
    x, k = np.zeros((40, 1)), np.array([1.0] * 30 + [0.0] * 10)
    beta = fit(x, k, np.ones(40))
    assert beta[0] == pytest.approx(np.log(3), abs=0.02)
    assert beta[1] == 0.0
    # one balanced +-1 column with rates 3/4 and 1/4 has slope ln 3 but for the ridge
    x = np.array([1.0, -1.0] * 400)[:, None]
    k = np.array([1.0, 0, 1, 0, 1, 0, 0, 1] * 100)
    assert fit(x, k, np.ones(800), ridge=1e-6) == pytest.approx([0.0, np.log(3)], abs=1e-4)


def test_rollouts_of_one_scene_weigh_like_as_many_scenes():
    x, k, trials = _data()
    scene = np.repeat(np.arange(len(x)), trials.astype(int))
    success = np.concatenate([np.arange(n) < s for s, n in zip(k, trials, strict=True)]).astype(float)
    assert fit(x[scene], success, np.ones(len(scene))) == pytest.approx(fit(x, k, trials), abs=1e-7)


@pytest.mark.parametrize("ridge", [1.0, 1e-4])
def test_separated_outcomes_converge(ridge):
    x = standardise(np.linspace(-1, 1, 30)[:, None])[0]
    beta = fit(x, (x[:, 0] > 0).astype(float), np.ones(30), ridge=ridge)
    assert np.isfinite(beta).all() and beta[1] > 1
    everything = fit(x, np.ones(30), np.ones(30), ridge=ridge)
    assert np.isfinite(everything).all() and everything[0] > 2


def test_standardise_drops_constant_columns():
    x, mean, scale = standardise(np.array([[1e9, 1.0, 0.1], [1e9, 3.0, 0.1], [1e9, 2.0, 0.1]]))
    assert x[:, 0].tolist() == x[:, 2].tolist() == [0.0] * 3
    assert x[:, 1].std() == pytest.approx(1) and mean[1] == 2
    assert np.isinf(scale[[0, 2]]).all()


def test_extreme_logits_stay_finite():
    z = np.array([-1e4, 0.0, 1e4])
    assert sigmoid(z).tolist() == [0.0, 0.5, 1.0]
    assert log_likelihood(z, np.array([0.0, 1.0, 1.0]), np.ones(3)) == pytest.approx([0, -np.log(2), 0])
