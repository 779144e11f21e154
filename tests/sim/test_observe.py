import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.scenes import suites
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families import read_goals, relation
from coda_jax.sim.compile import SceneError
from coda_jax.sim.observe import observe, role_tokens, scene_texts, words_and_roles
from coda_jax.types import Observation
from tests.programs.worlds import random_view
from tests.sim.tabletop import BLOCK, BOARD, CAN, CATALOGUE, scene


def test_words_are_in_token_order():
    # the fixture comes first in the program and still gets a fixture's token
    words, instruction = scene_texts(scene(BOARD, CAN, BLOCK, instruction="Put the red block on the red board."), CATALOGUE)
    assert words == ["blue can", "red block", "", "", "", "", "red board", ""]
    assert instruction == "Put the red block on the red board."


@pytest.mark.parametrize(("family", "asked"), [("put_inside", "both_inside"), ("stack_insert", "tower"), ("pick_place", "on")])
def test_roles_of_every_goal(family, asked):
    catalogue = Catalogue.all()
    spec = next(s for s in suites.load(family, "id", "validation") if relation(s) == asked)
    words, _, roles = words_and_roles(spec, catalogue)
    goals = read_goals(spec)
    assert roles == role_tokens(spec, catalogue) and len(roles) == 2 * len(goals)
    for goal, target, reference in zip(goals, roles[::2], roles[1::2], strict=True):
        for name, token in ((goal.target, target), (goal.reference, reference)):
            said = words[token]
            assert said is not None and said.split()[-1] == catalogue.get(spec.attribute(name).asset).category


def test_unknown_asset_is_named():
    spec = scene(BLOCK, BOARD)
    strange = dataclasses.replace(spec.attributes.objects[0], asset="blok_00")
    attributes = dataclasses.replace(spec.attributes, objects=(strange, spec.attributes.objects[1]))
    with pytest.raises(SceneError, match=r"block_1: unknown asset 'blok_00': nearest ids are block_00"):
        scene_texts(dataclasses.replace(spec, attributes=attributes), CATALOGUE)


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_observation_shows_the_view_without_what_is_hidden(xp):
    view = random_view(np.random.default_rng(0), 3)
    view = dataclasses.replace(view, present=np.arange(8)[None].repeat(3, 0) < [[2], [8], [0]])
    text, instruction = xp.ones((3, 8, 4)), xp.full((3, 4), 2.0)
    obs = observe(view, text, instruction)
    for field in dataclasses.fields(Observation):
        if field.name not in ("text", "instruction", "pixels"):
            assert getattr(obs, field.name) is getattr(view, field.name)
    assert obs.pixels is None
    assert not {"contact", "finger_contact", "cavity_pos", "pos0", "control_step"} & {f.name for f in dataclasses.fields(obs)}
    assert np.asarray(obs.text).sum((1, 2)).tolist() == [8, 32, 0]  # absent tokens say nothing
    np.testing.assert_array_equal(obs.instruction, instruction)
