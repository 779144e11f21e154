"""LIBERO's families: goals read and written, the common verbs on their scenes, and what may not be trained on."""

from __future__ import annotations

import dataclasses

import pytest

from coda_jax.programs.expressions import Expr
from coda_jax.scenes import families, leakage
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.edits import verbs
from coda_jax.scenes.edits.lock import edited_factors
from coda_jax.scenes.edits.record import EditError
from coda_jax.scenes.edits.room import trouble
from coda_jax.scenes.fixes import aside, fixed
from coda_jax.scenes.libero import bddl, held_out, importing, placing, states, tasks, things
from coda_jax.scenes.libero import families as libero
from coda_jax.scenes.libero.families import LiberoFamily
from coda_jax.scenes.libero.goals import to_atom
from coda_jax.scenes.measures import measure
from coda_jax.scenes.placement import gap
from coda_jax.scenes.spec import SceneSpec
from coda_jax.scenes.tabletop import Tabletop, raised, rested
from tests.scenes.libero.texts import TASK


@pytest.fixture(autouse=True)
def _registered():
    libero.add()
    yield
    libero.remove()


@pytest.fixture
def own(monkeypatch) -> SceneSpec:
    """A scene of our own text; nothing is held out, as there is no package to ask."""
    monkeypatch.setattr(held_out, "held_out", lambda spec: None)
    monkeypatch.setattr(verbs, "refuse_held_out", lambda spec, catalogue: None)
    problem = bddl.parse(TASK)
    return importing.scene(problem, "libero_goal", "libero_goal/made_up", placing.draw(problem, 2))


def edited(spec: SceneSpec, verb: str, **binding: str) -> SceneSpec:
    bound = {"target": "akita_black_bowl_1", "reference": "plate_1"} | binding
    return verbs.apply_edit(spec, verb, {r: bound[r] for r in verbs.verb(verb).needs}, 1.0, 0, Catalogue("train"))


def test_every_goal_is_read_as_it_was_written(own):
    assets = families.scaled_assets(own)
    family = families.get("libero_goal")
    assert isinstance(family, LiberoFamily)
    for relation, target, reference in (
        ("on", "akita_black_bowl_1", "plate_1"),
        ("on", "akita_black_bowl_1", "flat_stove_1"),
        ("on", "akita_black_bowl_1", "wooden_cabinet_1"),
        ("inside", "akita_black_bowl_1", "wooden_cabinet_1"),
        ("inside", "akita_black_bowl_1", "wooden_cabinet_1_middle"),
        ("in_front", "plate_1", "flat_stove_1"),
        ("open", "wooden_cabinet_1", "wooden_cabinet_1"),
        ("open", "wooden_cabinet_1_middle", "wooden_cabinet_1_middle"),
        ("open_bottom", "wooden_cabinet_1", "wooden_cabinet_1"),
        ("turn_on", "flat_stove_1", "flat_stove_1"),
        ("turn_off", "flat_stove_1", "flat_stove_1"),
    ):
        goal = families.Goal(relation, target, reference)
        expr = family.expression(goal, assets)
        assert to_atom(expr) is not None and family.parsed(expr) == goal
    for op, target, region in (  # of the form of a goal, but the thing has its place elsewhere
        ("libero_on", "plate_1", "wooden_cabinet_1_top_region"),
        ("libero_on", "plate_1", "flat_stove_1_top_side"),
        ("libero_in", "plate_1", "basket_1_top_region"),
        ("libero_in", "plate_1", "plate_1_contain_region"),
    ):
        assert family.parsed(Expr(op, (target, region))) is None
    with pytest.raises(ValueError, match="has no place for 'inside'"):
        family.expression(families.Goal("inside", "akita_black_bowl_1", "plate_1"), assets)


def test_a_scene_is_measured_and_its_success_is_the_goal_alone(own):
    assert trouble(own) is None
    assert measure(own)["target_scale"] == 1.0
    assert families.phases(own)[-1] == ("release", own.task.goal)
    assert len(families.margins(own)) == len(families.PHASES)


@pytest.mark.parametrize(
    "verb", ["clearance", "distance", "reach", "yaw", "size", "mass", "friction", "goal_swap", "paraphrase", "exchange"]
)
def test_the_common_verbs_edit_one_factor(own, verb):
    if verb in ("clearance", "exchange"):  # the free things beside target and reference stand on others here
        text = TASK.replace("(In cookies_1 wooden_cabinet_1_top_region)", "(On cookies_1 main_table_far_region)").replace(
            "(stove_region (", "(far_region (:target main_table) (:ranges ((0.05 0.2 0.07 0.22)))) (stove_region ("
        )
        problem = bddl.parse(text)
        own = importing.scene(problem, "libero_goal", "libero_goal/made_up@3", placing.draw(problem, 2))
    after = edited(own, verb, obstacle="cookies_1")
    factor = verbs.verb(verb).factor
    assert edited_factors(own, after) == ((factor,) if "@" not in own.spatial.layout else ("spatial",))
    assert "@" not in after.spatial.layout  # a moved thing is no longer in the suite's state
    if verb == "exchange":
        assert after.placement("cookies_1").pos_m[:2] == pytest.approx(own.placement("akita_black_bowl_1").pos_m[:2], abs=2e-6)


def test_verbs_that_make_no_sense_are_refused(own):
    with pytest.raises(EditError, match="colour makes no sense in scenes of libero_goal: use one of"):
        edited(own, "colour", distractor="cookies_1")
    offered = verbs.verbs_of(("libero_goal",), "spatial")
    assert "exchange" in offered and "support_height" not in offered
    assert "exchange" not in verbs.verbs_of(("pick_place",), "spatial") and "support_height" in verbs.verbs_of(("pick_place",), "spatial")


def test_two_alike_are_told_apart_by_where_they_stand(own):
    family, top = families.get("libero_goal"), verbs.Tabletop(own)
    assert family.called("akita_black_bowl_2", top) == "black bowl on the cabinet"
    assert family.called("akita_black_bowl_1", top) == "black bowl nearest the plate"
    assert family.called("plate_1", top) == "plate"


@pytest.mark.parametrize(
    ("relation", "target", "best", "near", "there"),
    [
        ("open", "wooden_cabinet_1", "largest", 0.755, 0.875),  # 0.14 of 0.16 m
        ("open", "wooden_cabinet_1_middle", "largest", 0.755, 0.875),
        ("turn_on", "flat_stove_1", "largest", 0.118, 0.238),  # 0.5 of 2.1 rad
        ("turn_off", "flat_stove_1", "smallest", 0.12, 0.0),
        ("open_bottom", "wooden_cabinet_1", "largest", 1.0, 1.0),
    ],
)
def test_the_way_of_a_drawer_or_knob_is_measured_as_its_goal_asks(own, relation, target, best, near, there):
    family, assets = families.get("libero_goal"), families.scaled_assets(own)
    goal = families.Goal(relation, target, target)
    expr = family.expression(goal, assets)
    phases, margins = dict(family.phases_of(goal, expr, assets)), {m.phase: m for m in family.margins_of(goal, expr, assets)}
    assert list(phases) == list(margins) == list(families.PHASES) and phases["place"] == phases["release"] == expr
    assert [(margins[p].best, margins[p].threshold) for p in families.PHASES[2:]] == [(best, near), (best, there), (best, there)]
    for phase in ("approach", "grasp", "transport"):  # the phase holds the margin's quantity against the margin's threshold
        margin, met = margins[phase], phases[phase]
        compared = "at_most" if margin.best == "smallest" else "at_least"
        assert met == (expr if margin.expression == expr else Expr(compared, (margin.expression, margin.threshold)))
    shown = Expr("opening", (target,)) if relation != "open_bottom" else expr  # the cabinet's token shows its top drawer
    assert {margins[p].expression for p in families.PHASES[2:]} == {shown}


RAISED_M = 0.03


@pytest.mark.parametrize(
    ("name", "region", "height_m"),  # of the face, above the fixture's root
    [
        ("cookies_1", "wooden_cabinet_1_top_region", 0.1592),
        ("akita_black_bowl_2", "wooden_cabinet_1_top_side", 0.22299),
        ("akita_black_bowl_2", "flat_stove_1_cook_region", 0.0221),
    ],
)
def test_a_raised_thing_is_lowered_to_the_region_that_it_stands_on(name, region, height_m):
    """Not to the top of the fixture's box: the floor of a drawer, the burner beside the knob."""
    problem = bddl.parse(TASK.replace("(On akita_black_bowl_2 wooden_cabinet_1_top_side)", f"(On akita_black_bowl_2 {region})"))
    spec = importing.scene(problem, "libero_goal", "libero_goal/made_up", placing.draw(problem, 2))
    top, fixture = Tabletop(spec), things.MODELS["flat_stove" if "stove" in region else "wooden_cabinet"]
    assert top.shapes[name].bottom == pytest.approx(height_m + fixture.root_m, abs=2e-6) and abs(top.rise(name)) < 2e-6
    (fix,) = aside(raised(spec, name, RAISED_M), name)
    assert isinstance(fix.value, tuple) and fix.value[2] == pytest.approx(-RAISED_M, abs=2e-6)
    after = Tabletop(fixed(raised(spec, name, RAISED_M), fix))
    face = after.face(name)
    assert face is not None and abs(after.rise(name)) < 2e-6 and gap(after.shapes[name], face) < 0
    assert rested(raised(spec, name, RAISED_M), spec).placement(name).pos_m == pytest.approx(spec.placement(name).pos_m, abs=2e-6)


def test_they_are_forgotten_again():
    before = Catalogue.all()
    assert "libero/plate" in before and "libero_goal" in families.names()
    libero.remove()
    assert "libero/plate" not in Catalogue.all() and "libero_goal" not in families.names() and "exchange" not in verbs.VERBS
    libero.add()
    libero.add()


# with the package


def standard(spec: SceneSpec, task: tasks.Task) -> SceneSpec:
    """A scene of a perturbed suite as if it had been made from the source task."""
    layout = f"{tasks.family_of(task.suite)}/{task.name}"
    return dataclasses.replace(spec, spatial=dataclasses.replace(spec.spatial, layout=layout))


@pytest.mark.libero
@pytest.mark.parametrize("family", tasks.FAMILIES)
def test_every_perturbed_scene_is_held_out_and_no_source_scene(family):
    for task in tasks.tasks(family):
        for number in range(3):
            assert held_out.held_out(importing.task_scene(task, number)) is None
        state = importing.initial_scene(task, 7, seed=7)
        assert held_out.held_out(standard(state, task)) is None
        assert (held_out.held_out(state) or ("",))[0] == "scene"
    free = []
    for ending in ("_swap", "_task"):
        for task in tasks.tasks(family + ending):
            rows = states.read(task.init)
            for number in (0, 21, 49):
                if held_out.held_out(standard(importing.initial_scene(task, number, seed=number, rows=rows), task)) is None:
                    free.append(task.key)
            assert (held_out.held_out(importing.initial_scene(task, 0, seed=0, rows=rows)) or ("",))[0] == "scene"
    # one task of the suite is a source task with its bowls renamed, in words that another source task uses
    same = "libero_spatial_task/pick_up_the_black_bowl_on_the_wooden_cabinet_and_place_it_on_the_plate"
    assert set(free) == ({same} if family == "libero_spatial" else set())


@pytest.mark.libero
@pytest.mark.parametrize("family", tasks.FAMILIES)
def test_an_exchange_a_little_aside_is_held_out_under_any_goal_and_half_of_one_is_not(family):
    """Both of a pair exchanged, then one of them some centimetres beside its new place; then only one of them at its new place."""
    tried = 0
    for task in tasks.tasks(family + "_swap")[::3]:
        rule = next(r for r in held_out.rules() if r.before and task.key in r.what)
        source = tasks.task(f"{family}/{task.name}")
        spec, before = standard(importing.initial_scene(task, 3, 3), task), importing.initial_scene(source, 3, 3)
        # a goal of the things that no rule has: only where they stand is judged
        goal = dataclasses.replace(spec.task.goal, args=spec.task.goal.args[::-1])
        spec = dataclasses.replace(spec, task=dataclasses.replace(spec.task, goal=goal))
        assert (held_out.held_out(spec) or ("",))[0] == "layout"
        for name, spot in rule.spots:
            if not spot.ranges or len(rule.spots) < 2:
                continue
            place = spec.placement(name)
            old = before.placement(name).pos_m
            away = [a - b for a, b in zip(place.pos_m, old, strict=True)]
            length = (away[0] ** 2 + away[1] ** 2) ** 0.5
            aside = (place.pos_m[0] + 0.07 * away[0] / length, place.pos_m[1] + 0.07 * away[1] / length, place.pos_m[2])
            for pos, refused in ((aside, True), (old, False)):
                moved = tuple(dataclasses.replace(p, pos_m=pos) if p.object == name else p for p in spec.spatial.placements)
                scene = dataclasses.replace(spec, spatial=dataclasses.replace(spec.spatial, placements=moved))
                _, message = held_out.held_out(scene) or ("", "")
                assert message if refused else task.key not in message, (name, message)  # half of one may be the whole of another
                tried += 1
    assert tried >= 4


@pytest.mark.libero
def test_a_scene_of_other_things_than_its_task_s_is_refused_with_their_names():
    spec = importing.task_scene(tasks.task("libero_goal/turn_on_the_stove"), 0)
    first, *others = spec.attributes.objects
    for changed in (dataclasses.replace(first, object="cup_1"), dataclasses.replace(first, asset="libero/milk")):
        other = dataclasses.replace(spec, attributes=dataclasses.replace(spec.attributes, objects=(changed, *others)))
        kind, message = held_out.held_out(other) or ("", "")
        assert kind == "scene" and "other things than its task" in message and first.object in message


@pytest.mark.libero
def test_held_out_words_and_goals_are_refused_in_any_layout():
    task = tasks.task("libero_goal/put_the_bowl_on_the_plate")
    spec = importing.task_scene(task, 0)
    assert held_out.held_out(spec) is None
    said = dataclasses.replace(spec, task=dataclasses.replace(spec.task, instruction="Put the  WINE bottle on the plate"))
    assert (held_out.held_out(said) or ("",))[0] == "instruction"
    goal = families.get("libero_goal").expression(families.Goal("on", "wine_bottle_1", "plate_1"), families.scaled_assets(spec))
    asked = dataclasses.replace(spec, task=dataclasses.replace(spec.task, goal=goal, instruction="bring it there"))
    kind, message = held_out.held_out(asked) or ("", "")
    assert kind == "goal" and "On(wine_bottle_1, plate_1)" in message


@pytest.mark.libero
def test_the_common_verbs_never_make_a_held_out_scene(monkeypatch):
    def refuse(spec, catalogue):
        if (found := held_out.held_out(spec)) is not None:
            raise leakage.HeldOutContent(*found)

    monkeypatch.setattr(verbs, "refuse_held_out", refuse)
    applied = set()
    for family in tasks.FAMILIES:
        for task in tasks.tasks(family)[::3]:
            spec = importing.task_scene(task, 1)
            assert families.family_of(spec).task(families.read_goals(spec), families.scaled_assets(spec)) == spec.task.goal
            for name in sorted(LiberoFamily.verbs or ()):
                found = verbs.applied(spec, name, Catalogue("train"), 1.0)
                if found is not None:
                    applied.add(name)
                    assert held_out.held_out(found[1]) is None
                    assert edited_factors(spec, found[1]) == (verbs.verb(name).factor,)
    assert applied == LiberoFamily.verbs
