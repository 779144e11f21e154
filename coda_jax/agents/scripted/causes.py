"""What of a factor makes a scene hard: measured quantities of the scenes of a round, and a regression of success on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from coda_jax.agents.base import SPEC_FACTOR, Case, SceneFactor
from coda_jax.agents.scripted.regression import drop_shares
from coda_jax.scenes.families import Goal, read_goals
from coda_jax.scenes.measures import MEASURES, measure
from coda_jax.scenes.spec import SceneSpec

LEAST_SCENES = 12  # fewer say nothing that the re-rollouts do not
OTHER = "other"  # a factor that differs in nothing that is measured
_NAMES = tuple(MEASURES)
_GROUPS = [MEASURES[name].factor for name in _NAMES]
_SPREAD = 1e-9


def task_cause(base: SceneSpec, spec: SceneSpec) -> str:
    """Which part of the task differs: one thing more, the order, the target, the goal (relation or reference), a number in it, or only the
    wording."""
    before, after = read_goals(base), read_goals(spec)
    if len(after) > len(before) and after[: len(before)] == before:
        return "subgoal"
    if before != after and len(before) == len(after) > 1 and _things(before) == _things(after):
        return "order"
    if before[0].target != after[0].target:
        return "target"
    if before != after:
        return "goal"
    if base.task.goal != spec.task.goal:
        return "tolerance"
    return "wording"


def _things(goals: Sequence[Goal]) -> frozenset[str]:
    return frozenset(n for g in goals for n in (g.target, g.reference))


@dataclasses.dataclass(frozen=True)
class Model:
    """spread: [f] standard deviation of each measure over the round.

    explained: scene id to each factor's share of the drop of the logit between its base and itself; empty where there were too few
    scenes, or only one outcome.
    """

    spread: np.ndarray
    explained: Mapping[str, Mapping[str, float]]

    def shares(self, case: Case) -> dict[SceneFactor, float]:
        """Factor to its share, in [0, 1]; zeros where the regression says nothing."""
        found = self.explained.get(case.spec.scene_id, {})
        return {factor: found.get(field, 0.0) for factor, field in SPEC_FACTOR.items()}

    def cause(self, case: Case, factor: SceneFactor) -> str:
        """What of the factor differs most between the base and the scene, in units of the round's spread: "approach_gap_m:low"."""
        if factor == "TASK":
            return task_cause(case.base, case.spec)
        change = _row(case.spec) - _row(case.base)
        own = np.array([g == SPEC_FACTOR[factor] for g in _GROUPS]) & (self.spread > _SPREAD)
        moved = np.where(own, change / np.where(self.spread > _SPREAD, self.spread, 1.0), 0.0)
        largest = int(np.abs(moved).argmax())  # ties: the order of MEASURES
        if not abs(moved[largest]) > 0:
            return OTHER
        return f"{_NAMES[largest]}:{'high' if moved[largest] > 0 else 'low'}"


def fit(cases: Sequence[Case]) -> Model:
    """Measure the round's scenes and explain success by the measures, grouped by factor; rollouts of one scene are one row."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        if not case.outcome.health:
            groups.setdefault(case.spec.scene_id, []).append(case)
    measured: dict[str, np.ndarray] = {}
    for same in groups.values():
        for spec in (same[0].spec, same[0].base):
            measured.setdefault(spec.scene_id, _row(spec))
    spread = np.std(list(measured.values()), axis=0) if measured else np.zeros(len(_NAMES))
    k = np.array([sum(c.outcome.success for c in same) for same in groups.values()])
    trials = np.array([len(same) for same in groups.values()])
    explained: dict[str, dict[str, float]] = {}
    if len(groups) >= LEAST_SCENES and 0 < k.sum() < trials.sum():
        features = np.array([measured[scene] for scene in groups])
        reference = np.array([measured[same[0].base.scene_id] for same in groups.values()])
        shares = drop_shares(features, _GROUPS, k, trials, reference)
        explained = {scene: {factor: float(own[i]) for factor, own in shares.items()} for i, scene in enumerate(groups)}
    return Model(spread, explained)


def _row(spec: SceneSpec) -> np.ndarray:
    found = measure(spec)
    return np.array([found[name] for name in _NAMES])
