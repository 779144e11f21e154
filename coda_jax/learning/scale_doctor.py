"""Are the scales right? Measured numbers in, warnings in words out: each says what is wrong and which setting to change.

Training that is badly scaled does not fail, it does nothing: weights that are all alike clone, a temperature that is too high chooses at
random, a success that is discounted below a bin's width is not seen. No number here is learned from; every function is pure.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from coda_jax.types import Array


@dataclasses.dataclass(frozen=True)
class Limits:
    """Where a scale counts as wrong, in the units of ``Measured``; stated here only."""

    ess_low: float = 0.1
    ess_high: float = 0.95
    weight_share: float = 0.2
    clipped: float = 0.02
    at_ends: float = 0.2
    edge_mass: float = 0.05
    start_widths: float = 2.0
    candidate_share: float = 0.9
    ucb_low: float = 0.2
    ucb_high: float = 20.0
    clip_share: float = 0.95
    gradient_growth: float = 10.0
    gradient_least: float = 1e-6
    drift: float = 1.0


LIMITS = Limits()


@dataclasses.dataclass(frozen=True)
class Measured:
    """What was measured; None where it was not. The functions below make these numbers from arrays.

    ess: (sum w)^2 / (n sum w^2) of the AWR weights. weight_share: exp(entropy of w / sum w) / n. clipped: share of critic targets outside
    the support. at_ends: share of targets within half a bin of its ends, after clipping. edge_mass: mean probability in the two edge bins.
    start_widths: discounted value of a success at the start of an episode of the horizon, in widths of a bin. candidates: J.
    effective_candidates: mean of 1 / sum w_j^2. ucb: range of the modes' rescaled values over their mean exploration term. *_clip_share:
    share of updates whose gradient was clipped. *_growth: median norm of the last tenth of updates over that of the first. *_gradient:
    median norm. drift: as ``drift_scales``.
    """

    ess: float | None = None
    weight_share: float | None = None
    clipped: float | None = None
    at_ends: float | None = None
    edge_mass: float | None = None
    start_widths: float | None = None
    candidates: int | None = None
    effective_candidates: float | None = None
    ucb: float | None = None
    critic_clip_share: float | None = None
    critic_growth: float | None = None
    critic_gradient: float | None = None
    policy_clip_share: float | None = None
    policy_growth: float | None = None
    policy_gradient: float | None = None
    drift: float | None = None

    def numbers(self) -> dict[str, float]:
        """What was measured, by name."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    @property
    def candidate_share(self) -> float | None:
        """Effective candidates over candidates; None where there is no choice."""
        if self.effective_candidates is None or self.candidates is None or self.candidates < 2:
            return None
        return self.effective_candidates / self.candidates


@dataclasses.dataclass(frozen=True)
class ScaleWarning:
    """A scale that is wrong. value: measured. limit: the one it is beyond. text: a sentence. setting: path in the configuration."""

    name: str
    value: float
    limit: float
    text: str
    setting: str


@dataclasses.dataclass(frozen=True)
class Rule:
    """``measure`` (of ``Measured``) must not lie above or below the limit of that name.

    text: with fields value, limit, and everything measured. change: what to do. setting: where.
    """

    name: str
    measure: str
    side: str
    limit: str
    text: str
    change: str
    setting: str

    def broken(self, value: float, limits: Limits) -> bool:
        limit = getattr(limits, self.limit)
        return value > limit if self.side == "above" else value < limit


def _gradient_rules(part: str, section: str, rate: str) -> tuple[Rule, ...]:
    return (
        Rule(
            f"{part}_always_clipped",
            f"{part}_clip_share",
            "above",
            "clip_share",
            f"{{value:.1%}} of the {part}'s updates have their gradient clipped, so that every one is of the same length",
            "raise it to the usual norm, or lower the loss's weight",
            f"{section}.clip_norm",
        ),
        Rule(
            f"{part}_gradient_explodes",
            f"{part}_growth",
            "above",
            "gradient_growth",
            f"the {part}'s gradient grew {{value:.3g}}-fold from the first updates to the last",
            "lower it",
            rate,
        ),
        Rule(
            f"{part}_gradient_vanishes",
            f"{part}_gradient",
            "below",
            "gradient_least",
            f"the {part}'s gradient is {{value:.2g}}: nothing is learned",
            "look for a loss that is constant, then raise it",
            rate,
        ),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "weights_flat",
        "ess",
        "above",
        "ess_high",
        "ESS is {value:.3f} of n: AWR is plain cloning",
        "lower it, or set awr.advantage_unit to std",
        "awr.temperature",
    ),
    Rule(
        "weights_few",
        "ess",
        "below",
        "ess_low",
        "ESS is {value:.3f} of n: a few decisions carry the whole update",
        "raise it, or lower awr.most_weight",
        "awr.temperature",
    ),
    Rule(
        "weights_low_entropy",
        "weight_share",
        "below",
        "weight_share",
        "by their entropy the AWR weights are spread over {value:.3f} of the decisions",
        "raise it, or give demonstrations a larger part of awr.shares",
        "awr.temperature",
    ),
    Rule(
        "targets_clipped",
        "clipped",
        "above",
        "clipped",
        "{value:.1%} of the critic's targets lie outside the support and are clipped: clipping is no shift, so the argmax may change",
        "lower it, or potential.dense_weight where rewards are dense",
        "critic.beta",
    ),
    Rule(
        "targets_at_ends",
        "at_ends",
        "above",
        "at_ends",
        "{value:.1%} of the critic's targets lie in the bins at the support's ends, where they cannot be told apart",
        "lower it, or potential.stages",
        "critic.beta",
    ),
    Rule(
        "edge_bias",
        "edge_mass",
        "above",
        "edge_mass",
        "the critic puts {value:.3f} of its probability into the two edge bins: decoded values are drawn inwards",
        "lower it, or raise critic.steps",
        "critic.beta",
    ),
    Rule(
        "success_invisible",
        "start_widths",
        "below",
        "start_widths",
        "seen from the start, a success at the horizon is worth {value:.2f} bin widths: too little to be told from nothing",
        "set it to chunk, or raise critic.gamma",
        "critic.gamma_unit",
    ),
    Rule(
        "temperature_flat",
        "candidate_share",
        "above",
        "candidate_share",
        "{effective_candidates:.2f} of {candidates} candidates stay effective: the choice is nearly random, and averaging shrinks the "
        "executed spread {shrink:.1f}-fold",
        "set it to std, or lower actor.temperature; candidates that differ by less than actor.least_sd count as equal",
        "actor.temperature_unit",
    ),
    Rule(
        "exploration_dominates",
        "ucb",
        "below",
        "ucb_low",
        "the values of the modes span {value:.3g} of the exploration term: Learning Value hardly decides which mode is practised",
        "lower it, or raise rounds.rollouts, which Learning Values are measured on",
        "allocation.ucb",
    ),
    Rule(
        "exploration_absent",
        "ucb",
        "above",
        "ucb_high",
        "the values of the modes span {value:.3g} times the exploration term: modes that were tried little stay so",
        "raise it",
        "allocation.ucb",
    ),
    *_gradient_rules("critic", "critic", "critic.learning_rate"),
    *_gradient_rules("policy", "clone", "rounds.learning_rate"),
    Rule(
        "far_from_clone",
        "drift",
        "above",
        "drift",
        "the policy's chunks differ from the clone's {value:.2f} times as much as the clone's differ between decisions",
        "lower it, or raise awr.drift_weight",
        "rounds.learning_rate",
    ),
)


def examine(measured: Measured, limits: Limits = LIMITS) -> list[ScaleWarning]:
    """What is wrong with the scales that were measured, in the order of ``RULES``; a value that is not a number is wrong once."""
    found: list[ScaleWarning] = []
    unknown: set[str] = set()
    for rule in RULES:
        value, limit = getattr(measured, rule.measure), getattr(limits, rule.limit)
        if value is None or rule.measure in unknown:
            continue
        if math.isnan(value):
            unknown.add(rule.measure)
            found.append(ScaleWarning(f"{rule.measure}_not_a_number", value, limit, f"{rule.measure} is not a number", rule.setting))
        elif rule.broken(value, limits):
            shrink = math.sqrt(measured.effective_candidates or 1.0)
            said = rule.text.format(**measured.numbers() | {"value": value, "limit": limit, "shrink": shrink})
            text = f"{said} ({rule.side} {limit:g}); config.{rule.setting}: {rule.change}"
            found.append(ScaleWarning(rule.name, float(value), limit, text, rule.setting))
    return found


def healthy(measure: str, limits: Limits = LIMITS) -> str:
    """The range in which nothing is said about a measure: "0.1 .. 0.95", "at most 0.02"; "" for what has no rule."""
    bounds = {rule.side: getattr(limits, rule.limit) for rule in RULES if rule.measure == measure}
    low, high = bounds.get("below"), bounds.get("above")
    if low is not None and high is not None:
        return f"{low:g} .. {high:g}"
    return f"at least {low:g}" if low is not None else f"at most {high:g}" if high is not None else ""


def joined(parts: Iterable[Measured]) -> Measured:
    """One record of what several places measured; later ones replace earlier ones."""
    found: dict[str, float] = {}
    for part in parts:
        found |= part.numbers()
    return Measured(**found)  # type: ignore[arg-type]


def weight_scales(weights: Array) -> Measured:
    """ESS and entropy of the AWR weights [n] of policy transitions. NaN where all are 0 or one is not finite."""
    w = np.asarray(weights, np.float64).ravel()
    total = w.sum()
    if not np.isfinite(total) or total <= 0:
        return Measured(ess=math.nan, weight_share=math.nan)
    p = w / total
    entropy = -(p[p > 0] * np.log(p[p > 0])).sum()
    return Measured(ess=float(1 / (w.size * (p * p).sum())), weight_share=float(np.exp(entropy) / w.size))


def target_scales(targets: Array, low: float, high: float, width: float) -> Measured:
    """How far critic targets [...], before clipping to [low, high], use up the support; ``width`` of a bin."""
    y = np.asarray(targets, np.float64).ravel()
    if not np.isfinite(y).all() or not y.size:
        return Measured(clipped=math.nan, at_ends=math.nan)
    tolerance = 1e-4 * width  # targets of exactly 1 are computed in float32
    outside = (y < low - tolerance) | (y > high + tolerance)
    ends = np.minimum(y - low, high - y) < width / 2
    return Measured(clipped=float(outside.mean()), at_ends=float(ends.mean()))


def edge_scales(probabilities: Array) -> Measured:
    """Mean mass in the first and the last bin of the critic's distributions [..., v]."""
    p = np.asarray(probabilities, np.float64)
    return Measured(edge_mass=float((p[..., 0] + p[..., -1]).mean()))


def discount_scales(gamma: float, unit: str, horizon: int, executed: int, width: float) -> Measured:
    """What a success after ``horizon`` control steps is worth at the start, in widths of a bin.

    gamma is per control step (unit "step") or per decision of ``executed`` steps ("chunk").

    Raises:
      ValueError: another unit.
    """
    if unit not in ("step", "chunk"):
        raise ValueError(f'the unit of gamma is "{unit}"; it must be "step" or "chunk"')
    power = horizon if unit == "step" else math.ceil(horizon / executed)
    return Measured(start_widths=gamma**power / width)


def candidate_scales(weights: Array) -> Measured:
    """How many of the candidates the actor's weights [..., j], which sum to 1, leave effective."""
    w = np.asarray(weights, np.float64)
    return Measured(candidates=w.shape[-1], effective_candidates=float((1 / np.square(w).sum(-1)).mean()))


def gradient_scales(part: str, norms: Array, clip_norm: float) -> Measured:
    """Gradient norms [k] of successive updates before clipping; ``part`` is "critic" or "policy"."""
    g = np.asarray(norms, np.float64).ravel()
    if not np.isfinite(g).all() or not g.size:
        return Measured(**{f"{part}_growth": math.nan})  # type: ignore[arg-type]
    tenth = max(1, g.size // 10)
    first, last = np.median(g[:tenth]), np.median(g[-tenth:])
    found = {"clip_share": (g > clip_norm).mean(), "growth": last / first if first > 0 else 1.0, "gradient": np.median(g)}
    return Measured(**{f"{part}_{name}": float(value) for name, value in found.items()})  # type: ignore[arg-type]


def drift_scales(chunks: Array, clone_chunks: Array) -> Measured:
    """Distance of the policy's chunks [n, h, a] from the clone's on the same observations and noise, as root mean square, over the
    standard deviation of the clone's between the n decisions."""
    now, clone = np.asarray(chunks, np.float64), np.asarray(clone_chunks, np.float64)
    spread = np.sqrt(np.square(clone - clone.mean(0)).mean())
    return Measured(drift=float(np.sqrt(np.square(now - clone).mean()) / max(spread, 1e-12)))
