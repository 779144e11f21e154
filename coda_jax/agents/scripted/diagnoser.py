"""The scripted diagnoser: it reverts one factor after the other and looks whether the policy then succeeds (METHOD section 8).

It is blind: it sees two scenes and an outcome, never how one was made from the other. Phase: the first phase predicate that was not met.
Factor: the one whose reversion helps most, together with a regression of success on what is measured in all scenes of the round;
EXECUTION where reverting everything fails as often. Evidence: counts of the re-rollouts, steps and margins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.special import betainc

from coda_jax.agents.base import FACTORS, SPEC_FACTOR, Case, Diagnosis, Evidence, Outcome, RolloutFn, SceneFactor, Trial
from coda_jax.agents.scripted import causes
from coda_jax.scenes.edits.lock import edited_factors, reverted
from coda_jax.scenes.edits.room import trouble
from coda_jax.scenes.spec import SceneSpec

_GRID = 2_000
AS_IT_IS, EVERYTHING = "as it is", "everything"


@dataclasses.dataclass(frozen=True)
class DiagnoserSettings:
    """rerollouts: of each arm. least_gain: success that reverting must bring, and sure: probability with which it must bring any, else the
    failure is EXECUTION. regression_weight: how much the regression's shares count beside the re-rollouts (0: not at all)."""

    rerollouts: int
    least_gain: float
    sure: float
    regression_weight: float


def arms_of(case: Case) -> dict[str, SceneSpec]:
    """The scene as it is, with each differing factor reverted, and with all of them.

    Left out: arms that would repeat another, and mixtures that are no fair task (the goal may hold at the start, things may overlap):
    what the policy does there says nothing about the factor.
    """
    changed = edited_factors(case.base, case.spec)
    arms = {AS_IT_IS: case.spec}
    differing: list[SceneFactor] = [f for f in FACTORS if SPEC_FACTOR[f] in changed]
    if not differing:
        return arms
    if len(differing) > 1:  # with one, reverting it reverts everything
        for factor in differing:
            mixture = reverted(case.spec, case.base, SPEC_FACTOR[factor])
            if trouble(mixture) is None:
                arms[factor] = mixture
    arms[EVERYTHING] = case.base
    return arms


def rate(k: int, n: int) -> float:
    """Posterior mean of a success rate under Jeffreys' prior: few rollouts never say 0 or 1."""
    return (k + 0.5) / (n + 1.0)


def surely_better(better: tuple[int, int], worse: tuple[int, int]) -> float:
    """P(p > q) after (k, n) successes of each, p and q independent under Jeffreys' prior; by the midpoint rule, good to 1e-3."""
    x = (np.arange(_GRID) + 0.5) / _GRID
    (k, n), (j, m) = better, worse
    density = np.exp((k - 0.5) * np.log(x) + (n - k - 0.5) * np.log1p(-x))
    return float(np.sum(density * betainc(j + 0.5, m - j + 0.5, x)) / np.sum(density))


class ScriptedDiagnoser:
    """Diagnoser Protocol, deterministic, no network."""

    def __init__(self, settings: DiagnoserSettings):
        self._settings = settings

    def diagnose(self, failures: Sequence[Case], round_cases: Sequence[Case], rollout_fn: RolloutFn) -> list[Diagnosis]:
        """One diagnosis per failure, in order. Costs at most 5 ``rerollouts`` each, all rolled out in one batch."""
        arms = [arms_of(case) for case in failures]
        trials, owners = [], []
        for number, (case, own) in enumerate(zip(failures, arms, strict=True)):
            scene, repeat = case.outcome.trial.key
            for arm, spec in own.items():
                for i in range(self._settings.rerollouts):
                    # every arm has the same noise; none has that of the failure itself, which was chosen because it failed
                    trials.append(Trial(spec, (scene, repeat + 1 + i)))
                    owners.append((number, arm))
        counts: list[dict[str, tuple[int, int]]] = [dict.fromkeys(own, (0, 0)) for own in arms]
        for (number, arm), outcome in zip(owners, rollout_fn(trials), strict=True):
            if not outcome.health:
                k, n = counts[number][arm]
                counts[number][arm] = (k + outcome.success, n + 1)
        model = causes.fit(round_cases)
        return [self._judge(case, own, model) for case, own in zip(failures, counts, strict=True)]

    def _judge(self, case: Case, counts: dict[str, tuple[int, int]], model: causes.Model) -> Diagnosis:
        shares = model.shares(case)
        evidence = Evidence(counts, {str(f): share for f, share in shares.items()}, case.outcome.margins)
        phase = _phase(case.outcome)
        now = rate(*counts[AS_IT_IS])
        gains = {arm: rate(*c) - now for arm, c in counts.items() if arm != AS_IT_IS}
        everything = max(gains.get(EVERYTHING, 0.0), 0.0)
        chances = {arm: surely_better(counts[arm], counts[AS_IT_IS]) for arm in gains}
        helping = [arm for arm in gains if gains[arm] >= self._settings.least_gain and chances[arm] >= self._settings.sure]
        if not helping:
            return Diagnosis("EXECUTION", phase, "", 1.0 - max(chances.values(), default=0.0), evidence)
        differing: list[SceneFactor] = [f for f in FACTORS if SPEC_FACTOR[f] in edited_factors(case.base, case.spec)]
        # a factor without an arm of its own gets what reverting everything brings beyond the best arm
        rest = max(0.0, everything - max((gains[f] for f in differing if f in gains), default=0.0))
        scores = {f: max(gains.get(f, rest), 0.0) + self._settings.regression_weight * everything * shares.get(f, 0.0) for f in differing}
        chosen: SceneFactor = max(differing, key=lambda f: scores[f])  # ties: the order of FACTORS
        total = sum(scores.values())
        return Diagnosis(chosen, phase, model.cause(case, chosen), scores[chosen] / total if total > 0 else 0.0, evidence)


def _phase(outcome: Outcome) -> str:
    if outcome.phase is None:
        raise ValueError(f"scene {outcome.trial.spec.scene_id}, key {outcome.trial.key}: a success has nothing to diagnose")
    return outcome.phase
