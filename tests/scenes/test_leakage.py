from __future__ import annotations

import dataclasses

import pytest

from coda_jax.programs.expressions import Expr
from coda_jax.scenes import families
from coda_jax.scenes.catalogue import Catalogue, UnknownAsset
from coda_jax.scenes.generate import sample_spec
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
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


@pytest.mark.parametrize(("asset", "split"), [("pear_00", "validation"), ("goblet_03", "test")])
def test_category(spec, tmp_path, asset, split):
    kind, message = _refusal(_with_asset(spec, asset), tmp_path)
    assert kind == "category" and f"held out for {split}: use one of block, ball" in message


def test_unknown_asset(spec, tmp_path):
    with pytest.raises(UnknownAsset, match="teapot_00"):
        refuse_held_out(_with_asset(spec, "teapot_00"), TRAIN, tmp_path)


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


def test_frozen_scene(spec, tmp_path):
    frozen = sample_spec(TRAIN, "pick_place", "id", "test", 0)
    refuse_held_out(frozen, TRAIN, tmp_path)
    write(tmp_path, "pick_place", "id", "test", [frozen])
    kind, message = _refusal(frozen, tmp_path)
    assert kind == "scene" and frozen.scene_id in message and "pick_place.id.test.jsonl" in message
