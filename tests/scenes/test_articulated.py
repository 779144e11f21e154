"""Articulated assets: enough of each kind, boxes that hold the whole motion, handles a hand can hold, and what a scene changes of them."""

import dataclasses
import math

import pytest

from coda_jax.scenes.articulated import KINDS, Articulated, held_open, made
from coda_jax.scenes.catalogue import CATEGORIES, SPLITS, Catalogue
from coda_jax.scenes.shapes.articulated import assets
from coda_jax.scenes.shapes.build import bounding_box
from coda_jax.scenes.spec import Articulation, ObjectAttributes
from coda_jax.sim.bucket import BASE_GEOMS, LINK_GEOMS

ALL = assets()
OF_EACH = [next(a for a in ALL if a.category == name) for name in dict.fromkeys(a.category for a in ALL)]


def test_fifty_of_each_kind_in_three_splits():
    for kind in KINDS:
        mine = [a for a in ALL if a.mechanism == kind]
        assert len(mine) == 50 and all(sum(a.split == s for a in mine) >= 5 for s in SPLITS)
    held_out = {s: {a.mechanism for a in ALL if CATEGORIES[a.category].split == s} for s in ("validation", "test")}
    assert held_out == {"validation": {"door", "slider"}, "test": {"drawer", "lid"}}
    assert len(ALL) == 300 and len({a.asset_id for a in ALL}) == 300 and len({(a.primitives, a.link) for a in ALL}) == 300


def test_the_catalogue_holds_them_by_split():
    for split in SPLITS:
        assert {a.asset_id for a in Catalogue(split) if a.kind == "articulated"} == {a.asset_id for a in ALL if a.split == split}


@pytest.mark.parametrize("asset", ALL, ids=lambda a: a.asset_id)
def test_an_asset_is_sound(asset):
    assert len(asset.primitives) <= BASE_GEOMS and len(asset.link.primitives) <= LINK_GEOMS
    assert math.isclose(math.hypot(*asset.link.axis), 1.0) and 0 < asset.link.travel < 2.0
    assert held_open(asset.articulation, asset.link.travel)
    for opening in (0.0, 0.3, 0.5, 0.8, 1.0):
        low, high = bounding_box(asset.posed(opening).primitives)
        assert all(-h - 2e-3 <= a and b <= h + 2e-3 for a, b, h in zip(low, high, asset.half_extent_m, strict=True))
        (grasp,) = asset.posed(opening).grasps
        x, y, z = grasp.pos_m
        height = z + asset.half_extent_m[2]
        assert 0.05 < height < 0.3, "the finger tips would touch the table"
        # what is under the palm is lower than it, but for the link that tips away between the fingers
        handle = [asset.posed(opening).primitives[len(asset.primitives) + i] for i in asset.link.handle]
        low, high = bounding_box(handle)
        assert all(a - 1e-6 <= p <= b + 1e-6 for a, p, b in zip(low, (x, y, z), high, strict=True)), "the grip is in the handle"
    base_top = bounding_box(asset.primitives)[1][2]
    assert base_top < asset.grasps[0].pos_m[2] + 0.035, "the palm would touch the base"
    assert 0.012 <= asset.grasps[0].width_m <= 0.05


@pytest.mark.parametrize("asset", OF_EACH, ids=lambda a: a.category)
def test_opening_moves_the_link_the_way_it_should(asset):
    closed, half, opened = (asset.posed(s).grasps[0] for s in (0.0, 0.5, 1.0))
    away = [b - a for a, b in zip(closed.pos_m, opened.pos_m, strict=True)]
    if asset.mechanism == "drawer":
        assert away == pytest.approx((-asset.link.travel, 0.0, 0.0))
    if asset.mechanism == "door":
        assert away[0] < -0.05 and away[2] == pytest.approx(0.0)
        assert abs(opened.yaw_rad - closed.yaw_rad) == pytest.approx(asset.link.travel)
    if asset.mechanism == "lid":
        assert half.pos_m[2] > closed.pos_m[2] + 0.03 and away[0] > 0.05
    if asset.mechanism == "slider":
        assert abs(away[1]) == pytest.approx(asset.link.travel) and away[0] == 0.0
    if asset.mechanism == "knob":
        assert away == pytest.approx((0.0, 0.0, 0.0)) and abs(opened.yaw_rad - closed.yaw_rad) == pytest.approx(asset.link.travel)
    if asset.mechanism == "lever":
        assert away[0] < -0.06 and half.pos_m[2] > max(closed.pos_m[2], opened.pos_m[2])


@pytest.mark.parametrize("asset", OF_EACH, ids=lambda a: a.category)
def test_a_scene_changes_scale_handle_and_range(asset: Articulated):
    joint = Articulation(0.1, 1.0, 2.0, 0.7, 0.6)
    changed = made(asset, ObjectAttributes("x", asset.asset_id, 1.1, 0.1, 1.0, "red", joint))
    assert isinstance(changed, Articulated) and changed.articulation == joint
    grows = 1.1 if asset.link.joint == "slide" else 1.0
    assert changed.link.travel == pytest.approx(asset.link.travel * grows * 0.6)
    assert changed.grasps[0].width_m == pytest.approx(asset.grasps[0].width_m * 1.1 * 0.7)
    assert changed.half_extent_m == pytest.approx([1.1 * h for h in asset.half_extent_m])
    thick = [bounding_box([a.link.primitives[a.link.handle[0]]]) for a in (asset, changed)]
    widths = [high[1] - low[1] for low, high in thick]
    assert widths[1] == pytest.approx(widths[0] * 1.1 * 0.7)
    assert changed.posed(1.0).grasps[0].pos_m == pytest.approx([1.1 * v for v in asset.posed(0.6).grasps[0].pos_m])


def test_a_spring_stronger_than_friction_does_not_hold():
    joint = Articulation(10.0, 0.0, 1.0, 1.0, 1.0)
    assert held_open(joint, 0.08) and not held_open(joint, 0.09)
    assert not held_open(dataclasses.replace(joint, friction=0.5), 0.08)
