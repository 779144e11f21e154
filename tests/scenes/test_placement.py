from __future__ import annotations

import math

import pytest

from coda_jax.scenes.assets import Grasp
from coda_jax.scenes.placement import Footprint, gap, grasp_is_free, within_reach


def test_gap_by_hand():
    a = Footprint(0.0, 0.0, 0.02, 0.02, 0.0)
    assert gap(a, Footprint(0.05, 0.0, 0.01, 0.01, 0.0)) == pytest.approx(0.02)
    assert gap(a, Footprint(0.06, 0.06, 0.01, 0.01, 0.0)) == pytest.approx(0.03 * math.sqrt(2))  # corner to corner
    assert gap(a, Footprint(0.0, 0.05, 0.01, 0.01, math.pi / 4)) == pytest.approx(0.03 - 0.01 * math.sqrt(2))  # a corner points at a
    assert gap(a, Footprint(0.025, 0.0, 0.01, 0.01, 0.0)) == pytest.approx(-0.005)


def test_hand_needs_room_along_the_jaws():
    grasp = Grasp((0.0, 0.0, 0.0), 0.0, 0.04)
    beside = Footprint(0.045, 0.0, 0.01, 0.01, 0.0, 0.0, 0.06)  # 1.5 cm from the object's side, in the right finger's way
    assert not grasp_is_free(grasp, 0.0, 0.0, 0.0, 0.03, [beside])
    assert grasp_is_free(grasp, 0.0, 0.0, math.pi / 2, 0.03, [beside])
    low = Footprint(0.045, 0.0, 0.01, 0.01, 0.0, 0.0, 0.018)  # the finger tips stay at 0.019 m
    assert grasp_is_free(grasp, 0.0, 0.0, 0.0, 0.03, [low])


def test_palm_hits_tall_neighbours_only():
    grasp = Grasp((0.0, 0.0, 0.0), 0.0, 0.04)
    tall = Footprint(0.09, 0.0, 0.01, 0.01, 0.0, 0.0, 0.1)
    assert not grasp_is_free(grasp, 0.0, 0.0, 0.0, 0.03, [tall])
    assert grasp_is_free(grasp, 0.0, 0.0, 0.0, 0.065, [tall])


def test_reach():
    assert within_reach(0.5, 0.2) and not within_reach(0.3, 0.0) and not within_reach(0.68, 0.27)
