"""What the worlds of one executable may differ in: every number that MJX reads is stacked by world, or equal in all tasks of a family."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np
import pytest
from mujoco import mjx

from coda_jax.scenes.libero import families, importing, tasks
from coda_jax.sim.libero import models, scene_model
from coda_jax.sim.libero.surrogates.mjx_worlds import FIELDS, signature
from coda_jax.sim.libero.surrogates.model import surrogate

pytestmark = pytest.mark.libero
# Sites are read from the native worlds, but for the hand's, which no scene changes; the others only choose a shorter way to the same.
# Contact parameters are those of the listed pairs, which are stacked.
UNREAD = {"site_pos", "site_size", "geom_sameframe", "geom_priority", "geom_solref", "geom_solimp"}


@pytest.fixture(autouse=True, scope="module")
def _known():
    families.add()
    yield
    families.remove()


def differing(first: mujoco.MjModel, second: mujoco.MjModel) -> set[str]:
    """Fields of mjx.Model in which two models differ, beside those that every world has of its own."""
    names = {f.name for f in dataclasses.fields(mjx.Model) if isinstance(getattr(first, f.name, None), np.ndarray)}
    names = {n for n in names - set(FIELDS) if not n.startswith(("name", "text", "_sizes"))}  # names of things differ in length
    return {n for n in names if not np.array_equal(getattr(first, n), getattr(second, n))}


@pytest.mark.slow
@pytest.mark.parametrize("family", tasks.FAMILIES)
def test_the_tasks_of_a_family_share_an_executable(family: str):
    first, *others = [surrogate(models.load(task)) for task in tasks.tasks(family)]
    assert {signature(task) for task in others} == {signature(first)}
    assert set().union(*(differing(first.model, task.model) for task in others)) <= UNREAD


@pytest.mark.parametrize("family", tasks.FAMILIES)
def test_what_edits_change_is_stacked_by_world(family: str):
    spec = importing.initial_scene(tasks.tasks(family)[0], 0, 0)
    first = spec.attributes.objects[0]
    made = dataclasses.replace(first, scale=1.1, mass_kg=2 * first.mass_kg, friction=0.6)
    edited = dataclasses.replace(spec, attributes=dataclasses.replace(spec.attributes, objects=(made, *spec.attributes.objects[1:])))
    plain, changed = (scene_model.build(s, few=True).model for s in (spec, edited))
    assert not np.array_equal(plain.geom_size, changed.geom_size) and not np.array_equal(plain.pair_friction, changed.pair_friction)
    found = differing(plain, changed)
    assert found <= UNREAD
    grip = plain.site("gripper0_grip_site").id
    assert np.array_equal(plain.site_pos[grip], changed.site_pos[grip])
