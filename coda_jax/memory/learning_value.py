"""Learning Value: what training on a mode's scenes gained, beyond what training in general gained, with its noise taken out.

Success after minus before a training round, on fresh rollouts from the same initial states with paired seeds. The rollouts that
selected a scene are never its "before": it was chosen for failing them, so it would do better afterwards without any learning.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

DISCOUNT = 0.7  # of a Learning Value for each round of age
_Z90 = 1.6448536269514722  # 95 % quantile of the normal distribution: one-sided 5 %, as in control tests


@dataclasses.dataclass(frozen=True)
class LearningValue:
    """One mode's value in one round, all in success rate.

    gain: mean over its scenes of after - before, less the general improvement. value: ``gain`` shrunk toward the round's mean.
    se: standard error of ``gain`` from the spread of scenes, without that of the general improvement, which all modes share;
    NaN where no mode has two scenes.
    """

    gain: float
    value: float
    se: float
    scenes: int


@dataclasses.dataclass(frozen=True)
class Credit:
    """A mode's rounds so far: importance = sum of 0.7^age value; mean = the same, weighted by 0.7^age scenes; scenes = that weight."""

    importance: float
    mean: float
    scenes: float


def scene_gains(before: Sequence[int] | np.ndarray, after: Sequence[int] | np.ndarray, n: int) -> np.ndarray:
    """Success rate gained on each scene, [b], from ``before`` [b] and ``after`` [b] successes of ``n`` fresh rollouts each.

    Raises:
      ValueError: shapes differ or are empty, or counts outside 0..n.
    """
    first, second = np.asarray(before), np.asarray(after)
    if first.shape != second.shape or first.ndim != 1 or first.size == 0:
        raise ValueError(f"before and after need one count per scene, of the same scenes; got shapes {first.shape} and {second.shape}")
    if n < 1 or min(first.min(), second.min()) < 0 or max(first.max(), second.max()) > n:
        raise ValueError(f"successes of n = {n} rollouts must lie in 0..n, with n at least 1; got {first.tolist()} and {second.tolist()}")
    return (second - first) / n


def gain_error(before: Sequence[int] | np.ndarray, after: Sequence[int] | np.ndarray, n: int) -> float:
    """Standard error of the mean of ``scene_gains``: of their spread, but at least that of the rollouts themselves.

    A few scenes may agree by chance: 0 of 2 before and after on each of three would otherwise be a gain without any error. The rollouts'
    is sqrt((p (1 - p) + q (1 - q)) / (S n)) with p and q the rates before and after, one success and one failure added (Laplace).

    Raises:
      ValueError: as ``scene_gains``.
    """
    gains = scene_gains(before, after, n)
    rollouts = len(gains) * n
    rates = [(float(np.sum(k)) + 1) / (rollouts + 2) for k in (before, after)]
    own = sum(p * (1 - p) for p in rates) / rollouts
    spread = float(np.var(gains, ddof=1)) / len(gains) if len(gains) > 1 else 0.0
    return math.sqrt(max(own, spread))


def gained(value: float, before: Sequence[int] | np.ndarray, after: Sequence[int] | np.ndarray, n: int) -> bool:
    """Whether training on a mode's scenes surely helped there: the one-sided 5 % lower limits of its Learning Value ``value`` and of the
    rise of success itself lie above 0. The noise of the general improvement is not in them.

    Raises:
      ValueError: as ``scene_gains``.
    """
    least = min(value, float(np.mean(scene_gains(before, after, n))))
    return least - _Z90 * gain_error(before, after, n) > 0


def general_improvement(controls: Mapping[str, np.ndarray]) -> float:
    """Mean gain of modes that were not trained on, each mode counting once; 0 without any, as nothing is known then."""
    return float(np.mean([np.mean(gains) for gains in controls.values()])) if controls else 0.0


def learning_values(trained: Mapping[str, np.ndarray], controls: Mapping[str, np.ndarray]) -> dict[str, LearningValue]:
    """Learning Value of every trained mode of a round, by empirical Bayes.

    With x_m the gain of mode m, S_m its scenes, v the variance within modes (pooled, n - 1) and s_m^2 = v / S_m:

        w_m = 1 / s_m^2,   X = sum w x / sum w,   Q = sum w (x - X)^2
        tau^2 = max(0, (Q - (M - 1)) / (sum w - sum w^2 / sum w))
        value_m = mean + tau^2 / (tau^2 + s_m^2) (x_m - mean),   mean = sum x / (tau^2 + s^2) / sum 1 / (tau^2 + s^2)

    v is pooled over modes because one mode's few scenes may agree by chance and would then not be shrunk at all. If no mode has two
    scenes the noise is unknown, and every mode gets the round's mean.

    Args:
      trained: [b] ``scene_gains`` of each mode trained on. controls: the same of modes that were measured and not trained on.

    Raises:
      ValueError: a mode without scenes, or in both arguments.

    Source: DerSimonian & Laird 1986, eq. 8-9, for tau^2; Morris 1983 for the shrinkage.
    """
    both = sorted(set(trained) & set(controls))
    if both:
        raise ValueError(f"modes {', '.join(both)} are both trained and controls; a control mode must not have been trained on")
    empty = sorted(name for name, gains in [*trained.items(), *controls.items()] if len(gains) == 0)
    if empty:
        raise ValueError(f"modes {', '.join(empty)} have no measured scenes; leave them out")
    if not trained:
        return {}
    general = general_improvement(controls)
    x = np.array([np.mean(gains) - general for gains in trained.values()])
    scenes = np.array([len(gains) for gains in trained.values()])
    spread = sum(float(np.sum((gains - np.mean(gains)) ** 2)) for gains in trained.values())
    free = int(scenes.sum() - len(scenes))
    if free == 0:
        value, error = np.full(len(x), x.mean()), np.full(len(x), math.nan)
    else:
        variance = spread / free / scenes
        value, error = _shrunk(x, variance), np.sqrt(variance)
    return {name: LearningValue(float(x[i]), float(value[i]), float(error[i]), int(scenes[i])) for i, name in enumerate(trained)}


def _shrunk(x: np.ndarray, variance: np.ndarray) -> np.ndarray:
    if len(x) == 1 or not variance.any():
        return x
    w = 1 / variance
    centre = np.sum(w * x) / np.sum(w)
    excess = np.sum(w * (x - centre) ** 2) - (len(x) - 1)
    between = max(0.0, float(excess / (np.sum(w) - np.sum(w * w) / np.sum(w))))
    w = 1 / (between + variance)
    mean = np.sum(w * x) / np.sum(w)
    return mean + between * w * (x - mean)


def credit(history: Sequence[tuple[int, LearningValue]], now: int, discount: float = DISCOUNT) -> Credit:
    """Add up a mode's Learning Values, older rounds discounted.

    Args:
      history: (round, value) pairs in any order. now: the present round; a value of this round counts in full.

    Raises:
      ValueError: a value from a later round than ``now``.

    Source: Garivier & Moulines 2011, discounted UCB, for mean and count.
    """
    late = [when for when, _ in history if when > now]
    if late:
        raise ValueError(f"a Learning Value of round {late[0]} cannot count in round {now}; pass the rounds up to {now} only")
    weighted = [(discount ** (now - when), v) for when, v in history]
    scenes = sum(w * v.scenes for w, v in weighted)
    mean = sum(w * v.scenes * v.value for w, v in weighted) / scenes if scenes else 0.0
    return Credit(sum(w * v.value for w, v in weighted), mean, scenes)
