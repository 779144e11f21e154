"""Intervals for what a run reports: proportions, paired differences, repeated rollouts, seeds.

Everything is closed form or seeded: the same data always give the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr, stdtrit

_TIE = 1e-12  # subset means of k/n differences are compared up to rounding


class Interval(NamedTuple):
    low: float
    high: float


class PairedDifference(NamedTuple):
    """Mean of per-scene differences and its interval."""

    mean: float
    low: float
    high: float


class SignFlips(NamedTuple):
    """Limits that invert the sign-flip test, and its one-sided p-value of "the mean is not above 0"."""

    low: float
    high: float
    p_value: float


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it must lie strictly between 0 and 1, e.g. 0.95")


def wilson(k: int, n: int, confidence: float = 0.95) -> Interval:
    """Score interval of a proportion of ``k`` successes in ``n`` independent rollouts.

    Returns (0, 1) for n = 0: no rollout, no knowledge. Source: Wilson 1927, "Probable inference", eq. for the score interval.

    Raises:
      ValueError: k outside 0..n, or confidence outside (0, 1).
    """
    _check_confidence(confidence)
    if not 0 <= k <= n:
        raise ValueError(f"k = {k} successes of n = {n}: k must lie in 0..n")
    if n == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p = k / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # at the ends the exact limits are 0 and 1; rounding would leave 1e-17
    return Interval(0.0 if k == 0 else max(0.0, centre - half), 1.0 if k == n else min(1.0, centre + half))


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided p-value of "two verdicts on the same cases lean to neither side", from the cases where they differ.

    Args:
      only_first, only_second: cases with success in the first alone and in the second alone. Returns 1 where there are none.

    Source: McNemar 1947, with the binomial distribution in place of the chi-squared one.

    Raises:
      ValueError: a negative count.
    """
    if min(only_first, only_second) < 0:
        raise ValueError(f"{only_first} and {only_second} differing verdicts: counts cannot be negative")
    n, k = only_first + only_second, min(only_first, only_second)
    return min(1.0, 2 * float(bdtr(k, n, 0.5))) if n else 1.0


def _subset_means(differences: np.ndarray, subsets: int, seed: int) -> np.ndarray:
    """Means of the non-empty subsets of the differences, sorted: all of them where there are few, else ``subsets`` random ones."""
    count = len(differences)
    if count <= 62 and 2**count - 1 <= subsets:
        codes = np.arange(1, 2**count)
        chosen = (codes[:, None] >> np.arange(count)) & 1
    else:
        chosen = np.random.default_rng(seed).integers(0, 2, (subsets, count), dtype=np.int8)
        chosen = chosen[chosen.any(axis=1)]
    return np.sort(chosen @ differences / chosen.sum(axis=1))


def sign_flip_test(
    differences: Sequence[float] | np.ndarray,
    confidence: float = 0.95,
    *,
    bounds: tuple[float, float] = (-1.0, 1.0),
    subsets: int = 20_000,
    seed: int = 0,
) -> SignFlips:
    """The sign-flip permutation test of paired per-scene differences, and the limits that invert it.

    Flipping the signs of the subset F leaves sum(s (d - delta)) >= sum(d - delta) exactly when mean(d[F]) <= delta. So the p-value at
    delta counts subset means, and the limits are order statistics of them: no search. Exact up to 14 scenes at the default
    ``subsets``, Monte Carlo (valid, the identity counted) above. Where too few scenes exist to exclude anything, a limit is the bound.
    It takes the sizes of the differences as given, so where nothing changed both limits are 0: to report a change, use
    ``paired_difference``.

    Args:
      differences: [b] one number per scene, e.g. (k_control - k_target) / n. Repeats of a scene must be averaged first: the scene is
        the unit, never the rollout.
      confidence: of the two-sided interval; a one-sided 5 % limit is the end of the 90 % interval.
      bounds: smallest and largest value a difference can take.
      subsets: at most so many sign flips are drawn.

    Raises:
      ValueError: no differences, non-finite ones, or confidence outside (0, 1).

    Source: Hartigan 1969, "Using subsample values as typical values"; the test is Fisher's sign-flip test.
    """
    _check_confidence(confidence)
    means = _subset_means(_one_per_scene(differences), subsets, seed)
    total = len(means) + 1  # the empty subset is the identity
    rank = math.floor((1 - confidence) / 2 * total + _TIE)  # reject delta while 1 + #{means <= delta} <= rank
    low, high = (float(means[rank - 1]), float(means[-rank])) if rank else bounds
    return SignFlips(low, high, float((1 + np.count_nonzero(means <= _TIE)) / total))


def paired_difference(differences: Sequence[float] | np.ndarray, confidence: float = 0.95) -> PairedDifference:
    """Mean of paired per-scene differences of success, with an interval that has a width even where nothing changed.

    Where every scene changed by -1, 0 or 1 (one rollout each, or repeats that all ended alike: then a scene counts once) it is Tango's
    score interval of a difference of paired proportions; n scenes without a change give 0 +- z^2 / (n + z^2), Wilson's limit of 0 of n.
    Else it is Student's interval of the scenes with two more, one better and one worse by the smallest change that a scene showed: as
    Bonett and Price add a pair to each kind of change, so that scenes that all changed alike do not make an interval without width.

    Args:
      differences: [b] one number in [-1, 1] per scene, success rate after minus before. Repeats of a scene must be averaged first.

    Raises:
      ValueError: no differences, ones that are not finite or outside [-1, 1], or confidence outside (0, 1).

    Source: Tango 1998, "Equivalence test and confidence interval for the difference in proportions for the paired-sample design",
    score statistic with the restricted estimate; Bonett & Price 2012, "Adjusted Wald confidence interval for a difference of binomial
    proportions based on paired data".
    """
    _check_confidence(confidence)
    d = _one_per_scene(differences)
    if (np.abs(d) > 1 + _TIE).any():
        raise ValueError(f"a difference of success rates lies in [-1, 1]; got {d[np.abs(d).argmax()]:g}")
    if np.isin(d, (-1.0, 0.0, 1.0)).all():
        better, worse = int((d == 1).sum()), int((d == -1).sum())
        # mirrored, so that swapping before and after mirrors the interval bit for bit
        low = -_upper_score_limit(worse, better, d.size, confidence)
        return PairedDifference(float(d.mean()), low, _upper_score_limit(better, worse, d.size, confidence))
    least = float(np.abs(d[d != 0]).min())
    widened = np.append(d, (least, -least))
    half = float(stdtrit(widened.size - 1, 0.5 + confidence / 2)) * float(widened.std(ddof=1)) / math.sqrt(widened.size)
    centre = float(widened.mean())
    return PairedDifference(float(d.mean()), max(-1.0, centre - half), min(1.0, centre + half))


def _one_per_scene(differences: Sequence[float] | np.ndarray) -> np.ndarray:
    d = np.asarray(differences, float)
    if d.ndim != 1 or d.size == 0 or not np.isfinite(d).all():
        raise ValueError(f"differences must be a non-empty list of finite numbers, one per scene; got shape {d.shape}")
    return d


def _upper_score_limit(better: int, worse: int, n: int, confidence: float) -> float:
    """The largest difference that Tango's score test of ``better`` and ``worse`` of ``n`` scenes does not reject."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)

    def rejected(delta: float) -> bool:
        b = (2 * n - better + worse) * delta - better - worse
        c = -worse * delta * (1 - delta)
        share_worse = (math.sqrt(b * b - 8 * n * c) - b) / (4 * n)  # most likely one where the difference is delta
        variance = n * (2 * share_worse + delta * (1 - delta))
        return n * delta - (better - worse) > z * math.sqrt(max(0.0, variance))

    low, high = (better - worse) / n, 1.0
    for _ in range(60):  # halvings: down to rounding
        middle = (low + high) / 2
        low, high = (low, middle) if rejected(middle) else (middle, high)
    return high


def cluster_bootstrap(
    k: Sequence[int] | np.ndarray, n: Sequence[int] | np.ndarray, confidence: float = 0.95, *, resamples: int = 5_000, seed: int = 0
) -> Interval:
    """Percentile interval of sum(k) / sum(n) where each scene was rolled out several times: scenes are resampled, not rollouts.

    Where every rollout ended alike, resampling gives one point whatever the number of scenes; then it is Wilson's interval with each
    scene counted once, the least that its rollouts can be worth. The interval covers the draw of scenes and of rollouts for one trained
    policy; how much policies of other training seeds differ is not in it.

    Args:
      k: [c] successes of each scene. n: [c] rollouts of each scene.

    Raises:
      ValueError: shapes differ, fewer than two scenes, or some k outside 0..n or n = 0.
    """
    _check_confidence(confidence)
    successes, rollouts = np.asarray(k), np.asarray(n)
    if successes.shape != rollouts.shape or successes.ndim != 1 or len(successes) < 2:
        raise ValueError(f"k and n need one entry per scene and at least two scenes; got shapes {successes.shape} and {rollouts.shape}")
    if (rollouts < 1).any() or (successes < 0).any() or (successes > rollouts).any():
        raise ValueError("every scene needs n >= 1 rollouts and 0 <= k <= n successes")
    if successes.sum() in (0, rollouts.sum()):
        return wilson(len(successes) if successes.any() else 0, len(successes), confidence)
    picks = np.random.default_rng(seed).integers(0, len(successes), (resamples, len(successes)))
    rates = successes[picks].sum(axis=1) / rollouts[picks].sum(axis=1)
    low, high = np.quantile(rates, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))
