"""Surrogates of LIBERO's tasks: what stays, what may meet, how things come to rest, the planner in them, and MJX beside native MuJoCo."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np
import pytest

from coda_jax.runtime import compile_count, setup
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.libero import families, importing, tasks
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.demonstrate import demonstrate
from coda_jax.sim.libero import models, scene_model, sensors
from coda_jax.sim.libero.control import ARM
from coda_jax.sim.libero.layout import root_name
from coda_jax.sim.libero.simulator import LiberoSimulator
from coda_jax.sim.libero.surrogates import model as surrogates
from coda_jax.sim.libero.surrogates.model import HAND, SAME, surrogate
from coda_jax.sim.planner import PlannerSettings
from coda_jax.sim.simulator import Episode, episode_of

pytestmark = pytest.mark.libero


@pytest.fixture(autouse=True, scope="module")
def _known():
    setup()
    families.add()
    yield
    families.remove()


def scene(suite: str, number: int = 0, state: int = 2) -> SceneSpec:
    return importing.initial_scene(tasks.tasks(suite)[number], state, seed=3)


def job(spec: SceneSpec, horizon: int = 50) -> Episode:
    return episode_of(spec, horizon, (0, 0))


@pytest.mark.parametrize("suite", tasks.FAMILIES)
def test_only_shapes_change_and_the_arm_meets_nothing(suite: str):
    task = models.load(tasks.tasks(suite)[0])
    few = surrogate(task)
    for name in SAME:
        assert np.allclose(getattr(task.model, name), getattr(few.model, name), atol=1e-9), name
    assert few.model.ngeom < 0.6 * task.model.ngeom
    assert not (few.model.geom_contype | few.model.geom_conaffinity).any(), "only listed pairs may meet"
    owners = {few.model.body(b).name for b in few.model.geom_bodyid}
    arm = {n for n in owners if n.startswith(("robot0", "mount0", "gripper0"))}
    assert arm == set(HAND) and any(n in sensors.SURFACES for n in owners)
    bodies = few.model.geom_bodyid[np.stack([few.model.pair_geom1, few.model.pair_geom2], 1)]
    still = few.model.body_weldid[bodies] == 0
    assert not still.all(1).any() and (bodies[:, 0] != bodies[:, 1]).all()
    assert surrogate(task) is few


def test_parts_that_would_be_lost_are_refused():
    xml = '<mujoco><worldbody><body name="a"><freejoint/><geom size="1"/></body></worldbody><equality><weld body1="a"/></equality></mujoco>'
    with pytest.raises(ValueError, match="not carried over"):
        surrogates.compiled(mujoco.MjModel.from_xml_string(xml))


def test_edited_size_mass_and_friction_reach_shapes_and_pairs():
    spec = scene("libero_object")
    first = spec.attributes.objects[0]
    edited = dataclasses.replace(first, scale=1.1, mass_kg=2 * first.mass_kg, friction=2 * first.friction)
    changed = dataclasses.replace(spec, attributes=dataclasses.replace(spec.attributes, objects=(edited, *spec.attributes.objects[1:])))
    plain, made = scene_model.build(spec, few=True).model, scene_model.build(changed, few=True).model
    body = plain.body(root_name(first.object)).id
    own = plain.geom_bodyid == body
    assert np.allclose(made.geom_size[own], 1.1 * plain.geom_size[own]) and np.array_equal(made.geom_size[~own], plain.geom_size[~own])
    assert made.body_mass[body] == pytest.approx(2 * plain.body_mass[body])
    touched = own[plain.pair_geom1] | own[plain.pair_geom2]
    assert np.array_equal(made.pair_friction[~touched], plain.pair_friction[~touched])
    assert np.allclose(made.pair_friction[touched, 0], made.geom_friction[own, 0][0]), "an edited friction is that of every contact"
    weaker = scene_model.build(_with_friction(spec, 0.4), few=True).model
    assert weaker.pair_friction[touched, 0].max() < plain.pair_friction[touched, 0].min()


def _with_friction(spec: SceneSpec, factor: float) -> SceneSpec:
    objects = tuple(dataclasses.replace(o, friction=factor * o.friction) for o in spec.attributes.objects)
    return dataclasses.replace(spec, attributes=dataclasses.replace(spec.attributes, objects=objects))


def test_listed_pairs_have_the_contact_that_mujoco_gives_the_official_geoms():
    """The official things at rest: every contact of theirs has the parameters of the pair of the same two bodies."""
    task = models.load(tasks.tasks("libero_object")[0])
    few = surrogate(task).model
    data = mujoco.MjData(task.model)
    data.qpos[:] = scene_model.build(scene("libero_object")).start[1 : 1 + few.nq]
    for _ in range(200):
        mujoco.mj_step(task.model, data)
    bodies = few.geom_bodyid[np.stack([few.pair_geom1, few.pair_geom2], 1)]
    seen = 0
    for contact in data.contact[: data.ncon]:
        met = sorted(task.model.geom_bodyid[contact.geom])
        rows = np.flatnonzero((np.sort(bodies, 1) == met).all(1))
        seen += len(rows) > 0
        for k in rows:
            assert np.allclose(few.pair_friction[k], contact.friction) and np.allclose(few.pair_solimp[k], contact.solimp)
            assert np.allclose(few.pair_solref[k], contact.solref)
    assert seen > 5


@pytest.mark.parametrize("suite", tasks.FAMILIES)
def test_things_come_to_rest_where_the_official_ones_do(suite: str):
    views = []
    for few in (False, True):
        sim = LiberoSimulator(1, threads=1, few=few)
        batch = sim.compile([job(scene(suite))])
        views.append(sim.step_chunk(batch, sim.reset(batch), np.tile([0.0, 0, 0, 0, 0, 0, -1], (1, 10, 1)))[0].view)
    official, few = views
    assert np.abs(official.pos - few.pos).max() < 0.006
    assert np.abs(official.ee_pos - few.ee_pos).max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "number"), [("libero_object", 0), ("libero_goal", 8), ("libero_spatial", 9), ("libero_goal", 3)])
def test_the_planner_solves_surrogates(suite: str, number: int):
    task = tasks.tasks(suite)[number]
    episodes = [episode_of(importing.initial_scene(task, n, n), tasks.STEPS[suite], (n, 0)) for n in range(2)]
    found = demonstrate(LiberoSimulator(2, 1, few=True), Catalogue("train"), episodes, PlannerSettings(1.0, 3, 1.6, 0), None, seed=0)
    assert sum(t.success for t in found) == 2


@pytest.mark.slow
def test_mjx_follows_native_mujoco_of_the_same_shapes_and_refills_without_compiling():
    specs = [scene("libero_object", number) for number in (0, 1, 2)]
    chunk = np.random.default_rng(0).uniform(-1, 1, (2, 4, 7))
    states = []
    for mjx in (False, True):
        sim = LiberoSimulator(2, threads=1, few=True, mjx=mjx)
        batch = sim.compile([job(s) for s in specs[:2]])
        state, trace = sim.step_chunk(batch, sim.reset(batch), chunk)
        assert (state.health == 0).all() and (trace.executed == 4).all()
        states.append(state)
    native, device = states
    assert np.abs(native.view.ee_pos - device.view.ee_pos).max() < 1e-4 and np.abs(native.view.pos - device.view.pos).max() < 1e-3
    assert np.array_equal(native.view.finger_contact, device.view.finger_contact)
    assert np.abs(native.physics["qpos"][:, :ARM] - device.physics["qpos"][:, :ARM]).max() < 1e-3
    before = compile_count()
    batch, state = sim.replace(batch, state, [0], [job(specs[2])])
    state, _ = sim.step_chunk(batch, state, chunk)
    assert (state.health == 0).all() and compile_count() == before
