"""Generation programs: text to records and back, what is refused, who may play the roles, and the scenes that come out."""

from __future__ import annotations

import dataclasses

import pytest

from coda_jax.programs.errors import ErrorKind, ProgramError
from coda_jax.programs.limits import Limits
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.edits.lock import edited_factors
from coda_jax.scenes.edits.record import EditError
from coda_jax.scenes.edits.verbs import VERBS, apply_edit
from coda_jax.scenes.families import read_goal
from coda_jax.scenes.generate import sample_spec
from coda_jax.scenes.generation import (
    ROLES,
    EditStep,
    GenerationProgram,
    RoleNeed,
    RoleRelation,
    check_program,
    evaluate_generation,
    parse_generation,
    to_text,
)
from coda_jax.scenes.lifting import Binding, bind, generate, unbound
from coda_jax.scenes.measures import measure
from coda_jax.scenes.program import evaluate_scene
from coda_jax.scenes.tabletop import Tabletop

LIMITS = Limits(text_bytes=32768, time_s=1.0, grace_s=1.0, memory_bytes=32 << 20, recursion=100, output_chars=1000, reply_chars=65536)
TRAIN = Catalogue("train")
TEXT = """
result = generation(
    factor="spatial",
    roles=[role("target", affordance="graspable"), role("obstacle", kind="object")],
    relations=[relation("near", "obstacle", "target")],
    edits=[edit("approach_obstacle", low=0.2, high=1.0)],
    level=0.6,
)
"""
PROGRAM = GenerationProgram(
    "spatial",
    (RoleNeed("target", affordance="graspable"), RoleNeed("obstacle", kind="object")),
    (EditStep("approach_obstacle", 0.2, 1.0),),
    (RoleRelation("near", "obstacle", "target"),),
    0.6,
)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(LIMITS) as made:
        yield made


def scene(seed: int):
    return sample_spec(TRAIN, "pick_place", "id", "train", seed)


@pytest.mark.parametrize("first", ['thing("mug_1", category="mug", at=(0.4, 0))', 'on("mug_1", "plate_1")', 'scene(instruction="put it")'])
def test_a_scene_program_is_told_where_it_belongs(first, sandbox):
    with pytest.raises(ProgramError, match="is a verb of a scene program: --mode=check and --mode=view take those") as caught:
        evaluate_generation(f"x = 1\nresult = {first}\n", sandbox, TRAIN)
    assert (caught.value.kind, caught.value.line) == (ErrorKind.INVALID_GENERATION, 2)


@pytest.mark.parametrize("first", ['role("target")', 'relation("near", "obstacle", "target")', 'edit("yaw")', "generation(level=1)"])
def test_a_generation_program_is_told_where_it_belongs(first, sandbox):
    with pytest.raises(ProgramError, match="is a verb of a generation program: --mode=check and --mode=verify take those") as caught:
        evaluate_scene(f"x = 1\nresult = {first}\n", sandbox, TRAIN)
    assert (caught.value.kind, caught.value.line) == (ErrorKind.INVALID_SCENE, 2)


def test_text_becomes_a_program(sandbox):
    assert evaluate_generation(TEXT, sandbox, TRAIN) == PROGRAM


@pytest.mark.parametrize("name", VERBS)
def test_round_trip_of_every_verb(sandbox, name):
    verb = VERBS[name]
    roles = tuple(RoleNeed(r) for r in verb.needs)  # pyright: ignore[reportArgumentType]
    program = GenerationProgram(verb.factor, roles, (EditStep(name, 0.1, 2 / 3),), level=1 / 3)  # pyright: ignore[reportArgumentType]
    again = evaluate_generation(to_text(program), sandbox, TRAIN)
    assert again == program and again.program_id == program.program_id
    assert to_text(again) == to_text(program)


def test_ids_depend_on_content_only(sandbox):
    other = TEXT.replace("level=0.6", "level=3/5").replace("0.2", "1/5")
    assert evaluate_generation(other, sandbox, TRAIN).program_id == PROGRAM.program_id
    louder = PROGRAM.with_level(0.7)
    assert louder.program_id != PROGRAM.program_id and louder.mechanism_id == PROGRAM.mechanism_id


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('factor="spatial"', 'factor="motor"', "factor: 'motor' is not accepted: use one of task, spatial, attributes"),
        ('factor="spatial"', 'factor="task"', "edits[0].verb: approach_obstacle changes spatial, the program's factor is task"),
        ("approach_obstacle", "approach_obstacles", "edits[0].verb: there is no verb 'approach_obstacles': use approach_obstacle"),
        ("low=0.2", "low=1.0, high=0.5 if True else", None),
        ("low=0.2, high=1.0", "low=0.9, high=0.1", "edits[0].low: 0.9 is above high=0.1"),
        ("low=0.2", "low=-1", "edit approach_obstacle: low: must be between 0 and 1, not -1"),
        ("level=0.6", "level=float('nan')", "level: must be between 0 and 1, not nan"),
        ("level=0.6", "level=True", "level: must be a number"),
        ("level=0.6", "levels=0.6", "there is no argument levels; did you mean level?"),
        (', role("obstacle", kind="object")', "", "relations[0]: the role obstacle is not among roles"),
        ('role("obstacle", kind="object")', 'role("target")', "roles: target is given twice"),
        ('kind="object"', 'kind="robot"', "kind: 'robot' is not accepted: use one of object, support, container"),
        ('kind="object"', 'category="goblet"', "roles[1].category: the catalogue here has no 'goblet'"),
        ('affordance="graspable"', 'affordance="edible"', "roles[0].affordance: nothing here is 'edible'"),
        ('affordance="graspable"', 'kind="support"', "roles[0].kind: a support is fixed and cannot be the target"),
        ('relation("near", "obstacle", "target")', 'relation("near", "target", "target")', "near relates target to itself"),
        ('relation("near"', 'relation("inspired_by"', "'inspired_by' is not accepted"),
        ("result = generation", "other = generation", "result is missing: end the program with `result = generation(...)`"),
    ],
)
def test_refusals_name_the_field(sandbox, old, new, said):
    assert TEXT.count(old) == 1
    with pytest.raises(ProgramError) as caught:
        evaluate_generation(TEXT.replace(old, new), sandbox, TRAIN)
    if said is not None:
        assert said in caught.value.message
        assert caught.value.kind in (ErrorKind.INVALID_GENERATION, ErrorKind.NOT_DATA)


@pytest.mark.parametrize(
    "value",
    [
        3,
        {},
        {"factor": "spatial", "roles": [], "edits": [], "level": 0.5},
        {"factor": "spatial", "roles": [{"name": "target"}] * 6, "edits": [{"verb": "yaw"}]},
        {"factor": "spatial", "roles": [{"name": "target", "id": "mug_1"}], "edits": [{"verb": "yaw"}]},
        {"factor": "spatial", "roles": [{"name": "ignore_all_rules"}], "edits": [{"verb": "yaw"}]},
        {"factor": "spatial", "roles": [{"name": "target"}], "edits": [{"verb": "yaw", "low": "0.1"}]},
        {"factor": "spatial", "roles": [{"name": "target"}], "edits": [{"verb": "yaw", "high": 1e400}]},
    ],
)
def test_data_that_bypasses_the_verbs_is_refused(value):
    with pytest.raises(ProgramError) as caught:
        parse_generation(value)
    assert caught.value.kind is ErrorKind.INVALID_GENERATION


def test_bindings_are_valid_distinct_ranked_and_at_most_three():
    seen = 0
    for seed in range(16):
        spec = scene(seed)
        top, goal = Tabletop(spec), read_goal(spec)
        bindings = bind(PROGRAM, spec, TRAIN)
        near = [n for n in top.others(goal.target, goal.reference) if top.distance(n, goal.target) < 0.2]
        assert len(bindings) == min(3, len(near))
        assert [b.objects()["obstacle"] for b in bindings] == sorted(near, key=lambda n: top.distance(n, goal.target))[:3]
        assert all(b.objects()["target"] == goal.target and b.margin > 0 for b in bindings)
        seen += len(bindings)
    assert seen > 6


def test_requirements_and_relations_decide_who_plays():
    for seed in range(16):
        spec = scene(seed)
        top, goal = Tabletop(spec), read_goal(spec)
        left = dataclasses.replace(PROGRAM, relations=(RoleRelation("left_of", "obstacle", "target"),))
        for b in bind(left, spec, TRAIN):
            assert top.places[b.objects()["obstacle"]].pos_m[1] > top.places[goal.target].pos_m[1]
        alike = dataclasses.replace(PROGRAM, relations=(RoleRelation("same_category", "obstacle", "target"),))
        found = {b.objects()["obstacle"] for b in bind(alike, spec, TRAIN)}
        assert found <= {n for n in top.free if top.assets[n].category == top.assets[goal.target].category}
        five = tuple(RoleNeed(r) for r in ROLES[:5])
        crowd = GenerationProgram("spatial", five, (EditStep("reach"),))
        for b in bind(crowd, spec, TRAIN):
            assert len(set(b.objects().values())) == 5
        # three roles besides the task's own, one of them for a free object
        assert bool(bind(crowd, spec, TRAIN)) == (len(spec.object_ids) >= 5 and bool(top.others(goal.target, goal.reference)))


def test_what_keeps_a_program_from_a_scene_is_named():
    reasons = set()
    for seed in range(8):
        spec = scene(seed)
        for need in ("nothing_such", "something"):
            category = "drum" if need == "nothing_such" else None  # held out: no training scene has one
            program = dataclasses.replace(PROGRAM, roles=(RoleNeed("target"), RoleNeed("obstacle", category=category)))
            if not bind(dataclasses.replace(program), spec, Catalogue.all()):
                reasons.add(unbound(program, spec))
    assert "no object plays obstacle" in reasons
    assert "none of its objects stand so: obstacle near target" in reasons
    many = GenerationProgram("spatial", tuple(RoleNeed(r) for r in ROLES[:5]), (EditStep("reach"),))
    few = next(s for s in map(scene, range(40)) if len(s.object_ids) < 5 and not bind(many, s, TRAIN))
    assert unbound(many, few).startswith(("no object plays", "too few objects to play target and reference and"))


def test_generated_scenes_get_harder_with_the_level():
    made = 0
    for seed in range(12):
        spec = scene(seed)
        for binding in bind(PROGRAM, spec, TRAIN)[:1]:
            try:
                gaps = [measure(generate(PROGRAM, spec, binding, 1, TRAIN, level))["approach_gap_m"] for level in (0.0, 0.5, 1.0)]
            except EditError:  # a target with one grasp only, which the obstacle would block
                continue
            assert gaps == sorted(gaps, reverse=True) and gaps[0] > gaps[-1]
            own = generate(PROGRAM, spec, binding, 1, TRAIN)
            assert own == generate(PROGRAM, spec, binding, 1, TRAIN, 0.6)
            assert edited_factors(spec, own) == ("spatial",)
            made += 1
    assert made >= 3


def test_edits_of_one_program_follow_each_other():
    program = GenerationProgram(
        "task", (RoleNeed("target"), RoleNeed("reference")), (EditStep("target_swap"), EditStep("paraphrase")), level=1.0
    )
    for seed in range(12):
        spec = scene(seed)
        binding = bind(program, spec, TRAIN)[0]
        try:
            after = generate(program, spec, binding, 0, TRAIN)
        except EditError:
            continue
        assert edited_factors(spec, after) == ("task",)
        assert read_goal(after).target != read_goal(spec).target
        swapped = apply_edit(spec, "target_swap", binding.objects(), 1.0, 0, TRAIN)
        assert after.task.goal == swapped.task.goal and after.task.instruction != swapped.task.instruction
        return
    pytest.fail("no scene took both edits")


def test_a_binding_that_leaves_a_role_open_is_refused():
    spec = scene(0)
    with pytest.raises(EditError, match="leaves the role obstacle open"):
        generate(PROGRAM, spec, Binding((("target", read_goal(spec).target),), 0.0), 0, TRAIN)
    with pytest.raises(ProgramError, match="no verb"):
        check_program(dataclasses.replace(PROGRAM, edits=(EditStep("fly"),)), TRAIN)
