"""Scenes under a supervisor: what fails at first is solved by a changed plan, and plain repeats are told apart."""

from __future__ import annotations

from coda_jax import config as settings
from coda_jax.loop import parts
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim.supervision.batch import supervised
from coda_jax.sim.supervision.inspector import ScriptedInspector
from coda_jax.sim.supervision.parameters import FIRST
from coda_jax.sim.supervision.plain import PlainRepeats
from coda_jax.sim.supervision.scene_tries import SceneTries
from coda_jax.sim.supervision.supervisor import ScriptedSupervisor
from coda_jax.sim.supervision.tally import Tally
from tests.sim.supervision.faulty import ALL, TRAIN

FAILS_AT_FIRST, HIGH_IN_THE_JAWS, EASY = 53, 2010, 1  # seeds of training scenes of pick_place


def run(seeds, each, revisions, supervisor=None):
    config = settings.default()
    config.sim.worlds = 4
    specs = [sample_spec(TRAIN, "pick_place", "id", "train", seed) for seed in seeds]
    sim = parts.native_simulator(config, ALL, parts.common_bucket(specs, ALL))
    supervisor = supervisor or ScriptedSupervisor(revisions)
    tries = [SceneTries(spec, each, revisions, ScriptedInspector(ALL), supervisor) for spec in specs]
    found = list(supervised(sim, ALL, tries, parts.planner_of(config), None, 0, parts.horizon_of(config)))
    return tries, sorted(found, key=lambda t: t.episode.key)


def test_a_scene_that_fails_at_first_is_solved_by_a_changed_plan():
    tries, found = run([FAILS_AT_FIRST, EASY], 1, 3)
    assert [t.solved_at for t in tries] == [1, 0]
    first, second, easy = found
    assert not first.success and first.parameters == FIRST and first.revisions == 0
    assert second.success and second.parameters.changes() and second.revisions == 1
    assert easy.success and easy.revisions == 0
    tally = Tally.of(tries)
    assert (tally.scenes, tally.first, tally.solved) == (2, 1, 2)
    assert set(tally.remarks) == set(tries[0].critiques[0].kinds) and tally.failures().startswith("1 at the first try (")
    assert (Tally() + tally + tally).row()["remarks"] == {k: 2 * n for k, n in tally.remarks.items()}


def test_the_same_plan_again_fails_again_and_tries_are_bounded():
    tries, found = run([FAILS_AT_FIRST], 1, 2, PlainRepeats())
    assert [t.success for t in found] == [False] * 3 and tries[0].solved_at is None
    tries, found = run([FAILS_AT_FIRST], 1, 0)
    assert len(found) == 1 and tries[0].solved_at is None


def test_a_plan_that_worked_in_the_scene_is_used_again():
    tries, found = run([FAILS_AT_FIRST], 2, 3)
    assert [t.success for t in found] == [False, False, True, True]
    assert tries[0].parameters[2] == tries[0].parameters[3] != FIRST
    assert tries[0].successes == 2


def test_what_stands_higher_in_the_jaws_than_planned_is_let_go_there():
    tries, found = run([HIGH_IN_THE_JAWS], 1, 1)
    (blocked,) = (r for r in tries[0].critiques[0].remarks if r.kind == "blocked")
    assert [t.success for t in found] == [False, True] and set(found[1].parameters.changes()) == {"drop_m"}
    assert found[1].parameters.drop_m > blocked.amount > 0.01
