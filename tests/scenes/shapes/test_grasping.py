from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from coda_jax.scenes.assets import SHAPES, Grasp, Primitive
from coda_jax.scenes.catalogue import CATEGORIES, Catalogue
from coda_jax.scenes.shapes.build import MAX_ABOVE_GRIP_M, MIN_GRIP_HEIGHT_M, bounding_box
from coda_jax.scenes.shapes.grasping import find_grasps, surface, swept


@pytest.mark.parametrize("shape", SHAPES)
def test_surface_fills_the_bounding_box(shape):
    size = {"sphere": (0.03, 0.0, 0.0), "cylinder": (0.02, 0.05, 0.0), "capsule": (0.02, 0.05, 0.0)}.get(shape, (0.02, 0.03, 0.05))
    turned = Primitive(shape, size, (0.01, -0.02, 0.03), (0.8, 0.0, 0.6, 0.0))
    low, high = bounding_box([turned])
    points = surface(turned)
    np.testing.assert_allclose(points.min(0), low, atol=1e-3)
    np.testing.assert_allclose(points.max(0), high, atol=1e-3)


def test_swept_by_hand():
    """A 2 x 6 cm bar with a knob that sticks out 3 cm to +x only where the finger is."""
    bar = Primitive("box", (0.01, 0.03, 0.02))
    knob = Primitive("box", (0.01, 0.005, 0.005), (0.02, 0.0, 0.0))
    points = np.concatenate([surface(bar), surface(knob)])
    assert swept(points, Grasp((0.0, 0.0, 0.0), 0.0, 0.0)) == pytest.approx((0.01, 0.03))
    assert swept(points, Grasp((0.0, 0.02, 0.0), 0.0, 0.0)) == pytest.approx((0.01, 0.01))  # past the knob
    assert swept(points, Grasp((0.0, 0.0, 0.0), math.pi / 2, 0.0)) == pytest.approx((0.03, 0.03))
    assert swept(points, Grasp((0.0, 0.5, 0.0), 0.0, 0.0)) == (0.0, 0.0)


def test_found_grasps_avoid_what_is_too_wide():
    bar, head = Primitive("box", (0.01, 0.05, 0.01)), Primitive("box", (0.05, 0.015, 0.01), (0.0, 0.06, 0.0))
    grasps = find_grasps((bar, head), 0.01)
    assert grasps and grasps[0].width_m == pytest.approx(0.02, abs=1e-3) and grasps[0].pos_m[1] < 0.035
    assert find_grasps((Primitive("box", (0.05, 0.05, 0.02)),), 0.02) == ()


@pytest.mark.parametrize("category", [c.name for c in CATEGORIES.values() if c.kind == "object"])
def test_every_object_of_the_catalogue_is_found_graspable(category):
    asset = Catalogue.all().instances(category)[3]
    grasps = find_grasps(asset.primitives, asset.half_extent_m[2])
    assert 1 <= len(grasps) <= 4
    hz = asset.half_extent_m[2]
    for grasp in grasps:
        assert hz - grasp.pos_m[2] <= MAX_ABOVE_GRIP_M + 1e-9 and hz + grasp.pos_m[2] >= MIN_GRIP_HEIGHT_M - 1e-4
        low, high = swept(np.concatenate([surface(p) for p in asset.primitives]), dataclasses.replace(grasp, width_m=0.0))
        assert low + high == pytest.approx(grasp.width_m, abs=4e-3)
