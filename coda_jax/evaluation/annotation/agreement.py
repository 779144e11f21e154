"""How far two annotators agree with a run's diagnoses, before and after validation, and with each other (METHOD section 10)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from coda_jax.evaluation.annotation.answers import Answer, Answers
from coda_jax.evaluation.statistics import Interval, cluster_bootstrap, wilson

BEFORE, AFTER, CONFIRMED = "all diagnoses", "refuted ones removed", "confirmed ones"
GROUPS = (BEFORE, AFTER, CONFIRMED)
ASPECTS = ("factor", "phase", "both")
_RESAMPLES, _SEED = 5_000, 0
_ROWS = 100_000  # of labels that are resampled at once
_MOST_UNDEFINED = 0.01  # share of resamples that may be left out: less than half of what either end of the interval cuts off
_ALIKE = 1e-9  # between kappas that differ by rounding alone
Label = tuple[str | None, str | None]  # factor, phase


@dataclasses.dataclass(frozen=True)
class Diagnosed:
    """A diagnosis of the run. verdict: of the last control test of its mode; None where it has no mode or was never tested."""

    episode: int
    factor: str
    phase: str
    verdict: str | None


class Share(NamedTuple):
    """``k`` of ``n`` pairs of a diagnosis and an annotator who was sure agree; the interval resamples diagnoses."""

    k: int
    n: int
    diagnoses: int
    interval: Interval


class Kappa(NamedTuple):
    """Cohen's kappa of the annotators and its 95 % interval, over diagnoses of which both were sure. agree: how many of ``n`` they label
    alike. value: None where chance alone would always agree. low, high: None where resampling cannot tell how sure the value is; why: in
    words then, else ""."""

    agree: int
    n: int
    value: float | None
    low: float | None
    high: float | None
    why: str = ""


@dataclasses.dataclass(frozen=True)
class Agreement:
    """shares: (group, aspect) to how often annotators and diagnoses agree. kappas: aspect to agreement of the annotators. unsure: annotator
    to how many diagnoses he could not tell."""

    shares: Mapping[tuple[str, str], Share]
    kappas: Mapping[str, Kappa]
    unsure: Mapping[str, int]
    answered: int


def agreement(diagnoses: Sequence[Diagnosed], first: Answers, second: Answers) -> Agreement:
    """Compare; diagnoses that nobody answered do not count."""
    said = [{a.episode: a for a in one.answers} for one in (first, second)]
    answered = [d for d in diagnoses if any(d.episode in own for own in said)]
    kept: dict[str, Callable[[Diagnosed], bool]] = {
        BEFORE: lambda d: True,
        AFTER: lambda d: d.verdict != "refuted",
        CONFIRMED: lambda d: d.verdict == "confirmed",
    }
    shares = {(g, aspect): _share([d for d in answered if kept[g](d)], said, aspect) for g in GROUPS for aspect in ASPECTS}
    kappas = {aspect: _kappa(*_paired(said, aspect)) for aspect in ASPECTS}
    unsure = {one.annotator: sum(a.unsure for a in one.answers) for one in (first, second)}
    return Agreement(shares, kappas, unsure, len(answered))


def _seen(label: Label, aspect: str) -> Label:
    factor, phase = label
    return (factor, None) if aspect == "factor" else (None, phase) if aspect == "phase" else label


def _share(diagnoses: Sequence[Diagnosed], said: Sequence[Mapping[int, Answer]], aspect: str) -> Share:
    k, n = [], []
    for d in diagnoses:
        sure = [own[d.episode] for own in said if d.episode in own and not own[d.episode].unsure]
        if sure:
            k.append(sum(_seen((a.factor, a.phase), aspect) == _seen((d.factor, d.phase), aspect) for a in sure))
            n.append(len(sure))
    return Share(sum(k), sum(n), len(k), _interval(k, n))


def _interval(k: Sequence[int], n: Sequence[int]) -> Interval:
    """Of shares ``k`` of ``n``, one for each diagnosis. Where all are equal there is nothing to resample: Wilson's, each diagnosis counted
    once whoever answered, from the whole number of them below the share to the one above."""
    if not k:
        return wilson(0, 0)
    if any(k[0] * total != one * n[0] for one, total in zip(k, n, strict=True)):
        return cluster_bootstrap(k, n)
    below, above = len(k) * k[0] // n[0], -(-len(k) * k[0] // n[0])
    return Interval(wilson(below, len(k)).low, wilson(above, len(k)).high)


def _paired(said: Sequence[Mapping[int, Answer]], aspect: str) -> tuple[list[Label], list[Label]]:
    """What both say of the diagnoses of which both are sure, in order of the episodes."""
    both = sorted(e for e in said[0].keys() & said[1].keys() if not said[0][e].unsure and not said[1][e].unsure)
    one, other = ([_seen((own[e].factor, own[e].phase), aspect) for e in both] for own in said)
    return one, other


def cohens_kappa(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(observed - expected) / (1 - expected) agreement of two raters, chance agreement from each one's own frequencies.

    Args:
      first, second: [..., n] labels as whole numbers from 0. Returns [...], NaN where chance alone always agrees.

    Source: Cohen 1960, "A coefficient of agreement for nominal scales".
    """
    kinds = np.arange(max(int(first.max(initial=0)), int(second.max(initial=0))) + 1)
    observed = (first == second).mean(axis=-1)
    shares = [(labels[..., None] == kinds).mean(axis=-2) for labels in (first, second)]
    expected = (shares[0] * shares[1]).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(expected < 1 - 1e-12, (observed - expected) / (1 - expected), np.nan)


def _kappa(first: Sequence[Label], second: Sequence[Label]) -> Kappa:
    agree, n = sum(a == b for a, b in zip(first, second, strict=True)), len(first)
    if not n:
        return Kappa(0, 0, None, None, None, "there is no failure of which both were sure")
    numbers = {label: i for i, label in enumerate(dict.fromkeys([*first, *second]))}
    a, b = (np.array([numbers[label] for label in labels]) for labels in (first, second))
    value = float(cohens_kappa(a, b))
    if np.isnan(value):
        return Kappa(agree, n, None, None, None, "both gave one and the same answer throughout, as chance alone would")
    rng, at_once = np.random.default_rng(_SEED), max(1, _ROWS // n)
    parts = []
    for first_one in range(0, _RESAMPLES, at_once):
        picks = rng.integers(0, n, (min(at_once, _RESAMPLES - first_one), n))
        parts.append(cohens_kappa(a[picks], b[picks]))
    resampled = np.concatenate(parts)
    undefined = np.isnan(resampled)
    if undefined.mean() > _MOST_UNDEFINED:
        return Kappa(agree, n, value, None, None, f"{100 * undefined.mean():.0f} % of the resamples have no kappa")
    defined = resampled[~undefined]
    if np.ptp(defined) < _ALIKE:
        return Kappa(agree, n, value, None, None, "all resamples give the same")
    low, high = np.quantile(defined, (0.025, 0.975))
    return Kappa(agree, n, value, float(low), float(high))
