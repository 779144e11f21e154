from __future__ import annotations

import collections
import dataclasses
import time

import pytest

from coda_jax.programs.expressions import Expr
from coda_jax.scenes import families, language, suites
from coda_jax.scenes.catalogue import Catalogue, UnknownAsset
from coda_jax.scenes.generate import sample_spec
from coda_jax.scenes.layouts import LAYOUTS
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
from coda_jax.scenes.spec import from_json, to_json
from coda_jax.scenes.suites import write

TRAIN = Catalogue()


@pytest.fixture(scope="module")
def spec():
    found = (sample_spec(TRAIN, "pick_place", "id", "train", seed) for seed in range(100))
    return next(s for s in found if families.read_goal(s).relation == "on")


def _with_asset(spec, asset):
    first, *rest = spec.attributes.objects
    changed = dataclasses.replace(first, asset=asset)
    return dataclasses.replace(spec, attributes=dataclasses.replace(spec.attributes, objects=(changed, *rest)))


def _with_task(spec, **fields):
    return dataclasses.replace(spec, task=dataclasses.replace(spec.task, **fields))


def _with_places(spec, placements):
    return dataclasses.replace(spec, spatial=dataclasses.replace(spec.spatial, placements=placements))


def _refusal(spec, folder):
    with pytest.raises(HeldOutContent) as caught:
        refuse_held_out(spec, TRAIN, folder)
    return caught.value.kind, str(caught.value)


def test_training_scene_passes(spec, tmp_path):
    refuse_held_out(spec, TRAIN, tmp_path)


@pytest.mark.parametrize(("asset", "split"), [("mug_08", "validation"), ("mug_11", "test")])
def test_instance(spec, tmp_path, asset, split):
    kind, message = _refusal(_with_asset(spec, asset), tmp_path)
    assert kind == "instance" and f"{asset}, an instance held out for {split}: use one of mug_00" in message


@pytest.mark.parametrize(
    ("asset", "split", "nearest"), [("pear_00", "validation", "banana or apple or lemon"), ("goblet_03", "test", "mug or cup or jug")]
)
def test_category(spec, tmp_path, asset, split, nearest):
    kind, message = _refusal(_with_asset(spec, asset), tmp_path)
    assert kind == "category" and f"held out for {split}: use {nearest}" in message


def test_unknown_asset(spec, tmp_path):
    with pytest.raises(UnknownAsset, match="kettle_00"):
        refuse_held_out(_with_asset(spec, "kettle_00"), TRAIN, tmp_path)


@pytest.mark.parametrize("layout", ["crowd_ring", "corner_far"])
def test_layout(spec, tmp_path, layout):
    moved = dataclasses.replace(spec, spatial=dataclasses.replace(spec.spatial, layout=layout))
    kind, message = _refusal(moved, tmp_path)
    assert kind == "layout" and repr(layout) in message and "fixtures_left" in message


def test_goal_pair_however_it_is_written(spec, tmp_path):
    goal = families.read_goal(spec)
    for pair in ((goal.target, goal.reference), (goal.reference, goal.target)):
        near = Expr("at_most", (Expr("distance", pair), 0.2))
        kind, message = _refusal(_with_task(spec, goal=Expr("all_of", (Expr("on", (goal.target, "table")), near))), tmp_path)
        assert kind == "goal" and "beside a support is held out for validation" in message


@pytest.mark.parametrize("text", ["The red mug belongs on  the white plate.", "let the red mug rest on the white plate"])
def test_instruction(spec, tmp_path, text):
    kind, message = _refusal(_with_task(spec, instruction=text), tmp_path)
    assert kind == "instruction" and "put the {target} on the {reference}" in message


@pytest.mark.parametrize("joined", ["please let {}", "let {}, please", "please, let the robot let {}"])
def test_held_out_phrasing_with_more_words(spec, tmp_path, joined):
    for phrase in ("the red mug rest on the white plate", "a red mug then rest-on the white plate"):
        kind, message = _refusal(_with_task(spec, instruction=joined.format(phrase)), tmp_path)
        assert kind == "instruction" and "held out for test" in message


def test_every_held_out_phrasing_and_no_trained_one(spec, tmp_path):
    for template in language.all_templates():
        said = template.render(*("red mug", "white plate", "blue can")[: len(template.places)])
        text = said.replace(" the ", " a ").replace(" ", "-", 1) + " now"
        if template.split == "train":
            refuse_held_out(_with_task(spec, instruction=text), TRAIN, tmp_path)
        else:
            assert _refusal(_with_task(spec, instruction=text), tmp_path)[0] == "instruction"


def test_held_out_noun_in_the_instruction(spec, tmp_path):
    for word, split in (("goblet", "test"), ("pears", "validation")):
        kind, message = _refusal(_with_task(spec, instruction=f"{spec.task.instruction} {word}"), tmp_path)
        assert kind == "instruction" and f"a category held out for {split}" in message


def test_pair_that_is_never_trained(spec, tmp_path):
    goal = families.read_goal(spec)
    other = next(o for o, a in families.scaled_assets(spec).items() if a.kind == "object" and o != goal.target)
    kind, message = _refusal(_with_task(spec, goal=Expr("on", (goal.target, other))), tmp_path)
    assert kind == "goal" and "on a landmark is never trained" in message


def test_frozen_scene_in_disguise():
    """Nothing that leaves the things where they stand makes a frozen scene another one."""
    frozen = suites.load("pick_place", "id", "test")[0]
    first, *rest = frozen.spatial.placements
    x, y, z = first.pos_m
    names = {o: f"thing_{i}" for i, o in enumerate(frozen.object_ids)}
    renamed = to_json(frozen)
    for old, new in names.items():
        renamed = renamed.replace(f'"{old}"', f'"{new}"')
    disguises = [
        _with_places(frozen, (dataclasses.replace(first, pos_m=(x + 1e-5, y, z)), *rest)),
        _with_places(frozen, (dataclasses.replace(first, pos_m=(x + 0.01, y - 0.01, z), yaw_rad=first.yaw_rad + 0.5), *rest)),
        _with_places(frozen, tuple(dataclasses.replace(p, region="table", clearance_m=0.0) for p in frozen.spatial.placements)),
        _with_places(frozen, (dataclasses.replace(first, pos_m=(0.5, 0.0, z)), *rest)),  # one thing moved
        dataclasses.replace(frozen, spatial=dataclasses.replace(frozen.spatial, layout="free")),
        _with_task(frozen, instruction=frozen.task.instruction.upper()),
        from_json(renamed),
    ]
    for disguise in disguises:
        assert disguise.scene_id != frozen.scene_id
        with pytest.raises(HeldOutContent, match=f"as {frozen.scene_id} in pick_place.id.test") as refusal:
            refuse_held_out(disguise, TRAIN)
        assert refusal.value.kind == "scene" and "at least one" not in str(refusal.value)


def test_frozen_layouts_by_any_name(tmp_path):
    """Raised targets and narrow passages are told by geometry, whatever the layout is called (no frozen scenes in this folder)."""
    refused, drawn = collections.Counter[str](), collections.Counter[str]()
    for split in suites.SIZES:
        for scene in suites.load("pick_place", "layouts", split):
            try:
                refuse_held_out(dataclasses.replace(scene, spatial=dataclasses.replace(scene.spatial, layout="free")), TRAIN, tmp_path)
            except HeldOutContent as error:
                assert error.kind == "layout"
                refused[LAYOUTS[scene.spatial.layout].rule] += 1
            drawn[LAYOUTS[scene.spatial.layout].rule] += 1
    assert all(refused[rule] == drawn[rule] > 10 for rule in ("raised_left", "raised_right"))
    # other passages leave as much room as training; along the table none was drawn
    assert 2 * refused["passage_across"] >= drawn["passage_across"] > 0


def test_training_scenes_pass_quickly():
    scenes = [sample_spec(TRAIN, "pick_place", "id", "train", seed) for seed in range(60)]
    refuse_held_out(scenes[0], TRAIN)  # reads the frozen scenes once
    began = time.perf_counter()
    for scene in scenes:
        refuse_held_out(scene, TRAIN)
    assert time.perf_counter() - began < 0.010 * len(scenes)


def test_frozen_scene(spec, tmp_path):
    frozen = sample_spec(TRAIN, "pick_place", "id", "test", 0)
    refuse_held_out(frozen, TRAIN, tmp_path)
    write(tmp_path, "pick_place", "id", "test", [frozen])
    kind, message = _refusal(frozen, tmp_path)
    assert kind == "scene" and frozen.scene_id in message and "pick_place.id.test.jsonl" in message
