from __future__ import annotations

import dataclasses
import hashlib
import json
import math

import numpy as np
import pytest

from coda_jax.scenes.assets import SHAPES
from coda_jax.scenes.catalogue import CATEGORIES, SPLITS, Catalogue, UnknownAsset, catalogue_hash
from coda_jax.scenes.categories import table
from coda_jax.scenes.categories.instances import INSTANCES
from coda_jax.scenes.categories.record import AFFORDANCES
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
from coda_jax.scenes.shapes.grasping import surface, swept

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
    rigid = table.CATEGORIES.values()
    assert len(rigid) == 60 and sum(a.kind != "articulated" for a in ALL) == 60 * INSTANCES == 1200
    assert sum(a.kind == "articulated" for a in ALL) == 300
    assert [sum(c.split == s for c in rigid) for s in SPLITS] == [44, 8, 8]
    assert all(c.kind == "object" for c in rigid if c.split != "train")
    for category in rigid:
        instances = [a for a in ALL if a.category == category.name]
        assert len(instances) == INSTANCES == len({a.primitives for a in instances})
        found = [sum(a.split == s for a in instances) for s in SPLITS]
        assert found == ([12, 4, 4] if category.split == "train" else [20 * (s == category.split) for s in SPLITS])
        assert set(category.affordances) <= set(AFFORDANCES)


def test_splits_are_disjoint_and_complete():
    parts = [{a.asset_id for a in Catalogue(s)} for s in SPLITS]
    assert sum(map(len, parts)) == len(set().union(*parts)) == len(ALL)
    held_out = {c.name for c in CATEGORIES.values() if c.split != "train"}
    assert not held_out & set(Catalogue().categories())


def test_first_instances_never_change():
    """Later versions may add instances; the first twelve of the first twenty categories keep shape, mass and split for good."""
    first = "block ball carton can bottle mug banana hammer screwdriver pear dumbbell goblet plate board tray stand bowl basket bin box"
    everything = Catalogue.all()
    content = []
    for name in first.split():
        for i in range(12):
            a = everything.get(f"{name}_{i:02d}")
            record = dataclasses.asdict(a)
            content.append({k: v for k, v in record.items() if k != "affordances"})
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "2a38050d2ae46ea0"


@pytest.mark.parametrize("category", [c for c in CATEGORIES.values() if c.kind == "object"], ids=lambda c: c.name)
def test_objects_are_graspable(category):
    """Widths and heights suit jaws, palm and tips, and the stated width is what the fingers meet when they come down and close."""
    for asset in Catalogue.all().instances(category.name):
        assert 1 <= len(asset.primitives) <= 6 and {p.shape for p in asset.primitives} <= set(SHAPES)
        assert 0.03 <= asset.mass_kg <= 0.4 and 1 <= len(asset.grasps) <= 4
        hz = asset.half_extent_m[2]
        points = np.concatenate([surface(p) for p in asset.primitives])
        for grasp in asset.grasps:
            assert 0.015 <= grasp.width_m <= MAX_GRASP_WIDTH_M / 1.04  # the largest scale of the generator still fits
            assert hz - grasp.pos_m[2] <= MAX_ABOVE_GRIP_M
            assert hz + grasp.pos_m[2] >= MIN_GRIP_HEIGHT_M - 1e-9
            assert all(abs(p) <= h for p, h in zip(grasp.pos_m, asset.half_extent_m, strict=True))
            met = max(swept(points, grasp))
            # a bottle's neck is short: the tips beside it reach the shoulder before they can close further
            assert met == pytest.approx(grasp.width_m / 2, abs=0.002) or (category.name == "bottle" and met < MAX_GRASP_WIDTH_M / 2)


def test_long_things_need_a_yaw():
    for category in ("carton", "banana", "hammer", "screwdriver", "dumbbell", "fork", "torch", "car"):
        for asset in Catalogue.all().instances(category):
            assert {g.yaw_rad for g in asset.grasps} == {0.0}
            assert asset.half_extent_m[1] * 2 > 0.07


@pytest.mark.parametrize("category", [c for c in table.CATEGORIES.values() if c.kind != "object"], ids=lambda c: c.name)
def test_fixtures(category):
    for asset in Catalogue.all().instances(category.name):
        assert 1 <= len(asset.primitives) <= 6 and not asset.grasps
        low, high = bounding_box(asset.primitives)
        assert high == pytest.approx(asset.half_extent_m, abs=2e-6) and low == pytest.approx([-h for h in asset.half_extent_m], abs=2e-6)
        if asset.kind == "container":
            cx, cy, cz = asset.cavity_half_m
            assert all(abs(p) + c <= h + 1e-6 for p, c, h in zip(asset.cavity_pos_m, asset.cavity_half_m, asset.half_extent_m, strict=True))
            if "contains" in asset.affordances:
                assert min(cx, cy) >= 0.06  # an open hand: 0.04 m and a finger of 0.01 m to each side, and play
                assert 0.03 <= 2 * cz <= 0.06
        else:
            assert "supports" in asset.affordances and not any(asset.cavity_half_m)
            assert max(p.pos_m[2] for p in asset.primitives) < asset.half_extent_m[2] or len(asset.primitives) == 1


def _level(p, z):
    """Whether a primitive has a level face at height z, and its area, m^2."""
    turned = abs(p.quat_wxyz[1]) + abs(p.quat_wxyz[2]) > 1e-9
    half = {"box": p.size_m[2], "cylinder": p.size_m[1]}.get(p.shape, -1.0)
    if turned or half < 0 or min(abs(p.pos_m[2] + half - z), abs(p.pos_m[2] - half - z)) > 1e-5:
        return 0.0
    return 4 * p.size_m[0] * p.size_m[1] if p.shape == "box" else math.pi * p.size_m[0] ** 2


@pytest.mark.parametrize("asset", [a for a in OBJECTS if a.asset_id.endswith("_03")], ids=lambda a: a.asset_id)
def test_stackable_means_level_above_and_below(asset):
    top, bottom = (sum(_level(p, side * asset.half_extent_m[2]) for p in asset.primitives) for side in (1, -1))
    if "stackable" in asset.affordances:
        hx, hy, _ = asset.half_extent_m
        assert top > 0.4 * 4 * hx * hy and bottom > 0.15 * 4 * hx * hy


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


def test_hash_names_version_and_content(monkeypatch):
    """Pinned: a change of the catalogue is a new version of it, and frozen suites have to be made again."""
    assert catalogue_hash() == "55b1c7088632d438"
    monkeypatch.setattr("coda_jax.scenes.catalogue.VERSION", 99)
    assert catalogue_hash.__wrapped__() != "55b1c7088632d438"
