"""Which failures and environments a round shows."""

import numpy as np
import pytest

from coda_jax.agents.base import Case, Diagnosis, Evidence, Measured, Outcome, Trial
from coda_jax.loop.rounds import evidence
from coda_jax.loop.rounds.evidence import Finding
from coda_jax.loop.rounds.proposals import Proposal
from coda_jax.loop.rounds.variants import Base, Made
from coda_jax.memory.rows import Mode, mode_id_of
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families import margins
from coda_jax.scenes.generate import sample_spec

SPECS = [sample_spec(Catalogue("train"), "pick_place", "id", "train", seed) for seed in range(3)]


def outcome(spec, repeat=0, success=False, phase: str | None = "grasp", measured=None, health=0):
    phase = None if success else phase
    return Outcome(Trial(spec, (5, repeat)), success, 40, phase, measured or {}, health, np.zeros((40, 7), np.float32))


def finding(episode, mode, confidence=0.5):
    case = Case(SPECS[0], outcome(SPECS[1]))
    return Finding(episode, mode, case, Diagnosis("SPATIAL", "grasp", "", confidence, Evidence({}, {}, {})))


def test_the_commonest_modes_show_their_surest_failure():
    found = [finding(1, "b"), finding(2, None), finding(3, "a", 0.4), finding(4, "a", 0.9), finding(5, "a", 0.9), finding(6, "c")]
    assert [f.episode_id for f in evidence.chosen(found, 2)] == [4, 1]
    assert [f.episode_id for f in evidence.chosen(found, 9)] == [4, 1, 6]
    assert evidence.chosen(found, 0) == [] and evidence.chosen([finding(1, None)], 3) == []


def test_the_success_beside_a_failure_is_of_its_base_with_the_same_noise():
    failed = Case(SPECS[0], outcome(SPECS[1], repeat=1))
    others = [outcome(SPECS[0], 0, True), outcome(SPECS[0], 1, True), outcome(SPECS[2], 1, True), outcome(SPECS[1], 0, True)]
    cases = [Case(SPECS[0], o) for o in others]
    assert evidence.base_success(cases, failed) is others[1]
    assert evidence.base_success([cases[0], *cases[2:]], failed) is others[0]
    broken = [Case(SPECS[0], outcome(SPECS[0], 1, True, health=1)), Case(SPECS[0], outcome(SPECS[0], 1))]
    assert evidence.base_success([*broken, *cases[2:]], failed) is None


@pytest.mark.parametrize("phase", ["approach", "grasp", "transport"])
def test_the_margin_of_the_failed_phase_is_shown_unless_it_was_reached(phase):
    margin = next(m for m in margins(SPECS[0]) if m.phase == phase)
    worse = margin.threshold + (0.1 if margin.best == "smallest" else -0.1)
    far, near = (Measured(value, 12, margin.threshold, margin.unit) for value in (worse, margin.threshold))
    assert evidence.missed_margin(outcome(SPECS[0], phase=phase, measured={margin.name: far})) == [
        margin.name,
        worse,
        12,
        margin.threshold,
        margin.unit,
    ]
    assert evidence.missed_margin(outcome(SPECS[0], phase=phase, measured={margin.name: near})) is None
    assert evidence.missed_margin(outcome(SPECS[0], phase=phase)) is None


def test_environments_of_all_modes_are_pictured_before_second_ones():
    def proposal(cause):
        if cause is None:
            return Proposal(Made(Base(0, SPECS[0]), SPECS[1], (), None), "novelty")
        key = ("pick_place", "SPATIAL", "grasp", cause)
        mode = Mode(mode_id_of(*key), 1, "pick_place", "SPATIAL", "grasp", cause, None, 0.0, "new", 1)
        return Proposal(Made(Base(0, SPECS[0]), SPECS[1], (("mass", 0.5),), "attributes"), "targeted", mode)

    offered = [proposal("a"), proposal("a"), proposal(None), proposal("b"), proposal("a")]
    assert evidence.pictured(offered, 3) == [offered[0], offered[3], offered[1]]
    assert evidence.pictured(offered, 9) == [offered[0], offered[3], offered[1], offered[4]]
    assert evidence.pictured(offered, 0) == []
