"""Which factor of a scene explains failures: a grouped logistic regression over the scenes of a round.

One ridge regression on all features; a factor's contribution is its Shapley share of the explained deviance over the 2^g subsets of
factors. Unlike a group lasso it has no path to tune, and does not let one of two correlated factors take all by chance. Whether a
factor matters at all is a permutation test, valid for a few rows and for scenes that vary more than binomially.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from coda_jax.agents.scripted.logistic import RIDGE, fit, log_likelihood, sigmoid, standardise


@dataclasses.dataclass(frozen=True)
class Contribution:
    """A factor in the whole set of rows.

    share: of the explained deviance, in [0, 1]; shares of all factors sum to 1, or to 0 where nothing is explained. low, high: its
    90 % interval. p_value: of "given the other factors, this one does not matter", corrected for the number of factors (Holm).
    """

    share: float
    low: float
    high: float
    p_value: float


@dataclasses.dataclass(frozen=True)
class Explanation:
    """factors: contribution of each. rows: [n, g] share of each row's logit drop below the reference that each factor explains, in the
    order of ``factors``; zeros where a row does not lie below it. named: factors with p <= level, the largest share first.
    """

    factors: Mapping[str, Contribution]
    rows: np.ndarray
    named: tuple[str, ...]


def explain(
    features: np.ndarray,
    groups: Sequence[str],
    k: np.ndarray,
    trials: np.ndarray | None = None,
    reference: np.ndarray | None = None,
    *,
    level: float = 0.05,
    ridge: float = RIDGE,
    permutations: int = 1_999,
    resamples: int = 200,
    seed: int = 0,
) -> Explanation:
    """Attribute failures to groups of features.

    A row is a scene. Repeated rollouts of one scene are one row with ``trials`` above 1, never several rows: they share its
    difficulty, and the tests take rows for independent.

    Args:
      features: [n, f] numbers that describe each scene, in any units. groups: [f] the factor of each column, at most 8 different.
      k: [n] successes (or booleans). trials: [n] rollouts of each row; 1 if None.
      reference: [f] or [n, f] features of the base scene that drops are measured from; the mean of the rows if None.
      level: family-wise error rate of ``named``. permutations: of the tests, the smallest p-value is about their inverse. resamples:
        of the intervals. seed: of both; the same data and seed give the same answer.

    Raises:
      ValueError: shapes that do not fit, non-finite features, counts outside 0..trials, or no or too many groups.

    Source: Shapley values of deviance as in Lipovetsky & Conklin 2001; the test is Freedman & Lane 1983 on the
    Pearson residuals of the regression without the factor.
    """
    x, k, trials = _checked(features, groups, k, trials)
    order = tuple(dict.fromkeys(groups))
    columns = [np.array([g == name for g in groups]) for name in order]
    z, mean, scale = standardise(x)
    base = np.zeros_like(z) if reference is None else (_reference(reference, x) - mean) / scale
    rng = np.random.default_rng(seed)
    beta = fit(z, k, trials, ridge=ridge)[0]
    orders = np.tile(np.arange(len(z)), (1 + permutations, 1))
    orders[1:] = rng.permuted(orders[1:], axis=1)
    p_values = _holm([_permutation_p(z, c, k, trials, ridge, orders) for c in columns])
    weights = np.vstack([np.ones(len(z)), rng.multinomial(len(z), np.full(len(z), 1 / len(z)), resamples)])
    shares = _shares(z, columns, k, trials, weights, ridge)
    low, high = np.quantile(shares[1:], [0.05, 0.95], axis=0)
    factors = {
        name: Contribution(float(shares[0, i]), float(min(low[i], shares[0, i])), float(max(high[i], shares[0, i])), p_values[i])
        for i, name in enumerate(order)
    }
    drops = np.stack([(base - z)[:, c] @ beta[1:][c] for c in columns], axis=1)
    below = (drops.sum(axis=1, keepdims=True) > 0) * np.maximum(drops, 0)
    rows = below / np.maximum(below.sum(axis=1, keepdims=True), 1e-12)
    named = sorted((n for n in order if factors[n].p_value <= level), key=lambda n: -factors[n].share)
    return Explanation(factors, rows, tuple(named))


def _shares(
    z: np.ndarray, columns: Sequence[np.ndarray], k: np.ndarray, trials: np.ndarray, weights: np.ndarray, ridge: float
) -> np.ndarray:
    """[r, g] Shapley shares of the deviance that each group explains beyond what as many columns of noise would."""
    count = len(columns)
    explained = {}
    for subset in itertools.product((False, True), repeat=count):
        chosen = np.zeros(z.shape[1], bool)
        for inside, column in zip(subset, columns, strict=True):
            chosen |= inside & column
        x = z[:, chosen]
        beta = fit(x, k, trials, weights, ridge)
        logits = beta[:, :1] + beta[:, 1:] @ x.T
        p = sigmoid(logits)
        information = np.einsum("rn,nf->rf", weights * trials * p * (1 - p), x * x)
        noise = (information / (information + ridge)).sum(axis=1)  # effective degrees of freedom, columns taken one by one
        explained[subset] = 2 * (weights * log_likelihood(logits, k, trials)).sum(axis=1) - noise
    worth = np.zeros((len(weights), count))
    for i in range(count):
        for subset, value in explained.items():
            if not subset[i]:
                size = sum(subset)
                chance = math.factorial(size) * math.factorial(count - size - 1) / math.factorial(count)
                worth[:, i] += chance * (explained[(*subset[:i], True, *subset[i + 1 :])] - value)
    worth = np.maximum(worth, 0)
    total = worth.sum(axis=1, keepdims=True)
    return np.where(total > 0, worth / np.where(total > 0, total, 1), 0.0)


def _permutation_p(z: np.ndarray, group: np.ndarray, k: np.ndarray, trials: np.ndarray, ridge: float, orders: np.ndarray) -> float:
    """Share of ``orders`` [p, n] of the residuals, the first being the true one, in which ``group`` explains at least as much."""
    others = np.hstack([np.ones((len(z), 1)), z[:, ~group]])
    beta = fit(z[:, ~group], k, trials, ridge=ridge)[0]
    p = sigmoid(others @ beta)
    root = np.sqrt(np.maximum(trials * p * (1 - p), 1e-12))  # a row that is certain has almost no weight, not none
    residual = (k - trials * p) / root
    # Freedman & Lane: both sides lose what the other columns say, also the permuted residuals, or the observed statistic, which has
    # those degrees of freedom fewer, would look too large
    rest, own = _basis(root[:, None] * others), root[:, None] * z[:, group]
    own = _basis(own - rest @ (rest.T @ own))
    left = residual[orders]
    left = left - (left @ rest) @ rest.T
    explained, total = ((left @ own) ** 2).sum(axis=1), (left**2).sum(axis=1)
    statistic = explained / np.maximum(total - explained, 1e-9 * np.maximum(total, 1e-300))
    return float(np.mean(statistic >= statistic[0] * (1 - 1e-9)))


def _basis(columns: np.ndarray) -> np.ndarray:
    """Orthonormal basis [n, rank] of the space that the columns span."""
    u, s, _ = np.linalg.svd(columns, full_matrices=False)
    return u[:, s > 1e-9 * max(1.0, float(s.max(initial=0.0)))]


def _holm(p_values: Sequence[float]) -> list[float]:
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(np.argsort(p_values, kind="stable")):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def _reference(reference: np.ndarray, x: np.ndarray) -> np.ndarray:
    base = np.asarray(reference, np.float64)
    if base.shape not in (x.shape, x.shape[1:]) or not np.isfinite(base).all():
        raise ValueError(
            f"reference has shape {base.shape}; it must be finite, [{x.shape[1]}] or [{x.shape[0]}, {x.shape[1]}] like features"
        )
    return base


def _checked(
    features: np.ndarray, groups: Sequence[str], k: np.ndarray, trials: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = np.asarray(features, np.float64)
    if x.ndim != 2 or x.shape[0] == 0 or x.shape[1] != len(groups) or not np.isfinite(x).all():
        raise ValueError(f"features have shape {x.shape} for {len(groups)} columns in groups; they must be [n, f] with n >= 1, all finite")
    if not 1 <= len(set(groups)) <= 8:
        raise ValueError(f"{len(set(groups))} groups; give 1 to 8, as every subset of them is fitted")
    successes = np.asarray(k, np.float64)
    counts = np.ones(len(x)) if trials is None else np.asarray(trials, np.float64)
    if successes.shape != (len(x),) or counts.shape != (len(x),):
        raise ValueError(f"k has shape {successes.shape} and trials {counts.shape}; both need one entry for each of {len(x)} rows")
    if not ((counts >= 1) & (successes >= 0) & (successes <= counts)).all():
        raise ValueError("every row needs trials >= 1 and 0 <= k <= trials")
    return x, successes, counts
