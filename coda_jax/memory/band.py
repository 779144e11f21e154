"""Is an environment neither mastered nor out of reach? Membership of the success band, by posterior."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.special import betainc

LOW, HIGH = 0.2, 0.8
SURE = 0.8  # posterior probability at which a membership counts as decided
OWN = 16  # rollouts from which an environment is judged by itself


@dataclasses.dataclass(frozen=True)
class Environment:
    """An environment's ``k`` successes of ``n`` rollouts; program and level: what generated it."""

    program: str
    level: float
    k: int
    n: int


@dataclasses.dataclass(frozen=True)
class Membership:
    """Judgement of one environment from ``k`` of ``n``, which are its own or pooled over its program and level."""

    in_band: bool
    undecided: bool
    k: int
    n: int
    pooled: bool


def band_probability(k: int, n: int, low: float = LOW, high: float = HIGH) -> float:
    """P(low <= p <= high) after ``k`` successes of ``n``, with Jeffreys' prior: p ~ Beta(k + 1/2, n - k + 1/2).

    Raises:
      ValueError: k outside 0..n.
    """
    if not 0 <= k <= n:
        raise ValueError(f"k = {k} successes of n = {n}: k must lie in 0..n")
    a, b = k + 0.5, n - k + 0.5
    return float(betainc(a, b, high) - betainc(a, b, low))


def in_band(k: int, n: int, sure: float = SURE) -> bool:
    """Whether the success rate lies in the band with probability at least ``sure``."""
    return band_probability(k, n) >= sure


def undecided(k: int, n: int, sure: float = SURE) -> bool:
    """Whether neither "inside" nor "outside" reaches probability ``sure``: more rollouts would tell."""
    return 1 - sure < band_probability(k, n) < sure


def memberships(environments: Sequence[Environment], own: int = OWN) -> list[Membership]:
    """Judge environments in order: by their own rollouts from ``own`` on, below it by all rollouts of their program and level."""
    pools: dict[tuple[str, float], tuple[int, int]] = {}
    for e in environments:
        k, n = pools.get((e.program, e.level), (0, 0))
        pools[e.program, e.level] = (k + e.k, n + e.n)
    judged = []
    for e in environments:
        pooled = e.n < own
        k, n = pools[e.program, e.level] if pooled else (e.k, e.n)
        judged.append(Membership(in_band(k, n), undecided(k, n), k, n, pooled))
    return judged


def targeting_share(k: Sequence[int] | np.ndarray) -> float:
    """Share of environments with 4 to 12 successes of 16 rollouts: the number to compare with the paper's "targeting".

    Args:
      k: [b] successes of exactly 16 rollouts each.

    Raises:
      ValueError: no environments, or a count outside 0..16.
    """
    counts = np.asarray(k)
    if counts.ndim != 1 or counts.size == 0 or counts.min() < 0 or counts.max() > 16:
        raise ValueError(f"targeting needs one count of 16 rollouts per environment, each in 0..16; got {counts.tolist()}")
    return float(np.mean((counts >= 4) & (counts <= 12)))
