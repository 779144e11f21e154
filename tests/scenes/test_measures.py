"""Measures: finite, of the spec alone, and equal to what a hand calculation gives."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families import read_goal
from coda_jax.scenes.generate import sample_spec
from coda_jax.scenes.measures import MEASURES, measure
from coda_jax.scenes.spec import FACTORS
from coda_jax.scenes.tabletop import HOME_JAW_RAD, Tabletop, moved, raised, turned
from coda_jax.sim import panda
from coda_jax.sim.robot import forward_kinematics

SPEC = sample_spec(Catalogue("train"), "pick_place", "id", "train", 0)
GOAL = read_goal(SPEC)


def test_every_measure_is_a_finite_number_of_a_factor():
    for seed in range(10):
        found = measure(sample_spec(Catalogue("train"), "pick_place", "id", "train", seed))
        assert list(found) == list(MEASURES)
        assert all(isinstance(v, float) and math.isfinite(v) for v in found.values())
        assert found["relation_on"] + found["relation_inside"] + found["relation_beside"] == 1.0
    assert {m.factor for m in MEASURES.values()} == set(FACTORS)


def test_the_home_posture_is_the_arm_s():
    _, rotation, _ = forward_kinematics(panda.PANDA, np.array(panda.HOME_RAD)[None])
    x, y, _ = rotation[0, :, 1]  # the hand's y axis: the line between the pads
    assert math.atan2(y, x) == pytest.approx(HOME_JAW_RAD, abs=1e-6)


def test_places_are_measured():
    (x, y, _), (xr, yr, _) = (SPEC.placement(n).pos_m for n in (GOAL.target, GOAL.reference))
    found = measure(SPEC)
    assert found["target_reference_m"] == pytest.approx(math.hypot(x - xr, y - yr))
    assert found["reach_radius_m"] == pytest.approx(math.hypot(x, y))
    assert found["reach_margin_m"] == pytest.approx(min(x - 0.32, 0.68 - x, y + 0.28, 0.28 - y, 0.72 - math.hypot(x, y)))
    assert measure(raised(SPEC, GOAL.reference, 0.07))["reference_height_m"] - found["reference_height_m"] == pytest.approx(0.07)


def test_turn_and_corridor_of_a_grasp():
    top = Tabletop(SPEC)
    grasp, other = top.assets[GOAL.target].grasps[0], top.others(GOAL.target, GOAL.reference)[0]
    aligned = turned(SPEC, GOAL.target, HOME_JAW_RAD - grasp.yaw_rad)
    assert measure(aligned)["target_turn_rad"] == pytest.approx(0.0, abs=1e-6)
    x, y, _ = aligned.placement(GOAL.target).pos_m
    beside = moved(aligned, {other: (x + 0.09, y)})  # the jaws close along x
    across = moved(aligned, {other: (x, y + 0.13)})
    assert measure(beside)["approach_gap_m"] == pytest.approx(Tabletop(beside).gap(other, GOAL.target))
    assert measure(beside)["approach_gap_m"] < measure(across)["approach_gap_m"]


def test_attributes_and_words_are_counted():
    found, other = measure(SPEC), next(n for n in SPEC.object_ids if n not in (GOAL.target, GOAL.reference))
    thing = SPEC.attribute(GOAL.target)
    assert (found["target_scale"], found["target_mass_kg"], found["target_friction"]) == (thing.scale, thing.mass_kg, thing.friction)
    recoloured = tuple(
        dataclasses.replace(o, colour=thing.colour if o.object == other else "black" if o.object != GOAL.target else o.colour)
        for o in SPEC.attributes.objects
    )
    assert thing.colour != "black"
    spec = dataclasses.replace(SPEC, attributes=dataclasses.replace(SPEC.attributes, objects=recoloured))
    assert measure(spec)["same_colour_target"] == 1.0
    free_text = dataclasses.replace(SPEC, task=dataclasses.replace(SPEC.task, instruction="bring it over there"))
    assert found["wording"] >= 0.0 and measure(free_text)["wording"] == -1.0
