"""The control test against hand-worked numbers, and its error rates by simulation."""

import math

import numpy as np
import pytest

from benchmarks import simulated_tests
from benchmarks.simulated_tests import Population, aa_labels, confirmed
from coda_jax.evaluation import control_test
from coda_jax.evaluation.control_test import ControlResult, Verdict
from coda_jax.evaluation.statistics import wilson


def _result(p_value: float, verdict: Verdict = "confirmed", scenes=16) -> ControlResult:
    return ControlResult(0.2, 0.1, 0.3, p_value, verdict, scenes)


def test_five_scenes_by_hand():
    # lost 1, 2, 2, 3, 4 of 4: 32 sign flips, so one may lie at or below the lower limit; that one is the smallest subset mean, 1 / 4
    got = control_test.control_test([3, 2, 2, 1, 0], [4, 4, 4, 4, 4], 4)
    assert (got.mean, got.low, got.high) == pytest.approx((12 / 20, 0.25, 1.0))
    assert got.p_value == pytest.approx(1 / 32)
    assert (got.verdict, got.scenes) == ("confirmed", 5)


def test_verdicts_by_hand():
    flat = control_test.control_test([2] * 8, [2] * 8, 4)
    assert (flat.mean, flat.low, flat.high, flat.p_value, flat.verdict) == (0.0, 0.0, 0.0, 1.0, "refuted")
    worse_control = control_test.control_test([4] * 8, [2] * 8, 4)
    assert (worse_control.high, worse_control.verdict) == (-0.5, "refuted")
    one_in_ten = control_test.control_test([9] * 16, [10] * 16, 10)  # exactly the least drop, in every scene
    assert (one_in_ten.mean, one_in_ten.verdict) == (pytest.approx(0.1), "confirmed")
    small = control_test.control_test([15] * 16, [16] * 16, 16)  # a sure drop of 1 / 16 is not worth practising
    assert small.low > 0 and small.verdict == "refuted"
    noisy = control_test.control_test([0, 4, 0, 4, 0, 4], [4, 0, 4, 0, 4, 4], 4)
    assert noisy.verdict == "undecided"


def test_four_scenes_exclude_nothing():
    got = control_test.control_test([0] * 4, [8] * 4, 8)
    assert (got.low, got.high, got.verdict) == (-1.0, 1.0, "undecided")


def test_swapping_the_variants_mirrors_the_result():
    target, control = [1, 0, 3, 2, 2, 4, 1], [3, 4, 3, 1, 4, 4, 2]
    one, other = control_test.control_test(target, control, 4), control_test.control_test(control, target, 4)
    assert (one.mean, one.low, one.high) == pytest.approx((-other.mean, -other.high, -other.low))


@pytest.mark.parametrize(
    ("target", "control", "n", "message"),
    [
        ([1, 2], [1], 4, "2 base scenes and k_control 1"),
        ([], [], 4, "non-empty"),
        ([0.5], [1], 4, "whole numbers"),
        ([1, 5], [1, 1], 4, r"k_target\[1\] is 5"),
        ([1, 1], [1, -1], 4, r"k_control\[1\] is -1"),
        ([0], [0], 0, "at least one rollout"),
    ],
)
def test_refuses(target, control, n, message):
    with pytest.raises(ValueError, match=message):
        control_test.control_test(target, control, n)


def test_benjamini_hochberg_by_hand():
    # thresholds 0.025, 0.05, 0.075, 0.1: the third passes, and takes with it the second, which does not pass by itself
    assert control_test.benjamini_hochberg([0.06, 0.001, 0.9, 0.055]) == [True, True, False, True]
    assert control_test.benjamini_hochberg([0.03, 0.5, 0.6, 0.7]) == [False] * 4
    assert control_test.benjamini_hochberg([0.1]) == [True]
    assert control_test.benjamini_hochberg([]) == []
    with pytest.raises(ValueError, match="0, 1"):
        control_test.benjamini_hochberg([math.nan])


def test_a_confirmed_mode_must_survive_the_correction():
    results = [_result(0.03), _result(0.5, "undecided"), _result(0.6, "refuted"), _result(0.7, "refuted")]
    assert [r.verdict for r in control_test.verdicts(results)] == ["undecided", "undecided", "refuted", "refuted"]
    alone = control_test.verdicts(results[:1])
    assert [r.verdict for r in alone] == ["confirmed"]


@pytest.mark.parametrize(
    ("verdict", "tested", "left", "more"),
    [("undecided", 16, 40, 16), ("undecided", 16, 5, 5), ("undecided", 32, 40, 0), ("undecided", 24, 40, 8), ("confirmed", 16, 40, 0)],
)
def test_topping_up(verdict, tested, left, more):
    assert control_test.wants_more(_result(0.2, verdict, tested), left) == more


def test_aa_labels_are_fair_and_extend():
    assert aa_labels(3, 32)[:16].tolist() == aa_labels(3, 16).tolist()
    heads = sum(int(aa_labels(seed, 20).sum()) for seed in range(100))
    low, high = wilson(heads, 2_000, 0.999)
    assert low <= 0.5 <= high


@pytest.mark.parametrize("arm", ["no drop", "A/A"])
def test_false_confirmations_stay_at_five_percent(arm):
    """And the pooled test does not: with scenes that meet the two edits differently it rejects twice as often as it says."""
    population, trials = Population(similarity=2.0), 600
    if arm == "A/A":
        results = simulated_tests.simulated_aa_tests(population, 12, 8, trials)
    else:
        results = simulated_tests.simulated_tests(population, 12, 8, 0.0, trials)
        pooled = simulated_tests.pooled_rejections(population, 12, 8, 0.0, trials)
        assert wilson(pooled, trials).low > 0.08
    assert wilson(confirmed(results), trials).low <= 0.05


def test_the_limits_cover():
    population, trials = Population(), 400
    results = simulated_tests.simulated_tests(population, 12, 8, 0.2, trials)
    below, above = sum(r.low > 0.2 for r in results), sum(r.high < 0.2 for r in results)
    assert wilson(below, trials).low <= 0.05 and wilson(above, trials).low <= 0.05
    assert below + above >= trials * 0.05  # and they are not far too wide


def test_power_grows_with_the_drop_and_the_scenes():
    population, trials = Population(), 200

    def power(scenes, drop):
        return wilson(confirmed(simulated_tests.simulated_tests(population, scenes, 8, drop, trials)), trials)

    assert power(8, 0.2).high < power(14, 0.3).low
    assert power(14, 0.3).low > 0.8


def test_simulated_drop_is_the_stated_one():
    target, control = Population(similarity=3.0).control_counts(np.random.default_rng(0), 40_000, 8, 0.25)
    assert (control - target).mean() / 8 == pytest.approx(0.25, abs=0.01)  # 5 standard errors
    with pytest.raises(ValueError, match="0.600"):
        Population().control_counts(np.random.default_rng(0), 4, 8, 0.7)


def test_a_policy_that_solves_nothing_refutes_nothing():
    assert control_test.control_test([0] * 16, [0] * 16, 8).verdict == "undecided"
    assert control_test.control_test([8] * 16, [8] * 16, 8).verdict == "refuted"
