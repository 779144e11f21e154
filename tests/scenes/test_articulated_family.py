"""The family articulated: goals and words round trip, scenes are fair and of their split, edits keep their factor, planner certifies."""

import collections
import dataclasses
import itertools

import numpy as np
import pytest

from coda_jax import config as settings
from coda_jax.loop import parts
from coda_jax.programs import expressions
from coda_jax.programs.errors import ProgramError
from coda_jax.programs.expressions import Expr
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes import families, language, openings
from coda_jax.scenes.articulated import KINDS, Articulated
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.edits.lock import edited_factors
from coda_jax.scenes.edits.record import EditError
from coda_jax.scenes.edits.verbs import VERBS, apply_edit, usual_bindings
from coda_jax.scenes.families.articulated import PAIRS, START_AWAY
from coda_jax.scenes.generate import recipe, sample_spec
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
from coda_jax.scenes.measures import MEASURES, measure
from coda_jax.scenes.program import evaluate_scene, to_program
from coda_jax.sim.compile import bucket_of, token_index
from coda_jax.sim.demonstrate import demonstrate
from coda_jax.sim.observe import scene_texts
from coda_jax.sim.simulator import episode_of
from coda_jax.sim.validity import check
from coda_jax.types import ARTICULATED_TOKEN
from tests.sim.articulated import articulated
from tests.sim.tabletop import Thing

CONFIG = settings.default()
ALL, TRAIN = Catalogue.all(), Catalogue("train")
FAMILY = families.get("articulated")
JOINT_VERBS = ("joint_stiffness", "joint_damping", "joint_friction", "handle_size", "opening_range", "initial_opening")


@pytest.fixture(scope="module")
def scenes():
    return [sample_spec(TRAIN, "articulated", "id", "train", seed) for seed in range(40)]


def mechanism(spec) -> str:
    asset = ALL.get(spec.attribute(spec.with_role("target")[0]).asset)
    assert isinstance(asset, Articulated)
    return asset.mechanism


@pytest.mark.parametrize("relation", openings.RELATIONS)
def test_a_goal_is_read_back_and_aimed_inside_its_band(relation):
    goal = openings.expression(relation, "chest_1")
    assert openings.parsed(goal) == (relation, "chest_1")
    low, high = openings.band(relation)
    assert low < openings.aim(relation) < high
    assert FAMILY.read(goal, ["chest_1"]) == (families.Goal(relation, "chest_1", "chest_1"),)
    expressions.validate(goal, ["chest_1"], condition=True, articulated=["chest_1"])


@pytest.mark.parametrize(
    "goal",
    [
        Expr("at_least", (Expr("opening", ("chest_1",)), 0.7)),
        Expr("at_least", (Expr("lifted", ("chest_1",)), 0.85)),
        Expr("all_of", (openings.expression("open", "chest_1"), openings.expression("close", "chest_1"))),
        Expr("on", ("chest_1", "table")),
    ],
)
def test_other_goals_are_refused(goal):
    with pytest.raises(ValueError, match="is none of articulated: write at_least"):
        FAMILY.read(goal, ["chest_1"])


def test_every_mechanism_is_trained_and_held_out_pairs_ask_for_trained_parts():
    trained = {p for p, split in PAIRS.items() if split == "train"}
    assert {kind for _, kind in trained} == set(KINDS) and {r for r, _ in trained} == set(openings.RELATIONS)
    for split in ("validation", "test"):
        held_out = {p for p, s in PAIRS.items() if s == split}
        assert len(held_out) >= 3 and {r for r, _ in held_out} <= {r for r, _ in trained}


def test_every_phrasing_is_read_as_itself_alone():
    for template in FAMILY.templates:
        sentence = template.render("red chest")
        assert language.match(sentence, "articulated") == template
        held_out = language.held_out(sentence)
        assert (held_out is None) == (template.split == "train"), sentence


def test_seed_scenes_cover_the_family(scenes):
    assert {mechanism(s) for s in scenes} == set(KINDS)
    assert {families.relation(s) for s in scenes} == set(openings.RELATIONS)
    assert {s.spatial.layout for s in scenes} == {y.layout_id for y in FAMILY.layouts_of("train")}
    for spec in scenes:
        (name,) = spec.with_role("target")
        start, relation = spec.placement(name).opening, families.relation(spec)
        assert start is not None and abs(start - openings.aim(relation)) >= min(START_AWAY, 0.3) - 1e-9
        assert token_index(spec, TRAIN)[name] == ARTICULATED_TOKEN and bucket_of(spec, TRAIN).articulated
        assert len(spec.object_ids) >= 2, "no distractor"
        assert scene_texts(spec, TRAIN)[0][ARTICULATED_TOKEN].split()[1] in spec.task.instruction
        refuse_held_out(spec, TRAIN)


def test_most_seed_scenes_are_valid(scenes):
    reports = check(scenes, TRAIN, parts.validity_of(CONFIG))
    assert sum(r.valid for r in reports) >= 0.9 * len(scenes)


@pytest.mark.parametrize(
    ("suite", "split"), [(s, t) for s, t in itertools.product(("instances", "layouts", "tasks", "categories"), ("validation", "test"))]
)
def test_a_suite_holds_what_training_refuses(suite, split, tmp_path):
    """By its content, without the frozen scenes."""
    kinds = {"instances": {"instance"}, "layouts": {"layout"}, "tasks": {"goal"}, "categories": {"category"}}[suite]
    assert recipe(suite, split).name == f"{suite}/{split}"
    for seed in range(8):
        with pytest.raises(HeldOutContent) as refusal:
            refuse_held_out(sample_spec(ALL, "articulated", suite, split, seed), TRAIN, tmp_path)
        assert refusal.value.kind in kinds and f"held out for {split}" in str(refusal.value)


def test_a_program_gives_its_scene_again(scenes):
    with Sandbox(parts.limits_of(CONFIG)) as sandbox:
        for spec in scenes[:6]:
            assert evaluate_scene(to_program(spec), sandbox, TRAIN).scene_id == spec.scene_id
        short = (
            "result = scene(instruction='open the red chest', family='articulated', goal=at_least(opening('chest_1'), 0.85),\n"
            "  objects=[thing('chest_1', category='chest', at=(0.5, 0.0), role='target', colour='red', joint_friction=0.2)])\n"
        )
        made = evaluate_scene(short, sandbox, TRAIN)
        (thing,) = made.attributes.objects
        asset = TRAIN.get(thing.asset)
        assert isinstance(asset, Articulated) and made.placement("chest_1").opening == 0.0
        assert thing.articulation == dataclasses.replace(asset.articulation, friction=0.2)
        for text, what in (
            (short.replace("joint_friction=0.2", "opening=1.4"), "chest_1.opening: must be between 0.0 and 1.0"),
            (short.replace("joint_friction=0.2", "opening=0.9"), "already holds at the start"),
            (short.replace("'chest'", "'can'").replace("joint_friction=0.2", "opening=0.9"), "chest_1.opening: is of articulated things"),
            (short.replace("opening('chest_1'), 0.85", "opening('chest_1'), 0.5"), "is none of articulated"),
        ):
            with pytest.raises(ProgramError, match=what):
                evaluate_scene(text, sandbox, TRAIN)


def test_phases_and_margins_agree(scenes):
    for spec in scenes[:20]:
        (name,) = spec.with_role("target")
        phases, margins = families.phases(spec), families.margins(spec)
        assert tuple(p for p, _ in phases) == families.PHASES == tuple(m.phase for m in margins)
        expressions.encode(episode_of(spec, 120, (0, 0)).predicates, {name: ARTICULATED_TOKEN})


@pytest.mark.parametrize("verb", JOINT_VERBS)
def test_an_edit_moves_its_measure_and_its_factor_alone(scenes, verb):
    chosen, applied = VERBS[verb], 0
    sign = 1 if chosen.rises else -1
    for spec in scenes[:12]:
        (bound,) = usual_bindings(spec, verb)
        try:
            half, full = (apply_edit(spec, verb, bound, m, 0, TRAIN) for m in (0.5, 1.0))
        except EditError as error:
            assert "use" in str(error)
            continue
        applied += 1
        assert edited_factors(spec, half) == edited_factors(spec, full) == (chosen.factor,)
        values = [sign * measure(s)[chosen.measure] for s in (spec, half, full)]
        assert values[0] < values[1] < values[2]
        assert MEASURES[chosen.measure].factor == chosen.factor
        assert all(r.valid for r in check([half, full], TRAIN, parts.validity_of(CONFIG)))
    assert applied >= 6


def test_goal_swap_asks_for_another_trained_opening(scenes):
    swapped = collections.Counter()
    for spec in scenes:
        try:
            after = apply_edit(spec, "goal_swap", usual_bindings(spec, "goal_swap")[0], 0.5, 0, TRAIN)
        except EditError:
            continue
        before, now = families.relation(spec), families.relation(after)
        assert before != now and PAIRS[now, mechanism(after)] == "train" and edited_factors(spec, after) == ("task",)
        template = language.match(after.task.instruction, "articulated")
        assert template is not None and template.relation == now
        swapped[before, now] += 1
    assert swapped["open", "close"] and swapped["close", "open"] and len(swapped) >= 5


def test_verbs_of_joints_need_a_joint():
    spec = sample_spec(TRAIN, "pick_place", "id", "train", 0)
    for verb in JOINT_VERBS:
        with pytest.raises(EditError, match="edits scenes of articulated, not of pick_place"):
            apply_edit(spec, verb, usual_bindings(spec, verb)[0], 0.5, 0, TRAIN)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"friction": 40.0}, "has friction 40 N"),
        ({"stiffness": 24.0, "friction": 0.3}, "closes it again: stiffness 24 N/m"),
        ({"handle_scale": 0.3}, "raise handle_scale"),
    ],
)
def test_unfair_joints_are_named_with_their_repair(change, says):
    spec = articulated("dresser_00", **change)
    (report,) = check([spec], ALL, parts.validity_of(CONFIG))
    assert any(f.check == "joint" and says in f.message for f in report.failures)


def test_nothing_may_stand_in_the_way_of_the_link():
    spec = articulated("dresser_00", x=0.55, yaw=0.0, others=(Thing("block_1", "block_00", 0.44, 0.0),))
    (report,) = check([spec], ALL, parts.validity_of(CONFIG))
    (failure,) = [f for f in report.failures if f.check == "joint"]
    assert failure.object == "block_1" and failure.other == "dresser_1" and "within the reach of the moving part" in failure.message


def test_the_planner_certifies_seed_scenes_of_every_mechanism(scenes):
    chosen = [next(s for s in scenes if mechanism(s) == kind) for kind in KINDS]
    sim = parts.native_simulator(CONFIG, TRAIN, parts.common_bucket(chosen, TRAIN))
    jobs = [episode_of(spec, 120, (i, 0)) for i, spec in enumerate(chosen)]
    for noise in (None, parts.noise_of(CONFIG)):
        found = list(demonstrate(sim, TRAIN, jobs, parts.planner_of(CONFIG), noise, 0))
        assert sum(t.success for t in found) >= 5, [(mechanism(t.episode.spec), t.cause) for t in found if not t.success]
        for t in (t for t in found if t.success):
            opening = t.views.articulation[:, ARTICULATED_TOKEN] / t.views.articulation_range[:, ARTICULATED_TOKEN, 1]
            low, high = openings.band(families.relation(t.episode.spec))
            assert low <= opening[-1] <= high and np.abs(np.diff(opening)).max() > 0


def test_a_blocked_handle_is_a_cause(scenes):
    blocked = articulated("dresser_00", x=0.55, yaw=0.0, others=(Thing("carton_1", "carton_02", 0.515, 0.06),))
    sim = parts.native_simulator(CONFIG, ALL, bucket_of(blocked, ALL))
    (tried,) = demonstrate(sim, ALL, [episode_of(blocked, 120, (0, 0))], parts.planner_of(CONFIG), None, 0)
    assert not tried.success and "carton_1 stands within the open hand" in tried.cause
