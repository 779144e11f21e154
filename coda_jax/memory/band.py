"""Is an environment neither mastered nor out of reach? Membership of the success band, by posterior."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.special import betainc, betaln

LOW, HIGH = 0.2, 0.8
SURE = 0.8  # posterior probability at which a membership counts as decided
OWN = 16  # rollouts from which an environment is judged by itself
TARGET_LOW, TARGET_HIGH = 4, 12  # successes of OWN rollouts that the paper counts as targeted
_MEANS, _WEIGHTS = np.linspace(0.025, 0.975, 39), np.geomspace(0.25, 256.0, 21)  # of the success rates of a round's environments


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


def targeting_share(counts: Sequence[tuple[int, int]]) -> float:
    """Share of environments with 4 to 12 successes of 16 rollouts, the number to compare with the paper's "targeting".

    Exact where every environment has 16. One with fewer counts as the chance that the others bring it there, under the success rates of
    the round's environments as they appear together: p ~ Beta, its mean and weight integrated over a grid (hierarchical beta-binomial).

    Args:
      counts: (k, n) of the first rollouts of each environment, n at most 16.

    Raises:
      ValueError: no environments, n outside 0..16, or k outside 0..n.

    Source: Gelman et al., Bayesian Data Analysis, section 5.3, for the hierarchical model.
    """
    if not counts:
        raise ValueError("targeting is a share of environments, and there are none")
    if wrong := [(k, n) for k, n in counts if not 0 <= k <= n <= OWN]:
        raise ValueError(f"targeting takes the first {OWN} rollouts of an environment and k in 0..n; got (k, n) = {wrong[0]}")
    k, n = np.array(counts).T[:, :, None, None]  # [2, b, 1, 1], before the axes of the grid
    a, b = _WEIGHTS * _MEANS[:, None], _WEIGHTS * (1 - _MEANS[:, None])
    likelihood = np.sum(betaln(a + k, b + n - k) - betaln(a, b), axis=0)
    posterior = np.exp(likelihood - likelihood.max())
    chance = np.zeros(np.broadcast_shapes(k.shape, a.shape))
    for successes in range(TARGET_LOW, TARGET_HIGH + 1):
        further, left = successes - k, OWN - n
        possible = (further >= 0) & (further <= left)
        further = np.where(possible, further, 0)
        ways = -np.log(left + 1) - betaln(left - further + 1, further + 1)  # log of the binomial coefficient
        foretold = np.exp(ways + betaln(a + k + further, b + n - k + left - further) - betaln(a + k, b + n - k))
        chance += np.where(possible, foretold, 0.0)
    return float(np.sum(posterior * chance.mean(axis=0)) / np.sum(posterior))
