"""The diagnoser against worlds whose laws are known: success is decided by a measured quantity of the scene."""

import zlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from coda_jax.agents.base import Case, Measured, Outcome, Trial
from coda_jax.agents.scripted.diagnoser import AS_IT_IS, EVERYTHING, DiagnoserSettings, ScriptedDiagnoser, arms_of, surely_better
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.edits.lock import edited_factors
from coda_jax.scenes.edits.room import trouble
from coda_jax.scenes.edits.verbs import applicable, apply_edit
from coda_jax.scenes.generate import sample_spec
from coda_jax.scenes.measures import measure
from coda_jax.scenes.spec import SceneSpec

TRAIN = Catalogue("train")
SETTINGS = DiagnoserSettings(rerollouts=8, least_gain=0.2, sure=0.9, regression_weight=0.5)


def world(chance: Callable[[SceneSpec], float]):
    """A rollout_fn in which a trial succeeds with the chance that its scene gives, by a coin that its key throws."""

    def roll_out(trials: Sequence[Trial]) -> list[Outcome]:
        return [outcome(t, zlib.crc32(repr(t.key).encode()) / 2**32 < chance(t.spec)) for t in trials]

    return roll_out


def outcome(trial: Trial, success: bool) -> Outcome:
    margins = {"gripper_to_target": Measured(0.05, 12, 0.03, "m")}
    return Outcome(trial, success, 40, None if success else "grasp", margins, 0, np.zeros((1, 7), np.float32))


def edited(spec: SceneSpec, *edits: tuple[str, float]) -> SceneSpec | None:
    for verb, magnitude in edits:
        bound = applicable(spec, verb, TRAIN, magnitude)
        if bound is None:
            return None
        spec = apply_edit(spec, verb, bound, magnitude, 0, TRAIN)
    return spec


@pytest.fixture(scope="module")
def scenes():
    """Base scenes with a variant of a heavy target that also stands elsewhere and is asked for in other words."""
    found = []
    for seed in range(120):  # most things are light, and stay below what counts as heavy
        base = sample_spec(TRAIN, "pick_place", "id", "train", seed)
        made = edited(base, ("paraphrase", 0.3), ("reach", 0.4), ("mass", 0.9))
        if made is not None and len(edited_factors(base, made)) == 3 and heavy(made) < heavy(base):
            found.append((base, made))
    return found[:12]


def diagnosed(scenes, chance):
    roll_out = world(chance)
    outcomes = roll_out([Trial(spec, (i, 0)) for i, (_, spec) in enumerate(scenes)])
    cases = [Case(base, o) for (base, _), o in zip(scenes, outcomes, strict=True)]
    failures = [c for c in cases if not c.outcome.success]
    return failures, ScriptedDiagnoser(SETTINGS).diagnose(failures, cases, roll_out)


def heavy(spec: SceneSpec) -> float:
    return 0.05 if measure(spec)["target_mass_kg"] > 0.25 else 0.95


def test_the_factor_and_the_cause_that_matter_are_named(scenes):
    failures, diagnoses = diagnosed(scenes, heavy)
    assert len(failures) >= 8
    assert {d.factor for d in diagnoses} == {"ATTRIBUTE"}
    assert {d.cause for d in diagnoses} == {"target_mass_kg:high"}
    assert {d.phase for d in diagnoses} == {"grasp"}
    evidence = diagnoses[0].evidence
    assert evidence.margins["gripper_to_target"].step == 12
    assert set(evidence.rollouts) == {AS_IT_IS, "TASK", "SPATIAL", "ATTRIBUTE", EVERYTHING}
    assert all(n == SETTINGS.rerollouts for _, n in evidence.rollouts.values())


def test_a_failure_that_nothing_cures_is_execution(scenes):
    _, diagnoses = diagnosed(scenes, lambda spec: 0.05)
    assert {d.factor for d in diagnoses} == {"EXECUTION"}
    assert {d.cause for d in diagnoses} == {""}


def test_places_are_told_from_words(scenes):
    far = {base.scene_id: measure(base)["reach_margin_m"] for base, _ in scenes}
    least = float(np.median(list(far.values()))) / 2
    _, diagnoses = diagnosed(scenes, lambda spec: 0.05 if measure(spec)["reach_margin_m"] < least else 0.95)
    named = [d.factor for d in diagnoses]
    assert named.count("SPATIAL") >= 0.8 * len(named) > 0


def test_an_unchanged_factor_is_not_rolled_out_again(scenes):
    base, _ = scenes[0]
    made = edited(base, ("mass", 0.9))
    assert made is not None
    arms = arms_of(Case(base, outcome(Trial(made, (0, 0)), False)))
    assert set(arms) == {AS_IT_IS, EVERYTHING}
    assert arms[EVERYTHING] == base


@pytest.mark.parametrize(
    ("better", "worse", "low", "high"), [((8, 8), (0, 8), 0.999, 1.0), ((4, 8), (4, 8), 0.499, 0.501), ((6, 8), (2, 8), 0.96, 0.99)]
)
def test_the_chance_that_one_rate_is_higher(better, worse, low, high):
    assert low <= surely_better(better, worse) <= high
    assert surely_better(better, worse) + surely_better(worse, better) == pytest.approx(1.0, abs=2e-3)


def test_a_mixture_that_is_no_fair_task_is_no_arm(scenes):
    """Reverting the task of a scene whose target was moved next to the old goal would make it succeed at the start."""
    fair = 0
    for base, _ in scenes:
        made = edited(base, ("goal_swap", 1.0), ("reach", 1.0), ("size", 0.5))
        if made is None:
            continue
        case = Case(base, outcome(Trial(made, (0, 0)), False))
        for arm, spec in arms_of(case).items():
            if arm not in (AS_IT_IS, EVERYTHING):
                assert trouble(spec) is None
                fair += 1
    assert fair > 0


def test_the_same_failures_give_the_same_diagnoses(scenes):
    first, second = diagnosed(scenes, heavy)[1], diagnosed(scenes, heavy)[1]
    assert [(d.factor, d.cause, d.confidence) for d in first] == [(d.factor, d.cause, d.confidence) for d in second]


def test_a_success_cannot_be_diagnosed(scenes):
    base, made = scenes[0]
    case = Case(base, outcome(Trial(made, (0, 0)), True))
    with pytest.raises(ValueError, match="nothing to diagnose"):
        ScriptedDiagnoser(SETTINGS).diagnose([case], [case], world(heavy))
