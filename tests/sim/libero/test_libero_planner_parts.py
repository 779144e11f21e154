"""What LIBERO's planner knows without physics: the hand, where things are held, what stands in the way, and the steps of a goal."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from coda_jax.programs.expressions import Expr
from coda_jax.scenes.libero import bddl, importing, placing, things
from coda_jax.scenes.placement import Footprint, gap
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.libero.planner import grips, hand
from coda_jax.sim.libero.planner.known import Known, highest_between
from coda_jax.sim.libero.planner.plans import Plan, Plans, plan_of
from coda_jax.sim.libero.planner.steps import INSIDE_AIM_M, OPEN_AIM_M, Move, Put, steps_of
from coda_jax.sim.plan import NoPlan
from coda_jax.types import REGIONS, TABLE, TOKENS, Regions, WorldView
from tests.scenes.libero.texts import TASK

SHOULDER = np.array([0.0, 0.0, 0.345])
NAMES = ("wooden_cabinet_1_top_region", "wooden_cabinet_1_top_side", "flat_stove_1_cook_region", "main_table_plate_region")


def scene(goal: Expr, seed: int = 1, text: str = TASK) -> SceneSpec:
    problem = bddl.parse(text)
    spec = importing.scene(problem, "libero_goal", "libero_goal/made", placing.draw(problem, seed))
    return dataclasses.replace(spec, task=dataclasses.replace(spec.task, goal=goal))


def seen(spec: SceneSpec, drawer_m: float = 0.0) -> tuple[Known, WorldView]:
    """What a simulator would show of a scene at rest, as far as the planner reads it, with the top drawer ``drawer_m`` open."""
    known = Known(spec, {name: i for i, name in enumerate(NAMES)})
    pos, half = np.zeros((1, TOKENS, 3)), np.zeros((1, TOKENS, 3))
    quat = np.tile([1.0, 0.0, 0.0, 0.0], (1, TOKENS, 1))
    for i, name in enumerate(spec.object_ids):
        place, model = spec.placement(name), known.models[name]
        pos[0, i], half[0, i] = place.pos_m, np.multiply(model.half_m, known.scale[name])
        quat[0, i] = math.cos(place.yaw_rad / 2), 0.0, 0.0, math.sin(place.yaw_rad / 2)
    regions, joint = np.zeros((1, REGIONS, 3)), np.full((1, REGIONS), np.inf)
    for i, name in enumerate(NAMES):
        thing, part = known.thing_of(name)
        if thing:
            x, y, z = known.models[thing].regions[part].pos_m
            regions[0, i] = known.fixed(thing).at(x, y, z)
    joint[0, 0] = -drawer_m
    zeros = np.zeros((1, TOKENS, 3))
    view = WorldView(
        ee_pos=np.array([[0.45, 0.0, 0.27]]), ee_quat=np.array([[0.0, 1.0, 0.0, 0.0]]), gripper_opening=np.array([0.08]),
        pos=pos, quat=quat, linvel=zeros, angvel=zeros, half_extent=half, cavity_pos=zeros, cavity_half=zeros,
        articulation=np.zeros((1, TOKENS)), articulation_range=np.zeros((1, TOKENS, 2)),
        finger_contact=np.zeros((1, TOKENS, 2), bool), contact=np.zeros((1, TOKENS, TOKENS + 1), bool),
        present=np.ones((1, TOKENS), bool), pos0=pos, quat0=quat, control_step=np.zeros(1, np.int32),
        regions=Regions(regions, np.zeros((1, REGIONS, 3, 3)), np.zeros((1, REGIONS, 3)), np.zeros((1, TOKENS, REGIONS), bool), joint, pos),
    )  # fmt: skip
    return known, view


# hand


@pytest.mark.parametrize(("point", "straight"), [((0.5, 0.1, 0.05), True), ((0.75, -0.2, 0.25), False), ((0.24, 0.2, 0.04), False)])
@pytest.mark.parametrize("yaw", [-1.5, -0.3, 0.8])
def test_the_hand_leans_only_where_the_arm_would_be_stretched_or_folded(point, straight, yaw):
    point = np.array(point)
    approach = hand.reaching(point, yaw)
    assert np.linalg.norm(approach) == pytest.approx(1.0)
    assert (approach[2] < -0.9999) == straight
    if not straight:
        outwards = approach[:2] @ point[:2]
        assert (outwards > 0) == (np.hypot(*point[:2]) > 0.5)  # outwards where it is far, inwards where it is near
        level, leaning = (np.linalg.norm(point - 0.21 * a - SHOULDER) for a in (np.array([0.0, 0.0, -1.0]), approach))
        assert (leaning < level) == (outwards > 0)


def test_orientations_are_rotations_whose_axes_are_closing_and_approach():
    rng = np.random.default_rng(0)
    closing = hand.level(rng.uniform(-3, 3, 5))
    found = hand.rotation(closing, np.tile([0.0, 0.0, -1.0], (5, 1)))
    assert np.allclose(found @ found.swapaxes(1, 2), np.eye(3)) and np.allclose(np.linalg.det(found), 1.0)
    assert np.allclose(found[:, :, 1], closing) and np.allclose(found[:, :, 2], (0, 0, -1))


def test_room_counts_what_the_fingers_sweep_and_the_palm_over_it():
    point, beside = np.array([0.5, 0.0, 0.03]), Footprint(0.5, 0.07, 0.01, 0.01, 0.0, 0.0, 0.05)
    assert hand.room(point, math.pi / 2, []) == math.inf
    assert hand.room(point, math.pi / 2, [beside]) == pytest.approx(0.06 - 0.04 - 0.0145 - 0.003)
    assert hand.room(point, 0.0, [beside]) == pytest.approx(0.06 - 0.0105)  # the fingers are narrow
    assert hand.room(point, math.pi / 2, [dataclasses.replace(beside, top=0.1)]) < 0  # as tall as the palm is low
    assert hand.room(point, math.pi / 2, [dataclasses.replace(beside, top=0.01)]) == math.inf


# holds


@pytest.mark.parametrize("category", sorted(c for c, m in things.MODELS.items() if m.free and c != "basket"))
def test_everything_that_moves_can_be_held(category):
    model = things.MODELS[category]
    found = grips.holds(model)
    assert found
    for hold in found:
        x, y, z = hold.pos_m
        assert model.half_m[2] - z <= hand.PALM_M  # the palm stays above it
        assert z - hand.TIP_M >= -model.half_m[2]  # the tips above what it stands on
        if category not in grips.RIMS and category not in grips.NECKS:
            across = abs(math.cos(hold.closing_rad)) * model.half_m[0] + abs(math.sin(hold.closing_rad)) * model.half_m[1]
            assert across < hand.OPEN_M
            assert abs(x) < model.half_m[0] and abs(y) < model.half_m[1]


def test_what_is_too_wide_has_no_hold():
    soup = things.MODELS["alphabet_soup"]
    assert grips.holds(soup, 1.2) and not grips.holds(soup, 1.3)
    assert grips.holds(things.MODELS["akita_black_bowl"], 1.3)  # by its rim


# what stands in the way


def test_the_way_is_as_high_as_what_stands_within_reach_of_it():
    low, high = Footprint(0.5, 0.0, 0.05, 0.05, 0.4, 0.0, 0.1), Footprint(0.5, 0.3, 0.05, 0.05, 0.0, 0.0, 0.3)
    a, b = np.array([0.3, 0.0]), np.array([0.7, 0.0])
    assert highest_between(a, b, [low, high], 0.06) == 0.1
    assert highest_between(a, b, [low, high], 0.26) == 0.3
    assert highest_between(a, np.array([0.35, 0.0]), [low], 0.06) == 0.0
    assert highest_between(a, a, [low], 0.06) == 0.0


def test_an_open_drawer_stands_in_the_way():
    goal = Expr("libero_on", ("akita_black_bowl_1", "plate_1"))
    spec = scene(goal)
    closed, opened = (seen(spec, d)[0].boxes(seen(spec, d)[1], 0)["wooden_cabinet_1"] for d in (0.0, 0.15))
    front = seen(spec)[0].fixed("wooden_cabinet_1").at(0.0, -0.2, 0.18)
    spot = Footprint(float(front[0]), float(front[1]), 0.01, 0.01, 0.0)
    assert min(gap(spot, box) for box in closed) > 0.05 > min(gap(spot, box) for box in opened)


# steps


def test_a_thing_on_a_thing_and_on_a_place_of_a_fixture():
    known, view = seen(scene(Expr("libero_on", ("akita_black_bowl_1", "plate_1"))))
    (put,) = steps_of(known, view, 0)
    assert isinstance(put, Put) and put.target == known.token["akita_black_bowl_1"] and put.token == put.touch == known.token["plate_1"]
    known, view = seen(scene(Expr("libero_on", ("akita_black_bowl_1", "flat_stove_1_cook_region"))))
    (put,) = steps_of(known, view, 0)
    assert isinstance(put, Put) and put.region == NAMES.index("flat_stove_1_cook_region") and put.touch == known.token["flat_stove_1"]
    known, view = seen(scene(Expr("libero_on", ("plate_1", "main_table_plate_region"))))
    (put,) = steps_of(known, view, 0)
    assert isinstance(put, Put) and put.push and put.touch == TABLE


def test_what_goes_into_a_closed_drawer_opens_it_first():
    goal = Expr("libero_in", ("akita_black_bowl_1", "wooden_cabinet_1_top_region"))
    known, view = seen(scene(goal), 0.15)
    (put,) = steps_of(known, view, 0)
    assert isinstance(put, Put) and put.rim_m is not None
    known, view = seen(scene(goal))
    *aside, move, put = steps_of(known, view, 0)
    assert isinstance(move, Move) and move.aim == INSIDE_AIM_M and isinstance(put, Put) and not aside
    # A bowl where the drawer opens is put aside, clear of it.
    under = known.fixed("wooden_cabinet_1").at(0.0, -0.18, 0.0)
    view.pos[0, known.token["akita_black_bowl_1"]] = *under[:2], 0.0253
    aside, move, put = steps_of(known, view, 0)
    assert isinstance(aside, Put) and aside.token == aside.region == -1 and aside.touch == TABLE
    x, y, _ = aside.offset_m
    bowl = Footprint(x, y, 0.0535, 0.0536, 0.0)
    assert view.regions is not None
    opened = dataclasses.replace(view, regions=dataclasses.replace(view.regions, joint=np.full((1, REGIONS), INSIDE_AIM_M)))
    assert min(gap(bowl, box) for name, boxes in known.boxes(opened, 0).items() if name != "akita_black_bowl_1" for box in boxes) > 0


def test_drawers_and_knobs():
    known, view = seen(scene(Expr("libero_open", ("wooden_cabinet_1_top_region",))))
    (move,) = steps_of(known, view, 0)
    assert isinstance(move, Move) and (move.joint, move.aim) == ("top_level", OPEN_AIM_M)
    plan, ways = plan_of(known, move, view, 0, 0)
    assert ways == 1 and plan.moves and plan.tilted and np.allclose(plan.rotation @ plan.rotation.T, np.eye(3))
    assert plan.axis @ plan.rotation[:, 2] > 0.8  # the hand looks at the drawer's front; a negative coordinate is open
    known, view = seen(scene(Expr("libero_turned_on", ("flat_stove_1",))))
    (move,) = steps_of(known, view, 0)
    assert isinstance(move, Move) and move.region == -1 and move.aim > 0.5
    assert plan_of(known, move, view, 0, 0)[0].turns


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        (Expr("on", ("akita_black_bowl_1", "plate_1")), "none of LIBERO's"),
        (Expr("libero_on", ("wooden_cabinet_1", "plate_1")), "nothing that can be picked up"),
        (Expr("libero_open", ("wooden_cabinet_1_top_side",)), "no drawer"),
        (Expr("libero_on", ("plate_1", "main_table_elsewhere_region")), "no region main_table_elsewhere_region: use one of"),
    ],
)
def test_says_why_there_is_no_plan(goal, message):
    known, view = seen(scene(goal))
    with pytest.raises(NoPlan, match=message):
        steps_of(known, view, 0)


def test_the_handle_of_the_bottom_drawer_is_out_of_reach():
    known, view = seen(scene(Expr("libero_open", ("wooden_cabinet_1_top_region",))))
    (move,) = steps_of(known, view, 0)
    assert isinstance(move, Move)
    with pytest.raises(NoPlan, match="no room at the handle of bottom_level"):
        plan_of(known, dataclasses.replace(move, joint="bottom_level"), view, 0, 0)


def test_holds_are_tried_one_after_the_other_the_freest_first():
    known, view = seen(scene(Expr("libero_on", ("akita_black_bowl_1", "plate_1"))))
    (put,) = steps_of(known, view, 0)
    plans = [plan_of(known, put, view, 0, passed)[0] for passed in range(13)]
    ways = plan_of(known, put, view, 0, 0)[1]
    assert ways == 12 and len({p.yaw for p in plans}) == 12 and plans[12].yaw == plans[0].yaw
    bowl = np.asarray(view.pos[0, known.token["akita_black_bowl_1"]])
    # Something tall beside the first choice makes it the last.
    beside = bowl + 2.2 * plans[0].grip * (1, 1, 0)
    view.pos[0, known.token["plate_1"]] = *beside[:2], 0.1
    view.half_extent[0, known.token["plate_1"]] = 0.02, 0.02, 0.1
    assert plan_of(known, put, view, 0, 0)[0].yaw != plans[0].yaw


def test_many_plans_hold_what_each_world_was_given():
    many = Plans(3)
    plan = Plan(target=4, grip=np.array([1.0, 2.0, 3.0]), moves=True, aim=-0.1)
    many.put(1, plan)
    for f in dataclasses.fields(Plan):
        assert np.array_equal(getattr(many, f.name)[1], getattr(plan, f.name))
        assert np.array_equal(getattr(many, f.name)[[0, 2]], np.stack([getattr(Plan(), f.name)] * 2))
