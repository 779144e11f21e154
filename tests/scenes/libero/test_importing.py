"""Tasks as scenes: places drawn or read from a state, in the scene's frame, with everything the factors need."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest

from coda_jax.programs.expressions import Expr
from coda_jax.runtime import InputError
from coda_jax.scenes.libero import bddl, importing, placing, states, tasks, things
from coda_jax.scenes.libero.bddl import Atom
from coda_jax.scenes.placement import gap
from coda_jax.scenes.spec import from_json, to_json
from tests.scenes.libero.texts import TASK

LAYOUT = "libero_goal/put_the_bowl_on_the_plate"


def made(seed: int = 0, text: str = TASK):
    problem = bddl.parse(text)
    return importing.scene(problem, "libero_goal", LAYOUT, placing.draw(problem, seed))


def test_a_task_becomes_a_scene_of_three_factors():
    spec = made()
    assert spec.task.goal == Expr("libero_on", ("akita_black_bowl_1", "plate_1"))
    assert spec.task.instruction == "put the bowl on the plate"
    assert spec.with_role("target") == ("akita_black_bowl_1",) and spec.with_role("reference") == ("plate_1",)
    free = ("akita_black_bowl_1", "akita_black_bowl_2", "plate_1", "cookies_1")
    assert spec.object_ids == (*free, "flat_stove_1", "wooden_cabinet_1", "wooden_cabinet_1_middle")
    assert spec.attribute("plate_1").mass_kg == things.MODELS["plate"].mass_kg
    assert to_json(from_json(to_json(spec))) == to_json(spec)


def test_draws_stay_in_their_regions_apart_and_at_rest():
    seen = set()
    for seed in range(20):
        spec = made(seed)
        root, _ = things.root_of(things.MODELS["akita_black_bowl"], *_pose(spec, "akita_black_bowl_1"))
        x, y = root[0] - 0.66, root[1]
        assert abs(x + 0.09) <= 0.0151 and min(abs(y + 0.1), abs(y - 0.2)) <= 0.0151
        seen.add(y > 0)
        assert spec.placement("akita_black_bowl_1").pos_m[2] == pytest.approx(things.MODELS["akita_black_bowl"].half_m[2])
        cabinet = spec.placement("wooden_cabinet_1")
        assert 3.0 <= cabinet.yaw_rad <= 3.2 and 0.875 <= (cabinet.opening or 0.0) <= 1.0
        assert spec.placement("wooden_cabinet_1_middle").opening == 0.0 and spec.placement("flat_stove_1").opening == 0.0
        top, _ = things.root_of(things.MODELS["akita_black_bowl"], *_pose(spec, "akita_black_bowl_2"))
        assert top[2] == pytest.approx(0.005 + 0.22299 - 0.00159, abs=1e-4)
    assert seen == {True, False}  # both rectangles
    assert made(3) == made(3) != made(4)


def test_clearance_is_the_smallest_gap_to_what_stands_beside():
    for seed in range(5):
        spec = made(seed)
        known = importing.models(placing.contents(bddl.parse(TASK)))
        shapes = {p.object: placing.footprint(known[p.object], p) for p in spec.spatial.placements if p.support == placing.TABLE}
        for name, shape in shapes.items():
            least = min(gap(shape, other) for n, other in shapes.items() if n != name)
            assert spec.placement(name).clearance_m == pytest.approx(min(max(least, 0.0), importing.MOST_CLEARANCE_M), abs=1e-6)
        assert {p.clearance_m for p in spec.spatial.placements if p.object not in shapes} == {0.0}


def _pose(spec, name):
    return spec.placement(name).pos_m, spec.placement(name).yaw_rad


def test_a_thing_in_an_open_drawer_is_where_the_drawer_is():
    spec = made(1)
    cabinet = spec.placement("wooden_cabinet_1")
    root, _ = things.root_of(things.MODELS["wooden_cabinet"], cabinet.pos_m, cabinet.yaw_rad)
    away = math.dist(spec.placement("cookies_1").pos_m[:2], root[:2])
    assert away == pytest.approx(0.16 * (cabinet.opening or 0.0) - 0.01128, abs=1e-3)


def test_poses_of_bodies_and_places_are_each_other_s_inverse():
    rng = np.random.default_rng(0)
    for model in things.ASSETS.values():
        pos, yaw, scale = tuple(rng.normal(size=3)), float(rng.uniform(-3, 3)), float(rng.uniform(0.5, 2))
        root, quat = things.root_of(model, pos, yaw, scale)
        assert np.allclose(things.centre_of(model, root, yaw, scale), pos)
        assert things.yaw_of(model, quat) == pytest.approx(yaw)
        w, x, y, z = quat
        assert things.yaw_of(model, (-w, -x, -y, -z)) == pytest.approx(yaw)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(On plate_1 main_table_plate_region)", "", "no initial relation says where plate_1 stands"),
        ("(On plate_1 main_table_plate_region)", "(On plate_1 plate_1)", "stand on each other"),
        ("(On plate_1 main_table_plate_region)", "(On plate_1 cookies_1) (On plate_1 main_table_plate_region)", "stands in two places"),
        ("(On plate_1 main_table_plate_region)", "(On plate_1 main_table)", "main_table is no region of this task: declare it"),
        ("(On flat_stove_1 main_table_stove_region)", "(On flat_stove_1 plate_1)", "plate_1 is no region of this task"),
        ("LIBERO_Tabletop", "LIBERO_Coffee", "is not simulated here"),
        ("cookies_1 - cookies", "cookies_1 - moka_pot", "no model moka_pot"),
        ("(And (On akita_black_bowl_1 plate_1))", "(And (On akita_black_bowl_1 plate_1) (On cookies_1 plate_1))", "the goal has 2 parts"),
        ("(0.09 0.04 0.11 0.06)", "(-0.1 -0.11 -0.08 -0.09) (-0.1 0.19 -0.08 0.21)", "no draw of 400"),
    ],
)
def test_says_what_cannot_be_a_scene(old, new, message):
    text = TASK.replace(old, new)
    if "no draw" in message:  # both rectangles are the bowl's: a second bowl there leaves no place
        text = text.replace("(On akita_black_bowl_2 wooden_cabinet_1_top_side)", "(On akita_black_bowl_2 main_table_bowl_region)")
    with pytest.raises(InputError, match=re.escape(message)):
        made(0, text)


def test_a_goal_s_things():
    found = placing.contents(bddl.parse(TASK))
    cases = {
        ("open", "wooden_cabinet_1_top_region"): ("wooden_cabinet_1", "wooden_cabinet_1"),
        ("open", "wooden_cabinet_1_middle_region"): ("wooden_cabinet_1_middle", "wooden_cabinet_1_middle"),
        ("open", "wooden_cabinet_1_bottom_region"): ("wooden_cabinet_1", "wooden_cabinet_1"),
        ("turnon", "flat_stove_1"): ("flat_stove_1", "flat_stove_1"),
        ("in", "plate_1", "wooden_cabinet_1_middle_region"): ("plate_1", "wooden_cabinet_1_middle"),
        ("on", "plate_1", "flat_stove_1_cook_region"): ("plate_1", "flat_stove_1"),
        ("on", "plate_1", "main_table_stove_front_region"): ("plate_1", "flat_stove_1"),
    }
    for (predicate, *names), expected in cases.items():
        assert placing.goal_parts(Atom(predicate, tuple(names)), found) == expected


def test_an_initial_state_is_told_by_its_number_until_something_moves_or_grows():
    spec = dataclasses.replace(made(), spatial=dataclasses.replace(made().spatial, layout=LAYOUT + "@17"))
    assert importing.exact_state(spec) == 17 and importing.exact_state(made()) is None
    first, *others = spec.attributes.objects
    heavier = (dataclasses.replace(first, mass_kg=0.5), *others)
    assert importing.exact_state(dataclasses.replace(spec, attributes=dataclasses.replace(spec.attributes, objects=heavier))) == 17
    larger = (dataclasses.replace(first, scale=1.1), *others)
    assert importing.exact_state(dataclasses.replace(spec, attributes=dataclasses.replace(spec.attributes, objects=larger))) is None


@pytest.mark.libero
@pytest.mark.parametrize("family", tasks.FAMILIES)
def test_initial_states_of_the_suites_become_scenes(family):
    for ending in ("", "_swap", "_task"):
        for task in tasks.tasks(family + ending)[::3]:
            rows = states.read(task.init)
            spec = importing.initial_scene(task, 49, seed=1, rows=rows)
            found = placing.contents(task.problem())
            for i, name in enumerate(found.free):
                root, quat = things.root_of(found.free[name], *_pose(spec, name))
                at = 1 + placing.ROBOT_Q + placing.FREE_Q * i
                assert np.allclose(np.add(root, found.arena.origin_m)[:2], rows[49][at : at + 2], atol=2e-6)
                assert abs(np.dot(quat, rows[49][at + 3 : at + 7])) == pytest.approx(1, abs=1e-6)
    with pytest.raises(InputError, match="initial states 0 to 49, not 50"):
        importing.initial_scene(task, 50, seed=0)
    with pytest.raises(InputError, match="numbers, this task's have"):
        placing.from_state(task.problem(), rows[0][:-1], 0)
