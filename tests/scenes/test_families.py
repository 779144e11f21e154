from __future__ import annotations

import dataclasses

import pytest

from coda_jax.programs.expressions import Expr, validate
from coda_jax.scenes import families, language
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families.pick_place import BESIDE_MARGIN_M, beside_limit
from coda_jax.scenes.generate import sample_spec
from coda_jax.scenes.layouts import LAYOUTS

ALL = Catalogue.all()
PICK = families.get("pick_place")


def expression(relation, target, reference, target_asset, reference_asset):
    return PICK.expression(families.Goal(relation, target, reference), {target: target_asset, reference: reference_asset})


def test_pairs_are_split_disjointly():
    assert set(PICK.pairs_of("train")) == {("on", "support"), ("inside", "container"), ("beside", "landmark")}
    assert PICK.pairs_of("validation") == (("beside", "support"),) and PICK.pairs_of("test") == (("beside", "container"),)


def test_beside_by_hand():
    ball, plate = ALL.get("ball_00"), ALL.get("plate_00")
    # both are round: their radii are half their widths
    limit = round(ball.half_extent_m[0] + plate.half_extent_m[0] + 0.05, 3)
    goal = expression("beside", "ball_1", "plate_1", ball, plate)
    near = Expr("at_most", (Expr("horizontal_distance", ("ball_1", "plate_1")), limit))
    assert goal == Expr("all_of", (Expr("on", ("ball_1", "table")), near))
    assert PICK.pairs_in(goal, {"ball_1": ball, "plate_1": plate}) == {("beside", "support")}


def test_pairs_are_read_through_any_nesting_and_order():
    assets = {"mug_1": ALL.get("mug_00"), "bin_1": ALL.get("bin_00"), "can_1": ALL.get("can_00")}
    swapped = Expr("any_of", (Expr("at_most", (Expr("distance", ("bin_1", "mug_1")), 0.2)), Expr("still", ("mug_1",))))
    assert ("beside", "container") in PICK.pairs_in(swapped, assets)
    assert PICK.pairs_in(Expr("at_most", (Expr("distance", ("gripper", "mug_1")), 0.1)), assets) == frozenset()
    assert PICK.pairs_in(Expr("on", ("mug_1", "table")), assets) == frozenset()


def test_phases_are_valid_conditions_in_order():
    for seed in range(6):
        spec = sample_spec(Catalogue(), "pick_place", "id", "train", seed)
        phases = families.phases(spec)
        assert tuple(name for name, _ in phases) == families.PHASES
        for _, predicate in phases:
            validate(predicate, spec.object_ids, condition=True)
        assert phases[3][1] == spec.task.goal
        assert phases[4][1].args[0] == spec.task.goal


def test_can_hold():
    box = ALL.get("box_00")  # inner box 0.0654 x 0.0746 x 0.0174 (halves)
    assert families.can_hold("inside", ALL.get("ball_00"), box)
    assert not families.can_hold("inside", ALL.get("can_04"), box)  # its centre, 4.6 cm up, stands over the rim
    assert not families.can_hold("inside", ALL.get("banana_00"), box)


def test_templates_tell_their_split():
    texts = [t.text for t in language.all_templates()]
    assert len(set(texts)) == len(texts)
    for t in language.all_templates():
        assert language.match(t.render(*["red mug", "white plate", "blue can"][: len(t.places)]).capitalize() + ".", t.family) == t
    assert language.match("juggle the red mug", "pick_place") is None


def test_layout_table():
    assert {layout.split for layout in LAYOUTS.values()} == {"train", "validation", "test"}
    with pytest.raises(ValueError, match="no relation 'under'"):
        expression("under", "a", "b", ALL.get("mug_00"), ALL.get("plate_00"))


def _with(spec, **fields):
    return dataclasses.replace(spec, task=dataclasses.replace(spec.task, **fields))


def test_goals_are_read_strictly():
    spec = next(s for s in (sample_spec(Catalogue(), "pick_place", "id", "train", i) for i in range(40)) if s.task.goal.op == "all_of")
    goal = families.read_goal(spec)
    assert goal.relation == "beside"
    t, r = goal.target, goal.reference
    table, near = Expr("on", (t, "table")), Expr("at_most", (Expr("horizontal_distance", (t, r)), 0.12))
    assert families.read_goal(_with(spec, goal=Expr("all_of", (table, near)))) == goal
    for other in (
        near,
        Expr("all_of", (near, table)),
        Expr("all_of", (table, near, Expr("still", (t,)))),
        Expr("all_of", (table, Expr("at_least", near.args))),
        Expr("all_of", (table, Expr("at_most", (Expr("distance", (t, r)), 0.12)))),
        Expr("all_of", (Expr("on", (r, "table")), near)),
        Expr("at_least", (Expr("horizontal_distance", (t, r)), 0.5)),
        Expr("at_least", (Expr("lifted", (t,)), 1.5)),
        Expr("on", (t, "table")),
        Expr("on", (t, "gripper")),
        Expr("on", (t,)),
    ):
        with pytest.raises(ValueError, match="none of pick_place"):
            families.read_goal(_with(spec, goal=other))
    with pytest.raises(ValueError, match=f"moves '{r}', but the target is {t}"):
        families.read_goal(_with(spec, goal=Expr("on", (r, t))))
    with pytest.raises(ValueError, match="'juggle' is not built: use "):
        families.read_goal(_with(spec, family="juggle"))
    with pytest.raises(ValueError, match="exactly one target, this one has none"):
        families.read_goal(_with(spec, roles=()))


def test_loose_limits():
    ball, plate = ALL.get("ball_00"), ALL.get("plate_00")
    most = beside_limit(ball, plate) + BESIDE_MARGIN_M
    for distance, loose in ((most - 0.001, False), (most + 0.001, True)):
        goal = Expr("all_of", (Expr("on", ("a", "table")), Expr("at_most", (Expr("horizontal_distance", ("a", "b")), distance))))
        assert (PICK.goal_trouble(goal, {"a": ball, "b": plate}) is not None) is loose
