"""Which factor of a scene explains failures: a grouped logistic regression over the scenes of a round.

One ridge regression on all features: unlike a group lasso it has no path to tune, and does not let one of two correlated factors take all
by chance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda_jax.agents.scripted.logistic import RIDGE, fit, standardise


def drop_shares(
    features: np.ndarray,
    groups: Sequence[str],
    k: np.ndarray,
    trials: np.ndarray | None = None,
    reference: np.ndarray | None = None,
    *,
    ridge: float = RIDGE,
) -> dict[str, np.ndarray]:
    """Attribute each scene's failures to groups of features: of its logit's drop below the reference, the share that each explains.

    A row is a scene. Repeated rollouts of one scene are one row with ``trials`` above 1, never several rows: they share its
    difficulty, and would count for more than they say.

    Args:
      features: [n, f] numbers that describe each scene, in any units. groups: [f] the factor of each column.
      k: [n] successes (or booleans). trials: [n] rollouts of each row; 1 if None.
      reference: [f] or [n, f] features of the base scene that drops are measured from; the mean of the rows if None.

    Returns:
      factor to shares [n], in the order in which ``groups`` first names them; zeros where a row does not lie below the reference.

    Raises:
      ValueError: shapes that do not fit, non-finite features, or counts outside 0..trials.
    """
    x, k, trials = _checked(features, groups, k, trials)
    z, mean, scale = standardise(x)
    base = np.zeros_like(z) if reference is None else (_reference(reference, x) - mean) / scale
    beta = fit(z, k, trials, ridge)
    order = tuple(dict.fromkeys(groups))
    columns = [np.array([g == name for g in groups]) for name in order]
    drops = np.stack([(base - z)[:, c] @ beta[1:][c] for c in columns], axis=1)
    below = (drops.sum(axis=1, keepdims=True) > 0) * np.maximum(drops, 0)
    rows = below / np.maximum(below.sum(axis=1, keepdims=True), 1e-12)
    return dict(zip(order, rows.T, strict=True))


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
    successes = np.asarray(k, np.float64)
    counts = np.ones(len(x)) if trials is None else np.asarray(trials, np.float64)
    if successes.shape != (len(x),) or counts.shape != (len(x),):
        raise ValueError(f"k has shape {successes.shape} and trials {counts.shape}; both need one entry for each of {len(x)} rows")
    if not ((counts >= 1) & (successes >= 0) & (successes <= counts)).all():
        raise ValueError("every row needs trials >= 1 and 0 <= k <= trials")
    return x, successes, counts
