from __future__ import annotations

import dataclasses

import pytest

from coda_jax.scenes.assets import Asset, Primitive
from coda_jax.scenes.catalogue import CATEGORIES, Catalogue
from coda_jax.scenes.fit import CLEARANCE_M, clearance_m, fits

ALL = Catalogue.all()
PEGS = [a for a in ALL if "insertable" in a.affordances]
HOLES = [a for a in ALL if "receives" in a.affordances]


def _peg(*primitives: Primitive) -> Asset:
    high = max(p.pos_m[2] + p.size_m[2 if p.shape == "box" else 1] for p in primitives)
    return dataclasses.replace(ALL.get("peg_00"), primitives=primitives, half_extent_m=(0.02, 0.02, high))


def test_clearance_by_hand():
    socket = ALL.get("socket_03")
    hole = socket.cavity_half_m[0]
    square = _peg(Primitive("box", (0.012, 0.015, 0.05)))
    assert clearance_m(square, socket) == pytest.approx(hole - 0.015)
    ring, inner = ALL.get("collar_03"), ALL.get("collar_03").cavity_half_m[0] * (1 + 3**0.5) / 2
    pole = _peg(Primitive("cylinder", (0.014, 0.05, 0.0)))
    assert clearance_m(pole, ring) == pytest.approx(inner - 0.014, abs=1e-5)
    headed = _peg(Primitive("cylinder", (0.014, 0.05, 0.0)), Primitive("box", (0.03, 0.03, 0.01), (0.0, 0.0, 0.04)))
    assert clearance_m(headed, ring) == clearance_m(pole, ring)  # the head stays above the rim
    with pytest.raises(ValueError, match="bowl_00 is no hole for pegs"):
        clearance_m(pole, ALL.get("bowl_00"))
    assert not fits(ALL.get("can_00"), socket)


@pytest.mark.parametrize("peg", PEGS, ids=lambda a: a.asset_id)
def test_every_peg_has_a_hole_of_its_split(peg):
    """Held-out categories meet trained holes, held-out instances those of their own split."""
    split = peg.split if CATEGORIES[peg.category].split == "train" else "train"
    found = [h for h in HOLES if h.split == split and fits(peg, h)]
    assert found
    for hole in found:
        assert CLEARANCE_M[0] <= clearance_m(peg, hole) <= CLEARANCE_M[1]
        tips = peg.half_extent_m[2] + max(g.pos_m[2] for g in peg.grasps) - 0.011
        floor = hole.half_extent_m[2] + hole.cavity_pos_m[2] - hole.cavity_half_m[2]
        assert floor + tips > 2 * hole.half_extent_m[2]  # the fingers stay above the rim


def test_every_hole_takes_a_peg_of_its_split():
    for hole in HOLES:
        assert any(fits(p, hole) for p in PEGS if p.split == hole.split and CATEGORIES[p.category].split == "train"), hole.asset_id
