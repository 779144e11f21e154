"""Scenes with one known fault each: the check that names it, the amount, and that doing what the message says mends it."""

import dataclasses
import math
import re

import numpy as np
import pytest

from coda_jax.programs.expressions import Expr
from coda_jax.scenes.catalogue import CATEGORIES
from coda_jax.scenes.categories.instances import INSTANCES
from coda_jax.scenes.fit import fits
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim import panda
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.checks.record import CHECKS, Failure, ValiditySettings
from coda_jax.sim.checks.settle import settled_view
from coda_jax.sim.compile import compile_scene
from coda_jax.sim.inverse import inverse_kinematics, top_down
from coda_jax.sim.robot import forward_kinematics
from coda_jax.sim.validity import check
from coda_jax.types import FREE_SLOTS
from tests.sim.tabletop import BALL, BLOCK, BOARD, CAN, CATALOGUE, Thing, height, scene

SETTINGS = ValiditySettings(
    worlds=8,
    threads=1,
    penetration_m=0.001,
    pedestal_m=0.1,
    settle_s=1.0,
    settle_move_m=0.005,
    settle_tilt_rad=math.radians(5),
    settle_speed_m_s=0.02,
    settle_opening=0.01,
    density_kg_m3=(100.0, 3000.0),
    scale=(0.7, 1.4),
    longest_m=(0.015, 0.25),
    jaw_m=0.075,
    workspace_x_m=(0.25, 0.75),
    workspace_y_m=(-0.4, 0.4),
    reach_m=0.005,
    reach_rad=0.05,
)
HALF = {t.name: CATALOGUE.get(t.asset).half_extent_m for t in (BLOCK, CAN, BALL, BOARD)}


def at(thing: Thing, **changes) -> Thing:
    return dataclasses.replace(thing, **changes)


def failures(*things, **task) -> tuple[Failure, ...]:
    return check([scene(*things, **task)], CATALOGUE, SETTINGS)[0].failures


def only(found: tuple[Failure, ...], name: str) -> Failure:
    assert {f.check for f in found} == {name}, found
    return found[0]


def number(pattern: str, message: str) -> float:
    match = re.search(pattern, message)
    assert match, message
    return float(match.group(1))


def test_a_good_scene_passes():
    report = check([scene(BLOCK, CAN, BALL, BOARD)], CATALOGUE, SETTINGS)[0]
    assert report.valid and report.failures == () and report.scene_id == scene(BLOCK, CAN, BALL, BOARD).scene_id


def test_penetration_names_both_amount_place_and_a_way_out():
    deep = 0.012
    x = CAN.x + HALF["can_1"][0] + HALF["block_1"][0] - deep
    block = at(BLOCK, x=x, y=CAN.y)
    words = "put the ball on the board"
    failure = only(failures(BALL, block, CAN, BOARD, instruction=words), "penetration")
    assert {failure.object, failure.other} == {"block_1", "can_1"}
    assert failure.amount == pytest.approx(deep, abs=5e-4) and failure.unit == "m"
    assert re.search(r"_1 penetrates (block|can)_1 by 0\.012 m at \(0\.\d\d, -0\.08\); raise it \d", failure.message)
    things = {"block_1": block, "can_1": CAN}
    moved = things[failure.object]
    axis = "x" if re.search(r"or move it [\d.]+ m along [+-]x", failure.message) else "y"
    length = number(rf"or move it ([\d.]+) m along [+-]{axis}", failure.message)
    step = length if f"along +{axis}" in failure.message else -length
    things[failure.object] = at(moved, **{axis: getattr(moved, axis) + step})
    assert length < 0.02
    assert not failures(BALL, *things.values(), BOARD, instruction=words)


def test_the_suggested_move_does_not_hit_a_third_thing():
    # between the two neighbours there is no room: the block can only leave along x
    ahead, behind = at(CAN, name="can_2", y=CAN.y + 0.06, colour="white"), at(CAN, name="can_3", y=CAN.y - 0.06, colour="black")
    block = at(BLOCK, x=CAN.x, y=CAN.y + 0.002)
    found = [f for f in failures(block, CAN, ahead, behind, BOARD) if {f.object, f.other} == {"block_1", "can_1"}]
    assert re.search(r"move it [\d.]+ m along [+-]x", found[0].message)


def test_a_thing_in_the_wall_of_its_container_is_sent_inside():
    bin_ = Thing("bin_1", "bin_01", 0.55, -0.2)
    asset = CATALOGUE.get("bin_01")
    floor = asset.half_extent_m[2] + asset.cavity_pos_m[2] - asset.cavity_half_m[2]
    deep = 0.003
    y = -0.2 + asset.cavity_half_m[1] - HALF["block_1"][1] + deep
    block = at(BLOCK, name="block_2", x=0.55, y=y, bottom=floor, support="bin_1", colour="green")
    goal, words = Expr("inside", ("can_1", "bin_1")), "put the can in the bin"
    failure = next(f for f in failures(CAN, block, bin_, goal=goal, instruction=words) if f.check == "penetration")
    assert (failure.object, failure.other) == ("block_2", "bin_1")
    move = number(r"move it ([\d.]+) m along -y, away from the wall", failure.message)
    assert deep <= move <= deep + 0.005
    fixed = failures(CAN, at(block, y=y - move), bin_, goal=goal, instruction=words)
    assert not [f for f in fixed if f.check == "penetration"]


def test_fixtures_that_overlap_are_found_though_they_never_collide():
    other = Thing("plate_1", "plate_01", BOARD.x + 0.05, BOARD.y, colour="white")
    failure = only(failures(BLOCK, other, BOARD), "penetration")
    assert {failure.object, failure.other} == {"plate_1", "board_1"} and failure.amount > 0.005
    assert "raise" not in failure.message and "move it" in failure.message


def test_the_gripper_must_not_start_inside_a_thing():
    stand = Thing("stand_1", "stand_02", 0.45, 0.0, colour="white")
    tower = at(CAN, x=0.45, y=0.0, bottom=0.25 - 0.03)
    found = failures(BLOCK, tower, stand, BOARD)
    assert any(f.check == "penetration" and (f.object, f.other) == ("can_1", "gripper") for f in found)


def test_inside_the_table_gives_the_height_to_stand_at():
    failure = only(failures(at(BLOCK, bottom=-0.004), BOARD), "table")
    assert failure.amount == pytest.approx(0.004, abs=1e-9)
    assert f"raise it 0.004 m, to z = {HALF['block_1'][2]:.4f}" in failure.message
    floating = only(failures(BLOCK, at(BOARD, bottom=0.13)), "table")
    assert floating.object == "board_1" and "lower it 0.030 m" in floating.message
    assert not failures(BLOCK, at(BOARD, bottom=0.13 - floating.amount))  # as on a pedestal


def test_a_floating_thing_falls():
    failure = only(failures(at(BLOCK, bottom=0.05), BOARD), "settle")
    assert failure.object == "block_1" and failure.amount == pytest.approx(0.05, abs=1e-3)
    assert "falls 0.050 m: lower it 0.050 m" in failure.message


def test_a_thing_over_the_edge_of_its_support_tips_or_slides():
    x = BOARD.x + CATALOGUE.get(BOARD.asset).half_extent_m[0] + 0.2 * HALF["can_1"][0]
    ledge = at(CAN, x=x, y=BOARD.y, bottom=height(BOARD.asset), support="board_1")
    found = only(failures(BLOCK, ledge, BOARD), "settle")
    assert found.object == "can_1" and found.amount > math.radians(5) and "tips by" in found.message


def test_a_ball_may_turn_but_not_roll_away():
    assert not failures(BALL, BOARD, instruction="put the ball on the board")
    # on the rim of the board the ball rolls off
    x = BOARD.x + CATALOGUE.get(BOARD.asset).half_extent_m[0]
    rolling = at(BALL, x=x, y=BOARD.y, bottom=height(BOARD.asset), support="board_1")
    failure = only(failures(BLOCK, rolling, BOARD), "settle")
    assert failure.object == "ball_1" and failure.unit in ("m", "m/s")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"mass_kg": 1.5}, r"block_1 \(block_00\) has mass 1.5 kg; plausible for its size is [\d.]+..([\d.]+) kg: change it to \1"),
        ({"mass_kg": 0.001}, r"has mass 0.001 kg; plausible for its size is ([\d.]+)..[\d.]+ kg: change it to \1"),
        ({"scale": 1.5, "mass_kg": 0.2}, r"has scale 1.5; plausible for its size is 0.7..1.4: change it to 1.4"),
    ],
)
def test_implausible_sizes_and_masses_are_named(changes, text):
    found = [f for f in failures(at(BLOCK, **changes), BOARD) if f.check == "scale"]
    assert len(found) == 1 and re.search(text, found[0].message), found


def test_a_target_wider_than_the_jaws_is_refused():
    wide = at(Thing("carton_1", "carton_02", 0.5, 0.1), scale=1.4)
    settings = dataclasses.replace(SETTINGS, jaw_m=0.05)
    spec = scene(wide, BOARD, instruction="put the carton on the board")
    found = [f for f in check([spec], CATALOGUE, settings)[0].failures if f.other == "gripper" and f.check == "scale"]
    scale = number(r"scale it to ([\d.]+) or less", found[0].message)
    fixed = check([scene(at(wide, scale=scale - 0.01), BOARD, instruction="put the carton on the board")], CATALOGUE, settings)[0]
    assert not [f for f in fixed.failures if f.other == "gripper"]


def test_a_goal_that_holds_already_is_no_task():
    on_board = at(BLOCK, x=BOARD.x, y=BOARD.y, bottom=height(BOARD.asset), support="board_1")
    failure = only(failures(on_board, BOARD), "success")
    assert failure.object == "block_1" and "on(block_1, board_1) holds before anything was done" in failure.message


def test_the_scene_needs_one_target():
    spec = scene(BLOCK, BOARD)
    nobody = dataclasses.replace(spec, task=dataclasses.replace(spec.task, roles=()))
    found = check([nobody], CATALOGUE, SETTINGS)[0].failures
    assert "success" in {f.check for f in found} and any("0 targets" in f.message for f in found)


@pytest.mark.parametrize(("x", "y", "way"), [(0.9, 0.0, "-x"), (0.1, 0.0, "+x"), (0.5, -0.6, "+y"), (0.5, 0.6, "-y")])
def test_a_thing_outside_the_workspace_is_sent_back(x, y, way):
    named = next(f for f in failures(at(BLOCK, x=x, y=y), BOARD) if f.check == "workspace")
    amount = max(x - 0.75, 0.25 - x, abs(y) - 0.4)
    assert named.object == "block_1" and named.amount == pytest.approx(amount) and f"move it {amount:.3f} m along {way}" in named.message


def test_a_target_out_of_reach_is_named():
    failure = only(failures(at(BLOCK, x=0.74, y=0.39), BOARD), "reach")
    assert failure.object == "block_1" and "cannot reach the grasp of block_1, at (0.74, 0.39" in failure.message
    assert failure.amount > 0.005 and "move block_1 towards (0.5, 0.0)" in failure.message


def test_a_reference_out_of_reach_is_named_as_the_reference():
    found = failures(BLOCK, at(BOARD, x=0.74, y=-0.38))
    named = [f for f in found if f.check == "reach"]
    assert (named[0].object, named[0].other) == ("board_1", "block_1") and "release of block_1 at board_1" in named[0].message


def test_a_target_without_room_for_the_hand_is_unreachable():
    gap = 0.012
    around = [
        at(CAN, name=f"can_{i}", colour=c, x=BLOCK.x + dx * d, y=BLOCK.y + dy * d)
        for i, (c, dx, dy) in enumerate((("white", 1, 0), ("black", -1, 0), ("green", 0, 1), ("purple", 0, -1)), 1)
        for d in [HALF["can_1"][0] + max(HALF["block_1"][:2]) + gap]
    ]
    found = failures(BLOCK, *around, BOARD)
    failure = only(found, "reach")
    assert "no grasp of block_1 at (0.50, 0.10) is free for the open hand: can_1 and can_2" in failure.message


@pytest.mark.parametrize(
    ("instruction", "twin", "message"),
    [
        ("put the thing on the board", None, r"does not name block_1 by what can be seen: say 'the block'"),
        ("put the block on the board", "blue", r"does not name block_1 beside block_2 of the same category .*say 'the red block'"),
        ("put the red block on the board", "red", r"block_1 and block_2 are both called 'red block': give one of them another colour"),
        ("put the red block on the board", "blue", None),
    ],
)
def test_the_instruction_must_single_out_what_it_means(instruction, twin, message):
    others = [at(BLOCK, name="block_2", x=0.6, y=0.2, colour=twin)] if twin else []
    found = failures(BLOCK, *others, BOARD, instruction=instruction)
    if message is None:
        assert not found
    else:
        assert any(re.search(message, f.message) for f in found) and {f.check for f in found} == {"names"}


def test_what_cannot_be_built_is_reported_not_raised():
    crowd = [at(BLOCK, name=f"block_{i}", x=0.3 + 0.06 * i) for i in range(7)]
    reports = check([scene(*crowd, BOARD), scene(BLOCK, BOARD)], CATALOGUE, SETTINGS)
    assert only(reports[0].failures, "compile").message.endswith("at most 6 fit: remove 1")
    assert reports[1].valid


def test_reports_come_in_the_order_of_the_specs_whatever_the_buckets():
    good, falling = scene(BLOCK, BOARD), scene(at(BLOCK, bottom=0.05), CAN, BALL, BOARD)
    tall = scene(at(CAN, bottom=-0.01), BLOCK, BOARD, instruction="put the can on the board")
    specs = [falling, good, tall, good, falling] * 3  # more than one batch of the same bucket
    reports = check(specs, CATALOGUE, SETTINGS)
    assert [r.scene_id for r in reports] == [s.scene_id for s in specs]
    assert [tuple(f.check for f in r.failures) for r in reports] == [("settle",), (), ("table",), (), ("settle",)] * 3
    alone = [check([s], CATALOGUE, SETTINGS)[0] for s in specs[:3]]
    assert reports[:3] == alone  # the company does not change a verdict, to the bit
    for failure in (f for r in reports for f in r.failures):
        assert failure.check in CHECKS


@pytest.mark.parametrize(("suite", "split"), [("id", "train"), ("layouts", "validation"), ("categories", "test"), ("tasks", "test")])
def test_generated_scenes_are_valid(suite, split):
    specs = [sample_spec(CATALOGUE, "pick_place", suite, split, seed) for seed in range(6)]
    assert [f.message for r in check(specs, CATALOGUE, SETTINGS) for f in r.failures] == []


def test_solutions_of_the_arm_are_solutions():
    points = np.array([(0.5, 0.1, 0.05), (0.35, -0.25, 0.2), (0.6, 0.2, 0.02), (1.2, 0.0, 0.1)])
    rotation = top_down(np.array([0.3, -0.8, 1.2, 0.0]))
    q, off, turned = inverse_kinematics(panda.PANDA, points, rotation)
    position, reached, _ = forward_kinematics(panda.PANDA, q)
    assert (q >= panda.LOWER_RAD).all() and (q <= panda.UPPER_RAD).all()
    np.testing.assert_allclose(position[:3], points[:3], atol=2e-3)
    np.testing.assert_allclose(reached[:3], rotation[:3], atol=5e-3)
    assert off[:3].max() < 2e-3 and turned[:3].max() < 5e-3 and off[3] > 0.3  # out of the arm's length
    np.testing.assert_allclose(np.linalg.norm(points - position, axis=1), off)


def test_every_asset_stands_in_the_simulation():
    """All objects of the catalogue, upright on the table; a can on every support and in every container, a peg in every hole."""
    spots = [(0.35, -0.25), (0.35, 0.0), (0.35, 0.25), (0.65, -0.25)]
    objects = [a for a in CATALOGUE if a.kind == "object"]
    things = [Thing(a.asset_id, a.asset_id, *spots[i % 4], mass_kg=a.mass_kg) for i, a in enumerate(objects)]
    scenes = [scene(*things[i : i + 4], BOARD) for i in range(0, len(things), 4)]
    fixtures = [a for a in CATALOGUE if a.kind in ("support", "container")]
    for asset in fixtures:
        fixture = Thing("f", asset.asset_id, 0.5, 0.1)
        floor, carried = height(asset.asset_id), "can_02"
        if asset.kind == "container":
            floor = asset.half_extent_m[2] + asset.cavity_pos_m[2] - asset.cavity_half_m[2]
        if "receives" in asset.affordances:
            carried = next(a.asset_id for a in objects if fits(a, asset))
        scenes.append(scene(Thing("c", carried, 0.5, 0.1, bottom=floor, support="f"), fixture))
    assert len(objects) == INSTANCES * sum(c.kind == "object" for c in CATEGORIES.values())
    settings = dataclasses.replace(SETTINGS, worlds=64)
    bucket, restless = Bucket(4, 6), []
    for first in range(0, len(scenes), 64):
        compiled = [compile_scene(s, CATALOGUE, bucket) for s in scenes[first : first + 64]]
        view, diverged = settled_view(bucket, compiled, settings)
        assert not diverged.any()
        for world, one in enumerate(compiled):
            for name, token in one.index.items():
                if token >= FREE_SLOTS:
                    continue
                moved = np.linalg.norm(view.pos[world, token] - np.array(one.spec.placement(name).pos_m))
                still = np.linalg.norm(view.linvel[world, token]) < SETTINGS.settle_speed_m_s
                if moved > 0.002 or not still:
                    restless.append((name, one.spec.attributes.objects[-1].asset, float(moved)))
                floorless = one.spec.attributes.objects[-1].asset.startswith("collar")  # a ring: what stands in it stands on the table
                if name == "c" and not floorless and not view.contact[world, token, FREE_SLOTS]:
                    restless.append((one.spec.attributes.objects[-1].asset, "does not carry", 0.0))
    assert not restless
