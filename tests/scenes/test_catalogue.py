from __future__ import annotations

import math

import pytest

from coda_jax.scenes.assets import SHAPES
from coda_jax.scenes.catalogue import CATEGORIES, SPLITS, Catalogue, UnknownAsset, catalogue_hash
from coda_jax.scenes.shapes.build import (
    MAX_ABOVE_GRIP_M,
    MAX_GRASP_WIDTH_M,
    MIN_GRIP_HEIGHT_M,
    Shape,
    about,
    assemble,
    bounding_box,
    box,
    lying_capsule,
    upright_cylinder,
)

ALL = tuple(Catalogue.all())
OBJECTS = [a for a in ALL if a.kind == "object"]
FIXTURES = [a for a in ALL if a.kind in ("support", "container")]


def test_assemble_by_hand():
    # cylinder of radius 2 cm from z = 0 to 6 cm, and a 2 cm cube touching it at x = 2..4 cm: x from -2 to 4, z from 0 to 6
    shape = Shape((upright_cylinder(0.02, 0.0, 0.06), box(0.01, 0.01, 0.01, x=0.03, z=0.03)))
    moved, half = assemble(shape)
    assert half == (0.03, 0.02, 0.03)
    assert moved.primitives[0].pos_m == (-0.01, 0.0, 0.0)
    assert moved.primitives[1].pos_m == (0.02, 0.0, 0.0)


def test_rotated_bounding_boxes_by_hand():
    low, high = bounding_box([lying_capsule(0.01, 0.04, 0.0, 0.0, 0.01, math.pi / 2)])  # along -x after the quarter turn
    assert high == pytest.approx((0.05, 0.01, 0.02)) and low == pytest.approx((-0.05, -0.01, 0.0))
    low, high = bounding_box([box(0.03, 0.01, 0.02, quat=about("z", math.pi / 4))])
    assert high == pytest.approx((0.04 / math.sqrt(2), 0.04 / math.sqrt(2), 0.02))


def test_enough_of_everything():
    rigid = [c for c in CATEGORIES.values() if c.kind == "object"]
    assert [sum(c.split == s for c in rigid) for s in SPLITS] == [8, 2, 2]
    for category in CATEGORIES.values():
        instances = [a for a in ALL if a.category == category.name]
        assert len(instances) >= 10 and len({a.primitives for a in instances}) == len(instances)
        if category.split == "train":
            counts = [sum(a.split == s for a in instances) for s in SPLITS]
            assert counts[0] >= 8 and counts[1] >= 2 and counts[2] >= 2
        else:
            assert {a.split for a in instances} == {category.split}


def test_splits_are_disjoint_and_complete():
    parts = [{a.asset_id for a in Catalogue(s)} for s in SPLITS]
    assert sum(map(len, parts)) == len(set().union(*parts)) == len(ALL)
    held_out = {c.name for c in CATEGORIES.values() if c.split != "train"}
    assert not held_out & set(Catalogue().categories())


@pytest.mark.parametrize("asset", OBJECTS, ids=lambda a: a.asset_id)
def test_objects_are_graspable(asset):
    assert 1 <= len(asset.primitives) <= 3 and {p.shape for p in asset.primitives} <= set(SHAPES)
    assert 0.03 <= asset.mass_kg <= 0.4
    assert 1 <= len(asset.grasps) <= 4
    hz = asset.half_extent_m[2]
    for grasp in asset.grasps:
        assert 0.015 <= grasp.width_m <= MAX_GRASP_WIDTH_M / 1.04  # the largest scale of the generator still fits
        assert hz - grasp.pos_m[2] <= MAX_ABOVE_GRIP_M
        assert hz + grasp.pos_m[2] >= MIN_GRIP_HEIGHT_M - 1e-9
        assert all(abs(p) <= h for p, h in zip(grasp.pos_m, asset.half_extent_m, strict=True))


def test_long_things_need_a_yaw():
    for category in ("carton", "banana", "hammer", "screwdriver", "dumbbell"):
        for asset in Catalogue.all().instances(category):
            assert {g.yaw_rad for g in asset.grasps} == {0.0}
            assert asset.half_extent_m[1] * 2 > 0.07


@pytest.mark.parametrize("asset", FIXTURES, ids=lambda a: a.asset_id)
def test_fixtures(asset):
    assert 1 <= len(asset.primitives) <= 6 and not asset.grasps
    low, high = bounding_box(asset.primitives)
    assert high == pytest.approx(asset.half_extent_m, abs=2e-6) and low == pytest.approx([-h for h in asset.half_extent_m], abs=2e-6)
    if asset.kind == "container":
        cx, cy, cz = asset.cavity_half_m
        assert min(cx, cy) >= 0.06  # an open hand: 0.04 m and a finger of 0.01 m to each side, and play
        assert 0.03 <= 2 * cz <= 0.06
        assert all(abs(p) + c <= h + 1e-6 for p, c, h in zip(asset.cavity_pos_m, asset.cavity_half_m, asset.half_extent_m, strict=True))
    else:
        assert not any(asset.cavity_half_m)
        assert max(p.pos_m[2] for p in asset.primitives) < asset.half_extent_m[2]


def test_held_out_instances_are_new_sizes():
    trained = [a.half_extent_m[0] for a in Catalogue().instances("ball")]
    held_out = [a.half_extent_m[0] for a in Catalogue.all().instances("ball") if a.split != "train"]
    assert all(r < min(trained) or r > max(trained) for r in held_out)


def test_unknown_asset_names_the_nearest():
    with pytest.raises(UnknownAsset, match="'mugg_01': nearest ids are mug_01"):
        Catalogue().get("mugg_01")
    with pytest.raises(UnknownAsset, match="unknown asset 'goblet_00'"):
        Catalogue().get("goblet_00")
    with pytest.raises(ValueError, match="train, validation, test"):
        Catalogue("dev")


def test_hash():
    assert len(catalogue_hash()) == 16
