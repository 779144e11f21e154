"""How a round's environments are divided: difficulty modes by upper confidence bound, novelty, replay against regressions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

Status = Literal["active", "mastered", "retired"]

LEAST_SPREAD = 0.10  # success rate; modes whose values differ by less are not told apart by rescaling


@dataclasses.dataclass(frozen=True)
class ModeState:
    """What allocation needs to know of a mode.

    k, n: latest successes and rollouts on its environments (its severity). value: discounted mean Learning Value. environments:
    discounted number of environments that gave this value, 0 for an untried mode. replayed: last round in which it was measured.
    """

    mode: str
    status: Status
    k: int
    n: int
    value: float = 0.0
    environments: float = 0.0
    replayed: int = -1

    def __post_init__(self) -> None:
        if not 0 <= self.k <= self.n:
            raise ValueError(f"mode {self.mode}: k = {self.k} successes of n = {self.n}: k must lie in 0..n")
        if self.environments < 0 or not math.isfinite(self.environments) or not math.isfinite(self.value):
            raise ValueError(
                f"mode {self.mode}: value {self.value} and environments {self.environments} must be finite, the latter 0 or more"
            )


@dataclasses.dataclass(frozen=True)
class Allocation:
    """Environments to build: for each mode to target, for each mode to replay, and for modes not known yet."""

    targeted: Mapping[str, int]
    replay: Mapping[str, int]
    novelty: int

    @property
    def total(self) -> int:
        return sum(self.targeted.values()) + sum(self.replay.values()) + self.novelty


def learnability(k: int, n: int) -> float:
    """4 p (1 - p), 1 at even odds; p = (k + 1/2) / (n + 1), so that a mode with few rollouts is never written off.

    Source: Rutherford et al. 2024, "No Regrets" (2408.15099), scaled by 4.
    """
    p = (k + 0.5) / (n + 1)
    return 4 * p * (1 - p)


def scores(modes: Sequence[ModeState], c: float = 1.0) -> dict[str, float]:
    """(mu + c sqrt(2 ln T / n)) 4 p (1 - p) of every tried mode, and infinity for untried ones.

    mu is the value rescaled to [0, 1] over tried modes: (v - min) / max(max - min, 0.10). Without that floor, values which differ by
    nothing but noise would be blown up to the whole range. n: the mode's environments, T: their sum, both discounted by round.

    Source: Auer et al. 2002, UCB1; discounts of Garivier & Moulines 2011.
    """
    found = terms(modes, c)
    return {m.mode: sum(found[m.mode]) * learnability(m.k, m.n) if m.mode in found else math.inf for m in modes}


def terms(modes: Sequence[ModeState], c: float = 1.0) -> dict[str, tuple[float, float]]:
    """The rescaled value and the exploration term of every tried mode: what ``scores`` adds up."""
    tried = [m for m in modes if m.environments > 0]
    if not tried:
        return {}
    values = [m.value for m in tried]
    least, spread = min(values), max(max(values) - min(values), LEAST_SPREAD)
    total = max(1.0, sum(m.environments for m in tried))
    return {m.mode: ((m.value - least) / spread, c * math.sqrt(2 * math.log(total) / m.environments)) for m in tried}


def value_over_exploration(modes: Sequence[ModeState], c: float = 1.0) -> float | None:
    """Range of the rescaled values of the active modes over their mean exploration term: 0 where exploration alone tells them apart.

    None where fewer than two of them were tried, or there is no exploration (c = 0).
    """
    found = list(terms([m for m in modes if m.status == "active"], c).values())
    if len(found) < 2:
        return None
    width = max(value for value, _ in found) - min(value for value, _ in found)
    mean = math.fsum(bonus for _, bonus in found) / len(found)
    return width / mean if mean else None


def largest_remainder(total: int, weights: Sequence[float] | np.ndarray) -> list[int]:
    """Whole numbers in proportion to ``weights`` with exactly the sum ``total``; ties go to the earlier entry.

    Weights that are all 0 count as equal.

    Raises:
      ValueError: no weights, a negative or non-finite one, or a negative total.

    Source: Hamilton's method of apportionment.
    """
    w = np.asarray(weights, float)
    if w.ndim != 1 or w.size == 0 or not np.isfinite(w).all() or (w < 0).any() or total < 0:
        raise ValueError(f"cannot divide {total} by the weights {w.tolist()}: they must be finite, 0 or more, at least one of them")
    share = w / w.max() if w.max() > 0 else np.ones(w.size)  # the largest first: tiny or huge weights keep a finite sum
    exact = total * (share / share.sum())
    counts = np.floor(exact + 1e-9).astype(int)  # 3 / 0.1 is a whole number here
    order = np.argsort(-(exact - counts).round(9), kind="stable")
    counts[order[: total - int(counts.sum())]] += 1
    return counts.tolist()


def allocate(modes: Sequence[ModeState], budget: int, novelty: float = 0.15, replay: float = 0.10, *, c: float = 1.0) -> Allocation:
    """Divide ``budget`` environments; the counts add up to it exactly, and the order of ``modes`` does not matter.

    Each untried mode gets one environment first, the most learnable before the others; the rest is divided in proportion to the
    scores, an untried mode counting as one tried once with the best value. Replay goes evenly to retired and mastered modes, those
    not measured for longest first. Without any of them their share is targeted; without active modes the targeted share is novelty.

    Args:
      budget: environments of the round, 0 or more. novelty, replay: shares of it. c: exploration coefficient.

    Raises:
      ValueError: shares outside [0, 1] or above 1 together, a negative budget, or a mode named twice.
    """
    if budget < 0 or novelty < 0 or replay < 0 or not novelty + replay <= 1:
        raise ValueError(f"budget {budget}, novelty {novelty}, replay {replay}: none may be negative, and the shares at most 1 together")
    names = [m.mode for m in modes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"modes {', '.join(twice)} are listed more than once")
    ordered = sorted(modes, key=lambda m: m.mode)
    active = [m for m in ordered if m.status == "active"]
    past = sorted((m for m in ordered if m.status != "active"), key=lambda m: m.replayed)
    targets, unknown, repeats = largest_remainder(budget, [1 - novelty - replay, novelty, replay])
    if not past:
        targets, repeats = targets + repeats, 0
    if not active:
        unknown, targets = unknown + targets, 0
    return Allocation(_targeted(active, targets, c), _nonzero(past, largest_remainder(repeats, [1.0] * len(past)) if past else []), unknown)


def _targeted(active: Sequence[ModeState], count: int, c: float) -> dict[str, int]:
    if not active:
        return {}
    score = scores(active, c)
    untried = sorted((m for m in active if m.environments == 0), key=lambda m: -learnability(m.k, m.n))
    first = {m.mode for m in untried[:count]}
    total = max(math.e, sum(m.environments for m in active))
    optimistic = 1 + c * math.sqrt(2 * math.log(total))
    weights = [score[m.mode] if m.environments else optimistic * learnability(m.k, m.n) for m in active]
    rest = largest_remainder(count - len(first), weights)
    return _nonzero(active, [n + (m.mode in first) for m, n in zip(active, rest, strict=True)])


def _nonzero(modes: Sequence[ModeState], counts: Sequence[int]) -> dict[str, int]:
    return {m.mode: n for m, n in zip(modes, counts, strict=True) if n}
