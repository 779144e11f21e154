"""Scenes that are none of their task, as a file that anyone wrote may hold them."""

from __future__ import annotations

import dataclasses

import pytest

from coda_jax.runtime import InputError
from coda_jax.scenes.libero import bddl, importing, placing
from coda_jax.scenes.libero.fitting import require_fit
from coda_jax.scenes.spec import SceneSpec
from tests.scenes.libero.texts import TASK

PROBLEM = bddl.parse(TASK)
KNOWN = importing.models(placing.contents(PROBLEM))
SPEC = importing.scene(PROBLEM, "libero_goal", "libero_goal/made_up", placing.draw(PROBLEM, 5))
PLACES, THINGS = SPEC.spatial.placements, SPEC.attributes.objects


def placed(*places) -> SceneSpec:
    return dataclasses.replace(SPEC, spatial=dataclasses.replace(SPEC.spatial, placements=places))


def made(*things) -> SceneSpec:
    return dataclasses.replace(SPEC, attributes=dataclasses.replace(SPEC.attributes, objects=things))


def first_place(**fields) -> SceneSpec:
    return placed(dataclasses.replace(PLACES[0], **fields), *PLACES[1:])


def first_thing(**fields) -> SceneSpec:
    return made(dataclasses.replace(THINGS[0], **fields), *THINGS[1:])


def test_a_scene_of_the_task_fits():
    require_fit(SPEC, KNOWN)
    require_fit(first_thing(scale=2.0, mass_kg=0.5, friction=0.05), KNOWN)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (placed(), "akita_black_bowl_1 has 0 placements: give it one"),
        (placed(*PLACES, PLACES[0]), "akita_black_bowl_1 has 2 placements"),
        (placed(*PLACES, dataclasses.replace(PLACES[0], object="ghost_1")), "placement of 'ghost_1', which is no thing"),
        (made(*THINGS, THINGS[0]), "keep objects and order"),
        (made(*THINGS[1:]), "keep objects and order"),
        (made(), "keep objects and order"),
        (first_thing(object="x) (:goal"), "keep objects and order"),
        (first_thing(asset="libero/milk"), "is libero/akita_black_bowl, not 'libero/milk'"),
        (first_thing(asset="../../etc/passwd"), "edit places, not what is there"),
        (first_thing(scale=0.0), "scale 0: use 0.1 to 10"),
        (first_thing(scale=-1.0), "scale -1"),
        (first_thing(scale=1e300), r"scale 1e\+300"),
        (first_thing(mass_kg=-1.0), "mass_kg -1"),
        (first_thing(friction=0.0), "friction 0"),
        (first_place(pos_m=(1e300, 0.0, 0.0)), "further than 20 m"),
        (first_place(opening=1e300), r"opening 1e\+300: use 0 \(closed\) to 1"),
    ],
)
def test_any_other_is_refused_in_words(spec, message):
    with pytest.raises(InputError, match=message):
        require_fit(spec, KNOWN)
