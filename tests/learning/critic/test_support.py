"""Projection against rows worked by hand, decoding, the ends of the range, the start of an untrained head."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning.critic.support import PROJECTIONS
from tests.learning.critic.small import support

TINY = {"low": -1.0, "high": 1.0, "bins": 6, "margin": 1.0}  # edges -1.5, -1, -0.5, 0, 0.5, 1, 1.5


def test_default_edges_are_those_of_the_method():
    s = support()
    assert s.width == pytest.approx(3 / 96.5)
    assert len(s.edges()) == 102
    np.testing.assert_allclose(s.edges()[[0, -1]], [-2.070, 1.070], atol=5e-4)
    np.testing.assert_allclose(np.diff(s.edges()), 3 / 96.5)
    np.testing.assert_allclose(s.centres(), (s.edges()[1:] + s.edges()[:-1]) / 2)


def test_hl_gauss_by_hand():
    # y = 0 with a standard deviation of one width: N(0..1) = .34134, N(1..2) = .13591, N(2..3) = .02140, together .49865 a side
    row = support(**TINY, smoothing=1.0).project(jnp.array(0.0))
    half = np.array([0.34134, 0.13591, 0.02140]) / (2 * 0.49865)
    np.testing.assert_allclose(row, np.concatenate([half[::-1], half]), atol=1e-5)
    # y = 1 lies one width inside the last edge: N(-5..1) = .84134 normalises; the last bin is N(0..1) = .34134, so is the one before
    row = support(**TINY, smoothing=1.0).project(jnp.array(1.0))
    np.testing.assert_allclose(row[-3:], np.array([0.13591, 0.34134, 0.34134]) / 0.84134, atol=1e-5)


def test_two_hot_by_hand():
    s = support(**TINY, projection="two_hot")  # centres -1.25, -0.75, -0.25, 0.25, 0.75, 1.25
    np.testing.assert_allclose(s.project(jnp.array(0.35)), [0, 0, 0, 0.8, 0.2, 0], atol=1e-6)
    np.testing.assert_allclose(s.project(jnp.array([-0.75, 1.0])), [[0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0.5, 0.5]], atol=1e-6)


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_targets_decode_to_themselves_in_float32(projection):
    s = support(projection=projection)
    y = jnp.linspace(-2, 1, 301)
    p = s.project(y)
    assert p.dtype == jnp.float32
    np.testing.assert_allclose(p.sum(-1), 1.0, atol=2e-6)
    assert float(p.min()) >= 0
    decoded = s.decode(jnp.log(p + 1e-12))
    np.testing.assert_allclose(decoded, y, atol=2e-4)
    if projection == "hl_gauss":
        assert float(decoded[-1]) == pytest.approx(0.9999, abs=5e-5)
        bare = support(bins=101, margin=0.0)  # edges at the range's own ends bias a success by 0.02
        assert float(bare.decode(jnp.log(bare.project(jnp.array(1.0)) + 1e-12))) == pytest.approx(0.98, abs=0.005)


def test_clip_counts_what_lies_outside():
    y, outside = support().clip(jnp.array([-3.0, -2.0, 0.5, 1.0, 1.000001, 1.2]))
    np.testing.assert_allclose(y, [-2, -2, 0.5, 1, 1, 1], atol=1e-6)
    assert outside.tolist() == [True, False, False, False, False, True]


@pytest.mark.parametrize("changes", [{}, TINY, {"low": -3.0, "high": 2.0}, {"low": 0.5, "high": 2.0}])
def test_untrained_head_decodes_to_zero_or_the_nearest_value(changes):
    s = support(**changes)
    assert float(s.decode(jnp.asarray(s.start_bias()))) == pytest.approx(max(0.0, s.low), abs=1e-5)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"projection": "hlgauss"}, "hl_gauss, two_hot"),
        ({"low": 1.0}, "lower end"),
        ({"bins": 5}, "more bins"),
        ({"smoothing": 0.0}, "above"),
    ],
)
def test_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        support(**changes)
