"""The scripted engine names the verb that moves what was diagnosed, writes programs that pass the door, and mends by little."""

import inspect

import pytest

from coda_jax.agents.base import DIAGNOSED, DataEngine, Difficulty
from coda_jax.agents.scripted import engine
from coda_jax.agents.scripted.repair import repair
from coda_jax.memory.causes import canonical
from coda_jax.programs.limits import Limits
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.edits.lock import edited_factors
from coda_jax.scenes.edits.verbs import VERBS
from coda_jax.scenes.families import read_goals
from coda_jax.scenes.fixes import Fix
from coda_jax.scenes.generate import sample_spec
from coda_jax.scenes.generation import evaluate_generation
from coda_jax.scenes.lifting import bind, generate
from coda_jax.scenes.spec import FACTORS
from coda_jax.sim.checks.record import Failure

TRAIN = Catalogue("train")


@pytest.fixture(scope="module")
def bases():
    return [sample_spec(TRAIN, "pick_place", "id", "train", seed) for seed in range(8)]


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(Limits(64 * 1024, 2.0, 1.0, 64 * 2**20, 200, 10_000, 200_000)) as opened:
        yield opened


@pytest.mark.parametrize("name", [n for n, v in VERBS.items() if v.measure and v.factor != "task"])  # tasks: by part, below
def test_a_verb_is_found_by_the_quantity_that_it_moves(name, bases):
    verb = VERBS[name]
    if verb.families:
        bases = [sample_spec(TRAIN, family, "id", "train", seed) for family in sorted(verb.families) for seed in range(6)]
    cause = f"{verb.measure}:{'high' if verb.rises else 'low'}"
    for said in (cause, canonical(cause)):
        found = engine.verbs_for(Difficulty(DIAGNOSED[verb.factor], "grasp", said), bases, TRAIN)
        assert name in found[:3]
        assert {VERBS[f].factor for f in found} == {verb.factor}


@pytest.mark.parametrize(("cause", "verb"), sorted(engine.TASK_VERBS.items()))
def test_task_causes_have_their_verbs(cause, verb, bases):
    if VERBS[verb].families:
        assert engine.verbs_for(Difficulty("TASK", "place", cause), bases, TRAIN) != [verb]  # these bases have no such part
        bases = [sample_spec(TRAIN, family, "id", "train", 0) for family in VERBS[verb].families]
    assert engine.verbs_for(Difficulty("TASK", "place", cause), bases, TRAIN) == [verb]


def test_an_unknown_cause_gets_every_verb_of_its_factor(bases):
    found = engine.verbs_for(Difficulty("SPATIAL", "grasp", "other"), bases, TRAIN)
    assert found == [n for n, v in VERBS.items() if v.factor == "spatial" and not v.families]


@pytest.mark.parametrize("name", VERBS)
def test_what_is_written_passes_the_door(name, sandbox):
    text = engine.write(Difficulty(DIAGNOSED[VERBS[name].factor], "grasp", "other"), name, 0.25, {})
    program = evaluate_generation(text, sandbox, TRAIN)
    assert (program.factor, program.level, program.edits[0].verb) == (VERBS[name].factor, 0.25, name)


def test_priors_lower_the_highest_magnitude():
    known = {("mass", 0.5): (9, 10), ("mass", 0.75): (5, 10), ("mass", 1.0): (1, 10), ("yaw", 1.0): (1, 3)}
    assert engine.highest("mass", known) == 0.75
    assert engine.highest("yaw", known) == 1.0  # three constructions say nothing
    assert engine.highest("size", {}) == 1.0


def test_a_failure_without_a_change_is_left(bases):
    assert repair(bases[0], [Failure("settle", bases[0].object_ids[0], "", 0.1, "m", "")], FACTORS) is None


def test_of_two_changes_the_one_that_leaves_a_fair_task_is_made(bases):
    spec = bases[0]
    target, reference = read_goals(spec)[0].target, read_goals(spec)[0].reference
    into = tuple(r - t for r, t in zip(spec.placement(reference).pos_m[:2], spec.placement(target).pos_m[:2], strict=True))
    offered = (Fix(target, "pos_m", (*into, 0.0)), Fix(target, "yaw_rad", spec.placement(target).yaw_rad + 1e-3))
    failure = Failure("reach", target, reference, 0.01, "m", "", offered)
    found = repair(spec, [failure], ("spatial",))
    assert found is not None and [c.fix for c in found[1]] == [offered[1]]
    assert repair(spec, [failure], ("task", "attributes")) is None


def test_the_scripted_engine_is_a_data_engine(bases, sandbox):
    scripted: DataEngine = engine.ScriptedEngine(TRAIN)
    for name in ("propose", "repair"):
        asked = inspect.signature(getattr(DataEngine, name))
        assert str(inspect.signature(getattr(engine.ScriptedEngine, name))) == str(asked)
    difficulty = Difficulty("ATTRIBUTE", "transport", "target_mass_kg:high")
    texts = scripted.propose(difficulty, bases, {("mass", 1.0): (0, 8)})
    programs = [evaluate_generation(text, sandbox, TRAIN) for text in texts]
    assert [p.edits[0].verb for p in programs] == engine.verbs_for(difficulty, bases, TRAIN)
    assert programs[0].edits[0].verb == "mass" and programs[0].edits[0].high == 0.5  # the priors were heard
    failure = Failure("table", bases[0].object_ids[0], "table", 0.01, "m", "", (Fix(bases[0].object_ids[0], "pos_m", (0.0, 0.0, 0.01)),))
    mended = scripted.repair(bases[0], [failure], FACTORS)
    assert mended is not None and mended[0] != bases[0] and mended[1][0].fix == failure.fixes[0]


@pytest.mark.parametrize("family", sorted({f for v in VERBS.values() for f in v.families} | {"pick_place"}))
def test_its_programs_find_their_roles_in_scenes_of_every_family(family, sandbox):
    own = [sample_spec(TRAIN, family, "id", "train", seed) for seed in range(4)]
    (text, *_) = engine.ScriptedEngine(TRAIN).propose(Difficulty("ATTRIBUTE", "grasp", "target_mass_kg:high"), own, {})
    program = evaluate_generation(text, sandbox, TRAIN)
    for spec in own:
        (bound, *_) = bind(program, spec, TRAIN)
        assert edited_factors(spec, generate(program, spec, bound, 0, TRAIN, 0.5)) == ("attributes",)
