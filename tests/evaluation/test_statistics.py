"""Intervals against hand-computed values and their coverage."""

import itertools
import math

import numpy as np
import pytest

from coda_jax.evaluation import statistics


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        (8, 10, 0.4902, 0.9433),
        (50, 100, 0.4038, 0.5962),
        (1, 29, 0.0061, 0.1718),  # z = 1.96: centre (1 + 1.9207) / 32.8415, half 1.96 sqrt(28 / 29 + 0.9604) / 32.8415
        (0, 10, 0.0, 0.2775),  # z^2 / (n + z^2) = 3.8415 / 13.8415
        (10, 10, 0.7225, 1.0),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_known_values(k, n, low, high):
    got = statistics.wilson(k, n)
    assert got.low == pytest.approx(low, abs=1e-4)
    assert got.high == pytest.approx(high, abs=1e-4)


def test_wilson_ends_are_exact():
    assert statistics.wilson(0, 7).low == 0.0
    assert statistics.wilson(7, 7).high == 1.0


@pytest.mark.parametrize(("k", "n", "confidence"), [(3, 2, 0.95), (-1, 2, 0.95), (1, 2, 95), (1, 2, 0.0)])
def test_wilson_refuses(k, n, confidence):
    with pytest.raises(ValueError):
        statistics.wilson(k, n, confidence)


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (3, 3, 1.0), (5, 0, 2 / 32), (0, 5, 2 / 32), (6, 1, 16 / 128)],  # 2 (1 + 7) / 2^7
)
def test_mcnemar_by_hand(first, second, p):
    assert statistics.mcnemar(first, second) == pytest.approx(p)


def test_mcnemar_refuses_negative_counts():
    with pytest.raises(ValueError, match="negative"):
        statistics.mcnemar(-1, 2)


def _brute_force_p(d, delta):
    """Share of the 2^b sign flips whose sum reaches the observed one, straight from the definition."""
    shifted = np.asarray(d) - delta
    flips = list(itertools.product((1, -1), repeat=len(d)))
    return sum(np.dot(f, shifted) >= shifted.sum() - 1e-12 for f in flips) / len(flips)


def test_sign_flips_by_hand():
    # subsets of (1, 2, 4): means 1, 1.5, 2, 7/3, 2.5, 3, 4; eight flips, so a 75 % interval may drop one flip at each end
    got = statistics.sign_flip_test([1.0, 2.0, 4.0], confidence=0.75, bounds=(-9, 9))
    assert (got.low, got.high) == pytest.approx((1.0, 4.0))
    assert got.p_value == pytest.approx(1 / 8)
    half = statistics.sign_flip_test([1.0, 2.0, 4.0], confidence=0.5, bounds=(-9, 9))
    assert (half.low, half.high) == pytest.approx((1.5, 3.0))


def test_sign_flips_inverts_the_test():
    d = [0.5, -0.25, 1.0, 0.75, 0.25, 0.0, 0.5]
    got = statistics.sign_flip_test(d, confidence=0.9)
    assert got.p_value == pytest.approx(_brute_force_p(d, 0.0))
    assert _brute_force_p(d, got.low - 1e-6) <= 0.05 < _brute_force_p(d, got.low + 1e-6)
    negated = [-x for x in d]
    assert _brute_force_p(negated, -got.high - 1e-6) <= 0.05 < _brute_force_p(negated, -got.high + 1e-6)


def test_sign_flips_too_few_scenes_gives_the_bounds():
    got = statistics.sign_flip_test([1.0, 1.0, 1.0], confidence=0.95)
    assert (got.low, got.high) == (-1.0, 1.0)  # 8 flips cannot reach 2.5 %
    with pytest.raises(ValueError, match="one per scene"):
        statistics.sign_flip_test([])
    with pytest.raises(ValueError, match="finite"):
        statistics.sign_flip_test([0.1, math.nan])


def test_sign_flips_sampled_agrees_with_exact():
    d = np.random.default_rng(3).normal(0.2, 0.5, 14)
    exact = statistics.sign_flip_test(d, 0.9)
    sampled = statistics.sign_flip_test(d, 0.9, subsets=4_000)
    assert sampled == pytest.approx(exact, abs=0.03)


def test_coverage_by_simulation():
    """Both intervals hold their level on small binary samples; a two-sample interval that ignored pairing would not be this short."""
    rng = np.random.default_rng(0)
    hits_wilson = hits_paired = 0
    trials = 400
    for _ in range(trials):
        low, high = statistics.wilson(int(rng.binomial(40, 0.3)), 40)
        hits_wilson += low <= 0.3 <= high
        before = rng.random(40) < 0.3
        after = before | (rng.random(40) < 0.3)  # true difference 0.7 * 0.3
        d = after.astype(float) - before
        low, high = statistics.sign_flip_test(d, subsets=1_000)[:2]
        hits_paired += low <= 0.21 <= high
    assert 0.91 <= hits_wilson / trials <= 0.99
    assert 0.91 <= hits_paired / trials <= 0.99


def _changes(better: int, worse: int, n: int) -> list[int]:
    return [1] * better + [-1] * worse + [0] * (n - better - worse)


def test_paired_difference_known_values():
    got = statistics.paired_difference(_changes(1, 7, 21))  # Fagerland, Lydersen & Laake 2014, airway data: -0.517 .. -0.026
    assert got == pytest.approx((-6 / 21, -0.517, -0.026), abs=5e-4)
    mirrored = statistics.paired_difference(_changes(7, 1, 21))
    assert (-mirrored.high, -mirrored.low) == (got.low, got.high)
    # all n better: the score statistic is n (1 - delta) / sqrt(n (1 - delta^2)), which is z at (n - z^2) / (n + z^2)
    assert statistics.paired_difference([1] * 10) == pytest.approx((1.0, (10 - 3.8415) / 13.8415, 1.0), abs=1e-4)


@pytest.mark.parametrize("n", [1, 8, 50, 100])
def test_no_change_is_no_certainty(n):
    got = statistics.paired_difference([0.0] * n)
    assert got.high == -got.low == pytest.approx(statistics.wilson(0, n).high)


@pytest.mark.parametrize("n", [50, 100])
@pytest.mark.parametrize("discordant", [0.1, 0.2, 0.3, 0.5])
@pytest.mark.parametrize("share_better", [0.5, 0.75, 1.0])
def test_paired_difference_covers(n, discordant, share_better):
    """Exact coverage of the 95 % interval: every outcome of n scenes with its probability, no chance in it."""
    up, down = discordant * share_better, discordant * (1 - share_better)
    covered = left_out = 0.0
    for better in range(n + 1):
        for worse in range(n + 1 - better):
            ways = math.lgamma(n + 1) - math.lgamma(better + 1) - math.lgamma(worse + 1) - math.lgamma(n - better - worse + 1)
            chance = math.exp(ways) * up**better * down**worse * (1 - discordant) ** (n - better - worse)
            if chance < 1e-6:
                left_out += chance
                continue
            _, low, high = statistics.paired_difference(_changes(better, worse, n))
            assert low < high
            covered += chance if low <= up - down <= high else 0.0
    assert covered >= 0.92 and covered + left_out <= 0.98


@pytest.mark.parametrize(("n", "repeats", "alike"), [(50, 2, 2.0), (50, 4, 2.0), (32, 4, 0.3), (12, 4, 2.0), (50, 4, 0.02)])
def test_paired_difference_covers_with_repeats(n, repeats, alike):
    """alike: of Beta(alike / 2, alike / 2), how much scenes differ in difficulty; near 0 every scene is always or never solved."""
    rng, gain, trials, hits = np.random.default_rng(1), 0.02 if alike < 0.1 else 0.1, 1_000, 0
    for _ in range(trials):
        p = rng.beta(alike / 2, alike / 2, n)
        d = (rng.binomial(repeats, p + 2 * gain * (1 - p)) - rng.binomial(repeats, p)) / repeats
        _, low, high = statistics.paired_difference(d)
        assert low < high
        hits += low <= gain <= high
    assert 0.92 <= hits / trials <= (0.98 if gain == 0.1 else 1.0)


def test_scenes_that_all_changed_alike_leave_a_width():
    got = statistics.paired_difference([0.5] * 10)
    # twelve values: eleven of 0.5 and one of -0.5; mean 5 / 12, standard error sqrt(11 / 12 / 11) / sqrt(12) = 1 / 12, t = 2.201
    assert got == pytest.approx((0.5, (5 - 2.201) / 12, (5 + 2.201) / 12), abs=1e-4)


@pytest.mark.parametrize(("differences", "message"), [([], "one per scene"), ([0.1, math.nan], "finite"), ([3, 1], r"\[-1, 1\]; got 3")])
def test_paired_difference_refuses(differences, message):
    with pytest.raises(ValueError, match=message):
        statistics.paired_difference(differences)


def test_cluster_bootstrap_is_wider_than_wilson_when_repeats_agree():
    k, n = [8, 0] * 10, [8] * 20  # every repeat of a scene ends alike: 20 scenes, not 160 rollouts
    boot, naive = statistics.cluster_bootstrap(k, n), statistics.wilson(80, 160)
    assert boot.high - boot.low > 2 * (naive.high - naive.low)
    assert boot.low < 0.5 < boot.high
    assert statistics.cluster_bootstrap([4] * 10, [8] * 10) == (0.5, 0.5)
    with pytest.raises(ValueError, match="scenes"):
        statistics.cluster_bootstrap([1], [2])
    with pytest.raises(ValueError, match="0 <= k <= n"):
        statistics.cluster_bootstrap([3, 1], [2, 2])


def test_cluster_bootstrap_does_not_collapse_at_the_ends():
    """50 scenes of four rollouts each say no more than 50 rollouts at most, and no less than something."""
    assert statistics.cluster_bootstrap([0] * 50, [4] * 50) == statistics.wilson(0, 50)
    assert statistics.cluster_bootstrap([4] * 50, [4] * 50) == statistics.wilson(50, 50)
    assert statistics.cluster_bootstrap([0] * 50, [4] * 50).high > 0.05


def test_the_p_value_of_very_many_differences_is_had_at_once():
    exact = 2 * sum(math.comb(1000, i) for i in range(471)) / 2**1000
    assert statistics.mcnemar(470, 530) == pytest.approx(exact, rel=1e-10)
    assert statistics.mcnemar(10**6, 10**6) == 1 and 0 < statistics.mcnemar(10**6, 10**6 + 3000) < 0.05
