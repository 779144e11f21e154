"""Stand-ins: what they keep of a shape, and which of them an assignment takes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coda_jax.scenes.articulated import Articulated
from coda_jax.scenes.assets import Primitive
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.shapes.build import about, bounding_box, volume
from coda_jax.sim.mjx_buckets import MJX_BUCKETS, slot_of
from coda_jax.sim.mjx_surrogates import MOST_LOSS, SurrogateError, fit, height_change_m, lost_volume, options

BOXES = ("box",) * 6
CAN = Primitive("cylinder", (0.03, 0.05, 0.0), (0.01, 0.0, 0.0))
LARGEST = max(MJX_BUCKETS)


def box_volume(*primitives: Primitive) -> float:
    low, high = (np.array(corner) for corner in bounding_box(primitives))
    return float(np.prod(high - low))


@pytest.mark.parametrize("p", [CAN, Primitive("sphere", (0.03, 0.0, 0.0)), Primitive("ellipsoid", (0.03, 0.02, 0.01))])
def test_lost_volume_of_the_box_around_a_shape(p):
    low, high = bounding_box((p,))
    x, y, z = ((b - a) / 2 for a, b in zip(low, high, strict=True))
    around = Primitive("box", (x, y, z), p.pos_m)
    assert lost_volume(p, (around,)) == pytest.approx(box_volume(p) - volume(p), rel=0.03)
    assert lost_volume(p, (p,)) == 0.0


@pytest.mark.parametrize("quat", [(1.0, 0.0, 0.0, 0.0), about("x", math.pi / 2), about("y", math.pi / 2)])
@pytest.mark.parametrize("shape", ["cylinder", "capsule", "sphere"])
def test_stand_ins_keep_the_bounding_box(shape, quat):
    p = Primitive(shape, (0.02, 0.03, 0.0), (0.01, -0.02, 0.03), quat)
    kept = [way for way in options(p) if way.shapes[0].shape == "capsule" or shape == "cylinder"]
    assert len(kept) >= 1
    for way in kept:
        np.testing.assert_allclose(bounding_box(way.shapes), bounding_box((p,)), atol=2e-5)


def test_a_cylinder_takes_as_many_boxes_as_are_free():
    lost = [fit((CAN,), ("box",) * n).loss for n in (1, 2, 3)]
    assert lost[0] == pytest.approx((4 - math.pi) / math.pi, abs=0.02) and lost[0] > lost[1] > lost[2]
    crowded = fit((CAN, Primitive("box", (0.01, 0.01, 0.01))), ("box", "box", "capsule"))
    assert [len(part.shapes) for part in crowded.parts] == [1, 1] and crowded.shapes[2] is None


def test_what_is_there_already_is_not_replaced():
    primitives = (Primitive("capsule", (0.01, 0.02, 0.0)), Primitive("box", (0.01, 0.02, 0.03)))
    found = fit(primitives, ("box", "capsule"))
    assert found.shapes == primitives[::-1] and found.exact and found.loss == 0.0


def test_an_upright_cylinder_never_becomes_a_capsule():
    def shapes(p):
        return {way.shapes[0].shape for way in options(p)}

    assert shapes(CAN) == {"box"}
    assert shapes(Primitive("cylinder", (0.01, 0.05, 0.0), quat_wxyz=about("y", math.pi / 2))) == {"box", "capsule"}


def test_what_comes_near_nothing_is_refused():
    ball = Primitive("sphere", (0.02, 0.0, 0.0))
    with pytest.raises(SurrogateError, match=r"geom 0, a sphere.*change .* % of its volume"):
        fit((ball,), ("box",))
    with pytest.raises(SurrogateError, match="more geoms than the slot's 1 boxes"):
        fit((CAN, CAN), ("box",))
    assert fit((ball,), ("box", "capsule")).loss < 0.02


def test_every_category_fits_the_largest_slots_and_rests_as_high():
    first = {asset.category: asset for asset in Catalogue.all()}  # all instances: benchmarks.mjx_lint
    for asset in first.values():
        parts = [("object" if asset.kind == "object" else "fixture", asset.primitives)]
        if isinstance(asset, Articulated):
            parts = [("base", asset.primitives), ("link", asset.link.primitives)]
        for part, primitives in parts:
            found = fit(primitives, slot_of(LARGEST, part))
            assert found.loss <= MOST_LOSS
            assert abs(height_change_m(primitives, found)) < 2e-5, asset.asset_id
