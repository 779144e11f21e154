"""Learning Value: arithmetic by hand, no gain from nothing, and shrinkage that helps."""

import math

import numpy as np
import pytest

from benchmarks.simulated_tests import Population, untrained_gains
from coda_jax.memory import learning_value
from coda_jax.memory.learning_value import LearningValue, learning_values


def test_scene_gains():
    assert learning_value.scene_gains([1, 4], [3, 2], 4).tolist() == [0.5, -0.5]
    with pytest.raises(ValueError, match="same scenes"):
        learning_value.scene_gains([1], [1, 2], 4)
    with pytest.raises(ValueError, match="0..n"):
        learning_value.scene_gains([5], [1], 4)


def test_general_improvement_is_subtracted():
    controls = {"x": np.array([0.1, 0.1]), "y": np.array([0.3])}
    got = learning_values({"a": np.array([0.5, 0.5])}, controls)["a"]
    assert (got.gain, got.value) == pytest.approx((0.3, 0.3))
    assert learning_value.general_improvement({}) == 0.0


def test_shrinkage_by_hand():
    # gains 0.1 and 0.5, each from two scenes 0.1 to either side: v = 0.04 / 2, s^2 = 0.01, w = 100, X = 0.3, Q = 8,
    # tau^2 = (8 - 1) / (200 - 100) = 0.07, factor 0.07 / 0.08
    got = learning_values({"a": np.array([0.0, 0.2]), "b": np.array([0.4, 0.6])}, {})
    assert got["a"].value == pytest.approx(0.3 - 0.875 * 0.2)
    assert got["b"].value == pytest.approx(0.3 + 0.875 * 0.2)
    assert got["a"].se == pytest.approx(0.1)


def test_noise_alone_is_shrunk_away():
    got = learning_values({"a": np.array([-0.5, 0.6]), "b": np.array([-0.6, 0.5])}, {})
    assert got["a"].value == got["b"].value == pytest.approx(0.0)


def test_scenes_that_agree_have_an_error_all_the_same():
    # p = q = 1/8 of 6 rollouts: (2 * 7/64) / 6
    assert learning_value.gain_error([0, 0, 0], [0, 0, 0], 2) == pytest.approx(math.sqrt(2 * 7 / 64 / 6))
    # gains 1 and -1: variance 2 / 2 scenes
    assert learning_value.gain_error([0, 4], [4, 0], 4) == pytest.approx(1.0)
    assert learning_value.gain_error([1], [1], 4) == pytest.approx(math.sqrt(2 * (2 / 6) * (4 / 6) / 4))


def test_a_value_from_nothing_is_no_gain():
    nothing, some, much = ([0, 0, 0], [0, 0, 0]), ([0, 1, 0], [1, 1, 1]), ([1, 0, 1, 0] * 4, [3, 4, 4, 3] * 4)
    assert not learning_value.gained(0.12, *nothing, 2) and not learning_value.gained(0.33, *some, 2)
    assert learning_value.gained(0.7, *much, 4) and not learning_value.gained(0.05, *much, 4)


def test_edge_cases():
    assert learning_values({}, {}) == {}
    single = learning_values({"a": np.array([0.25]), "b": np.array([0.75])}, {})
    assert single["a"].value == single["b"].value == 0.5 and math.isnan(single["a"].se)
    agreeing = learning_values({"a": np.array([0.25, 0.25]), "b": np.array([0.75, 0.75])}, {})
    assert (agreeing["a"].value, agreeing["b"].value) == (0.25, 0.75)
    with pytest.raises(ValueError, match="both trained and controls"):
        learning_values({"a": np.ones(2)}, {"a": np.ones(2)})
    with pytest.raises(ValueError, match="modes b have no"):
        learning_values({"a": np.ones(2), "b": np.ones(0)}, {})


def test_credit_discounts_older_rounds():
    old, new = LearningValue(0.4, 0.4, 0.1, 10), LearningValue(0.1, 0.1, 0.1, 20)
    got = learning_value.credit([(1, old), (3, new)], now=3)
    assert got.importance == pytest.approx(0.1 + 0.49 * 0.4)
    assert got.scenes == pytest.approx(20 + 4.9)
    assert got.mean == pytest.approx((20 * 0.1 + 4.9 * 0.4) / 24.9)
    assert learning_value.credit([], 3) == learning_value.Credit(0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="round 3 cannot count in round 2"):
        learning_value.credit([(3, new)], now=2)


def _interval(values):
    half = 3.3 * values.std(ddof=1) / math.sqrt(len(values))  # 99.9 %
    return values.mean() - half, values.mean() + half


@pytest.mark.parametrize("rule", ["hard", "band"])
def test_an_untrained_policy_earns_nothing(rule):
    """Fresh rollouts give 0; the rollouts that chose the scenes, taken as "before", pretend a gain."""
    naive, fresh = untrained_gains(Population(), 64, 4, rule, 1_000)
    low, high = _interval(fresh)
    assert low < 0 < high < 0.02
    assert _interval(naive)[0] > (0.1 if rule == "hard" else 0.01)


def test_untrained_modes_earn_nothing_and_shrinking_beats_raw_gains():
    rng = np.random.default_rng(0)
    values, raw_error, shrunk_error = [], 0.0, 0.0
    for _ in range(300):
        truth = rng.normal(0, 0.05, 8)  # of modes; on average a mode learns nothing beyond the general improvement
        gains = {f"m{i}": rng.normal(0.1 + t, 0.3, 8) for i, t in enumerate(truth)}
        got = learning_values(gains, {f"c{i}": rng.normal(0.1, 0.3, 8) for i in range(4)})
        values.append(np.mean([v.value for v in got.values()]))
        centre = np.mean([v.gain for v in got.values()])
        raw_error += float(np.sum((np.array([v.gain for v in got.values()]) - centre - truth) ** 2))
        shrunk_error += float(np.sum((np.array([v.value for v in got.values()]) - centre - truth) ** 2))
    low, high = _interval(np.array(values))
    assert low < 0 < high < 0.03
    assert shrunk_error < 0.7 * raw_error
