"""What tells whether the critic's values can be believed: calibration against what happened, agreement with another critic. numpy."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int

from coda_jax.learning.critic import targets
from coda_jax.learning.critic.targets import Rule


def realised_returns(
    rule: Rule, rewards: Float[np.ndarray, "n h"], mask: Bool[np.ndarray, "n h"], episode: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Discounted reward from each row to the end of its episode, float64; an episode that ran out of time earned nothing more.

    Rows are decisions in order, those of one episode side by side. Compare with Q + beta Phi: the potential is not part of it.
    """
    rewards = rewards.astype(np.float64)
    earned = targets.chunk_return(rewards, mask, rule.gamma, rule.gamma_unit)
    factor = targets.discount(mask.sum(-1), rule.gamma, rule.gamma_unit, np.float64)
    total = earned.copy()
    for row in range(len(total) - 2, -1, -1):
        if episode[row] == episode[row + 1]:
            total[row] += factor[row] * total[row + 1]
    return total


@dataclasses.dataclass(frozen=True)
class CalibrationBin:
    """Decisions with a decoded value in [low, high): how many, mean decoded value, mean realised return and its standard error.

    Decisions of one episode depend on each other, so the standard error counts episodes: it is NaN for a single one.
    """

    low: float
    high: float
    count: int
    decoded: float
    realised: float
    error: float


def calibration(
    decoded: Float[np.ndarray, " n"], realised: Float[np.ndarray, " n"], episode: Int[np.ndarray, " n"], bins: int
) -> list[CalibrationBin]:
    """The calibration curve: decisions in ``bins`` equally wide bins of the decoded value; empty bins are left out.

    Raises:
      ValueError: no decisions, or a value that is not finite.
    """
    if not len(decoded):
        raise ValueError("no decisions to calibrate on: pass at least one row")
    if not (np.isfinite(decoded).all() and np.isfinite(realised).all()):
        raise ValueError("a decoded value or a realised return is NaN or infinite: leave out rows that begin no transition")
    low, high = float(decoded.min()), float(decoded.max())
    edges = np.linspace(low, high if high > low else low + 1e-6, bins + 1)
    place = np.clip(np.searchsorted(edges, decoded, side="right") - 1, 0, bins - 1)
    curve = []
    for i in np.unique(place):
        own = place == i
        mean = float(realised[own].mean())
        groups = np.unique(episode[own], return_inverse=True)[1]
        excess = np.bincount(groups, realised[own] - mean)
        clusters = len(excess)
        error = float(np.sqrt((excess**2).sum() * clusters / (clusters - 1)) / own.sum()) if clusters > 1 else float("nan")
        curve.append(CalibrationBin(float(edges[i]), float(edges[i + 1]), int(own.sum()), float(decoded[own].mean()), mean, error))
    return curve


def calibration_error(curve: list[CalibrationBin]) -> float:
    """Mean distance of decoded value and realised return over the curve, weighted by count."""
    return sum(b.count * abs(b.decoded - b.realised) for b in curve) / sum(b.count for b in curve)


@dataclasses.dataclass(frozen=True)
class Agreement:
    """share: of ``count`` decisions in which two critics choose the same candidate. chance: the share that indifference would give."""

    share: float
    chance: float
    count: int


def agreement(first: Float[np.ndarray, "n j"], second: Float[np.ndarray, "n j"]) -> Agreement:
    """How often two critics, e.g. one with and one without a potential, choose the same of the ``j`` candidates.

    Raises:
      ValueError: no decisions.
    """
    n, j = first.shape
    if not n:
        raise ValueError("no decisions to compare: pass at least one row")
    return Agreement(float((first.argmax(-1) == second.argmax(-1)).mean()), 1.0 / j, n)
