"""Realised returns, the calibration curve and agreement, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from coda_jax.learning.critic.monitor import agreement, calibration, calibration_error, realised_returns
from coda_jax.learning.critic.targets import Rule


def test_realised_returns_by_hand():
    # episode 0: whole chunk, then success in its second step; episode 1: time-out without success and its closing row; episode 2: success
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]], bool)
    rewards = np.zeros((5, 4), np.float32)
    rewards[1, 1] = rewards[4, 0] = 1.0
    episode = np.array([0, 0, 1, 1, 2])
    np.testing.assert_allclose(realised_returns(Rule(0.9, "step", 0.5), rewards, mask, episode), [0.9**5, 0.9, 0, 0, 1.0], atol=1e-12)
    np.testing.assert_allclose(realised_returns(Rule(0.9, "chunk", 0.5), rewards, mask, episode), [0.9, 1.0, 0, 0, 1.0], atol=1e-12)


def test_calibration_by_hand():
    decoded = np.array([0.0, 0.1, 0.2, 0.9, 1.0])
    realised = np.array([0.0, 0.0, 0.6, 1.0, 0.8])
    curve = calibration(decoded, realised, np.array([0, 0, 1, 2, 2]), 4)
    assert [(b.count, b.low, b.high) for b in curve] == [(3, 0.0, 0.25), (2, 0.75, 1.0)]
    assert curve[0].decoded == pytest.approx(0.1) and curve[0].realised == pytest.approx(0.2)
    # excess over the mean, per episode: -0.4 and +0.4; sqrt((0.16 + 0.16) * 2 / 1) / 3
    assert curve[0].error == pytest.approx(0.8 / 3)
    assert np.isnan(curve[1].error)
    assert calibration_error(curve) == pytest.approx((3 * 0.1 + 2 * 0.05) / 5)


def test_calibration_of_a_calibrated_critic_is_within_its_error():
    rng = np.random.default_rng(0)
    decoded = rng.uniform(0, 1, 4000)
    curve = calibration(decoded, (rng.random(4000) < decoded).astype(float), np.arange(4000), 8)
    assert sum(b.count for b in curve) == 4000
    assert all(abs(b.decoded - b.realised) < 4 * b.error for b in curve)
    shifted = calibration(decoded + 0.3, (rng.random(4000) < decoded).astype(float), np.arange(4000), 8)
    assert calibration_error(shifted) > 0.25


def test_one_value_makes_one_bin():
    curve = calibration(np.full(3, 0.4), np.array([0.0, 1.0, 1.0]), np.arange(3), 5)
    assert len(curve) == 1 and curve[0].count == 3


def test_calibration_refuses():
    with pytest.raises(ValueError, match="no decisions"):
        calibration(np.zeros(0), np.zeros(0), np.zeros(0, int), 5)
    with pytest.raises(ValueError, match="NaN"):
        calibration(np.array([np.nan]), np.zeros(1), np.zeros(1, int), 5)


def test_agreement():
    first = np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.0], [0.2, 0.1, 0.9], [0.0, 0.0, 1.0]])
    second = np.array([[0.1, 0.9, 0.2], [0.3, 0.1, 0.6], [0.0, 0.0, 0.3], [0.0, 0.2, 0.7]])
    found = agreement(first, second)
    assert (found.share, found.chance, found.count) == (0.75, pytest.approx(1 / 3), 4)
    assert agreement(first, first - np.arange(4)[:, None]).share == 1.0  # a potential moves all candidates alike
    with pytest.raises(ValueError, match="no decisions"):
        agreement(np.zeros((0, 3)), np.zeros((0, 3)))
