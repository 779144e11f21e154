"""Band membership against hand-worked posteriors."""

import numpy as np
import pytest
from scipy.stats import betabinom

from coda_jax.memory import band
from coda_jax.memory.band import Environment


def test_posterior_by_hand():
    # no rollouts: the arcsine law, P = (2 / pi) (asin sqrt 0.8 - asin sqrt 0.2)
    expected = 2 / np.pi * (np.arcsin(np.sqrt(0.8)) - np.arcsin(np.sqrt(0.2)))
    assert band.band_probability(0, 0) == pytest.approx(expected)
    assert band.band_probability(3, 16) == pytest.approx(band.band_probability(13, 16))
    draws = np.random.default_rng(0).beta(4.5, 12.5, 200_000)
    assert band.band_probability(4, 16) == pytest.approx(np.mean((draws >= 0.2) & (draws <= 0.8)), abs=0.005)


def test_sixteen_rollouts():
    inside = [k for k in range(17) if band.in_band(k, 16)]
    open_ = [k for k in range(17) if band.undecided(k, 16)]
    assert inside == list(range(5, 12))
    assert open_ == [2, 3, 4, 12, 13, 14]


def test_more_rollouts_decide():
    assert not band.in_band(2, 4) or not band.undecided(2, 4)
    assert band.undecided(4, 16) and band.in_band(16, 64)
    assert not band.undecided(0, 16) and not band.in_band(0, 16)


def test_pooling_below_sixteen():
    few = [Environment("a", 0.5, k, 4) for k in (0, 2, 4, 2)]
    judged = band.memberships([*few, Environment("a", 0.5, 16, 16), Environment("a", 0.7, 0, 4)])
    assert {(m.k, m.n, m.pooled) for m in judged[:4]} == {(24, 32, True)}
    assert (judged[4].k, judged[4].n, judged[4].pooled, judged[4].in_band) == (16, 16, False, False)
    assert (judged[5].k, judged[5].n) == (0, 4)  # another level is another pool
    alone = band.memberships(few)
    assert all(m.in_band and (m.k, m.n) == (8, 16) for m in alone)


def test_targeting_share():
    assert band.targeting_share([(k, 16) for k in (3, 4, 12, 13)]) == pytest.approx(0.5, abs=1e-12)
    for wrong in ([(17, 16)], [(1, 17)], [(-1, 4)]):
        with pytest.raises(ValueError, match="first 16 rollouts"):
            band.targeting_share(wrong)
    with pytest.raises(ValueError, match="none"):
        band.targeting_share([])
    with pytest.raises(ValueError, match="k must lie"):
        band.in_band(5, 4)


def test_targeting_of_few_rollouts_by_hand():
    """One environment without rollouts: the prior's own beta-binomial, summed over the grid."""
    means, weights = np.meshgrid(band._MEANS, band._WEIGHTS)
    foretold = [betabinom(16, m * w, (1 - m) * w) for m, w in zip(means.ravel(), weights.ravel(), strict=True)]
    expected = np.mean([f.cdf(12) - f.cdf(3) for f in foretold])
    assert band.targeting_share([(0, 0)]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("rates", [(0.5,), (0.0,), (0.2,), (0.05, 0.5, 0.95), tuple(np.linspace(0.02, 0.98, 32)), (0, 0, 0.5, 1, 1, 1)])
def test_targeting_of_few_rollouts_is_about_that_of_sixteen(rates):
    rng = np.random.default_rng(0)
    p = np.resize(rates, 32)
    few = [band.targeting_share([(int(k), 4) for k in rng.binomial(4, p)]) for _ in range(20)]
    many = [band.targeting_share([(int(k), 16) for k in rng.binomial(16, p)]) for _ in range(20)]
    assert np.mean(few) == pytest.approx(np.mean(many), abs=0.09)


def test_decided_memberships_are_mostly_true():
    """Of environments called in band, at least the stated share is: the posterior is calibrated for rates that vary like the prior."""
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 0.5, 4_000)
    k = rng.binomial(16, p)
    called = np.array([band.in_band(int(i), 16) for i in k])
    assert np.mean((p[called] >= 0.2) & (p[called] <= 0.8)) > 0.88
    assert called.sum() > 800
