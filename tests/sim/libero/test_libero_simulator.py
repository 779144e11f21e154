"""The simulator of LIBERO's scenes: exact starts, mixed tasks, refill, resume, edits, and the official environment beside it."""

from __future__ import annotations

import copy
import dataclasses

import jax
import mujoco
import numpy as np
import pytest

from coda_jax.programs.expressions import Expr
from coda_jax.runtime import InputError
from coda_jax.scenes.libero import families, importing, states, tasks, things
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.compile import SceneError
from coda_jax.sim.libero import compiled, scene_model
from coda_jax.sim.libero.simulator import WIDTHS, LiberoSimulator
from coda_jax.sim.simulator import Episode, Simulator
from coda_jax.types import HEALTH_NAN, TOKENS

pytestmark = pytest.mark.libero
MIXED = (("libero_goal", 0), ("libero_spatial", 0), ("libero_object", 0), ("libero_goal", 3))


@pytest.fixture(autouse=True, scope="module")
def _known():
    families.add()
    yield
    families.remove()


def scene(suite: str, number: int, state: int = 2) -> SceneSpec:
    return importing.initial_scene(tasks.tasks(suite)[number], state, seed=3)


def laid_out(spec: SceneSpec, layout: str) -> SceneSpec:
    return dataclasses.replace(spec, spatial=dataclasses.replace(spec.spatial, layout=layout))


def job(spec: SceneSpec, horizon: int = 50) -> Episode:
    return Episode(spec, (spec.task.goal, Expr("gripper_opening", ())), horizon)


@pytest.fixture(scope="module")
def mixed():
    """Four worlds of three structures, reset, with five random steps after it."""
    sim: Simulator = LiberoSimulator(4, threads=1)
    batch = sim.compile([job(scene(s, k)) for s, k in MIXED])
    start = sim.reset(batch)
    chunk = np.random.default_rng(0).uniform(-1, 1, (4, 5, 7))
    state, trace = sim.step_chunk(batch, start, chunk, record=True)
    return sim, batch, start, state, trace, chunk


def test_tasks_of_three_suites_run_side_by_side(mixed):
    sim, _, start, state, trace, _ = mixed
    assert len(sim._groups) == 3
    assert (trace.executed == 5).all() and (state.view.control_step == 5).all() and (start.view.control_step == 0).all()
    assert trace.qpos.shape == (4, 5, WIDTHS["qpos"]) and trace.predicates.shape[:2] == (4, 5)
    assert (state.health == 0).all() and not trace.terminated.any()
    assert (np.abs(trace.predicates[:, :, 1] - trace.moving["gripper_opening"]) < 1e-6).all()


def test_each_world_is_the_one_it_is_alone(mixed):
    *_, state, _, chunk = mixed
    for row, (suite, number) in enumerate(MIXED):
        sim = LiberoSimulator(1, threads=1)
        batch = sim.compile([job(scene(suite, number))])
        alone, _ = sim.step_chunk(batch, sim.reset(batch), chunk[row : row + 1])
        for name, values in state.physics.items():
            assert np.array_equal(values[row], alone.physics[name][0]), (suite, name)
        assert np.array_equal(state.view.pos[row], alone.view.pos[0]) and np.array_equal(state.view.contact[row], alone.view.contact[0])


def test_things_stand_where_their_scene_places_them():
    """Drawn afresh, at rest from the start: the ten steps of settling move nothing far."""
    sim = LiberoSimulator(4, threads=1)
    drawn = [importing.task_scene(tasks.tasks(s)[k], seed=k) for s, k in MIXED]
    view = sim.reset(sim.compile([job(s) for s in drawn])).view
    for row, spec in enumerate(drawn):
        for o, name in enumerate(spec.object_ids):
            place, model = spec.placement(name), things.ASSETS[spec.attribute(name).asset]
            assert np.abs(view.pos[row, o] - place.pos_m).max() < 0.004, (spec.spatial.layout, name)
            turned = np.array([np.cos(place.yaw_rad / 2), 0, 0, np.sin(place.yaw_rad / 2)])
            assert abs(view.quat[row, o] @ turned) > 0.999
            assert np.allclose(view.half_extent[row, o], model.half_m) and view.present[row, o]
    assert not view.present[2, 7] and view.present[:2].all()


def test_a_suite_state_begins_to_the_last_bit():
    spec = scene("libero_goal", 4, 17)
    built = scene_model.build(spec)
    row = states.read(tasks.tasks("libero_goal")[4].init)[17]
    assert np.array_equal(built.start, row)
    moved = laid_out(spec, spec.spatial.layout.partition("@")[0])
    other = scene_model.build(moved).start
    assert not np.array_equal(other, row)
    free = slice(10, 10 + 7 * 4)
    assert np.abs(other[free] - row[free]).max() < 0.1  # the suite's things start in the air


def test_fixtures_stand_where_placements_say():
    spec = scene("libero_goal", 0)
    cabinet = spec.placement("wooden_cabinet_1")
    moved = [
        dataclasses.replace(p, pos_m=(p.pos_m[0] - 0.03, *p.pos_m[1:])) if p.object == cabinet.object else p
        for p in spec.spatial.placements
    ]
    other = dataclasses.replace(spec, spatial=dataclasses.replace(spec.spatial, placements=tuple(moved)))
    a, b = scene_model.build(spec), scene_model.build(other)
    body = a.model.body("wooden_cabinet_1_main").id
    assert np.allclose(a.model.body_pos[body] - b.model.body_pos[body], [0.03, 0, 0])
    assert a.model is not b.model and np.array_equal(a.task.model.geom_pos, b.model.geom_pos)


def edited(spec: SceneSpec, name: str, **changes) -> SceneSpec:
    objects = tuple(dataclasses.replace(o, **changes) if o.object == name else o for o in spec.attributes.objects)
    return dataclasses.replace(spec, attributes=dataclasses.replace(spec.attributes, objects=objects))


def test_size_mass_and_friction_reach_the_physics():
    spec = scene("libero_spatial", 0)
    name = "akita_black_bowl_1"
    plain = scene_model.build(spec)
    bowl = spec.attribute(name)
    changed = scene_model.build(edited(spec, name, scale=1.25, mass_kg=2 * bowl.mass_kg, friction=bowl.friction / 2))
    body = plain.model.body(f"{name}_main").id
    geoms = plain.model.geom_bodyid == body
    assert np.allclose(changed.model.geom_size[geoms], 1.25 * plain.model.geom_size[geoms])
    assert np.allclose(changed.model.geom_friction[geoms, 0], plain.model.geom_friction[geoms, 0] / 2)
    assert (changed.model.geom_priority[geoms] == 1).all() and not changed.model.geom_priority[~geoms].any()
    assert changed.model.body_mass[body] == pytest.approx(2 * plain.model.body_mass[body])
    assert np.allclose(changed.model.body_inertia[body], 2 * 1.25**2 * plain.model.body_inertia[body])
    others = ~geoms
    assert np.array_equal(changed.model.geom_size[others], plain.model.geom_size[others])
    assert changed.model.dof_invweight0[plain.layout.free_v[0]] < plain.model.dof_invweight0[plain.layout.free_v[0]]
    assert np.array_equal(plain.task.model.geom_size, scene_model.build(spec).task.model.geom_size)
    goal = scene("libero_goal", 0)
    raised = tuple(
        dataclasses.replace(p, pos_m=(*p.pos_m[:2], 1.25 * p.pos_m[2])) if p.object == name else p for p in goal.spatial.placements
    )
    larger = dataclasses.replace(edited(goal, name, scale=1.25), spatial=dataclasses.replace(goal.spatial, placements=raised))
    sim = LiberoSimulator(1, threads=1)
    view = sim.reset(sim.compile([job(larger)])).view
    assert view.half_extent[0, 0] == pytest.approx(1.25 * np.array(things.MODELS["akita_black_bowl"].half_m))
    assert view.pos[0, 0, 2] == pytest.approx(view.half_extent[0, 0, 2], abs=0.003)  # it rests on the table


def contacts(model: mujoco.MjModel, target: str, body: str) -> list[tuple[np.ndarray, np.ndarray, float, int]]:
    """Frictions [2], softness, distance and dimension of every contact of a free thing that has been put where ``body`` is."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    data.joint(f"{target}_joint0").qpos[:3] = data.body(body).xpos
    mujoco.mj_forward(model, data)
    wanted = {model.body(f"{target}_main").id, model.body(body).id}
    found = [c for c in data.contact if {int(model.geom_bodyid[c.geom1]), int(model.geom_bodyid[c.geom2])} == wanted]
    return [(c.friction[:2].copy(), np.concatenate([c.solref, c.solimp]), float(c.dist), int(c.dim)) for c in found]


@pytest.mark.parametrize("other", ["gripper0_finger_joint1_tip", "gripper0_finger_joint2_tip", "table", "plate_1_main"])
def test_an_edited_friction_is_that_of_every_contact(other):
    """MuJoCo takes the larger of two frictions: 2.0 of a pad, 0.6 of the table. A grasp differs in friction alone."""
    spec, name = scene("libero_goal", 0), "cream_cheese_1"
    plain, slippery = (scene_model.build(s).model for s in (spec, edited(spec, name, friction=0.4)))
    before, after = (contacts(m, name, other) for m in (plain, slippery))
    assert before and len(before) == len(after)
    for (friction, soft, *rest), (slid, softened, *same) in zip(before, after, strict=True):
        assert friction == pytest.approx(2.0 if "tip" in other else 0.95) and slid == pytest.approx(0.4)
        assert rest == same and (np.array_equal(soft, softened) or "tip" not in other)


def test_other_edits_leave_contacts_as_they_are():
    spec, name = scene("libero_goal", 0), "akita_black_bowl_1"
    plain = scene_model.build(spec)
    heavier = scene_model.build(edited(spec, name, mass_kg=2 * spec.attribute(name).mass_kg)).model
    for field in ("geom_friction", "geom_priority", "geom_solref", "geom_solimp", "geom_condim"):
        assert np.array_equal(getattr(heavier, field), getattr(plain.task.model, field)), field
    assert not plain.model.geom_priority.any()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: edited(s, "wooden_cabinet_1", scale=1.1), "is fixed: its scale stays 1"),
        (lambda s: edited(s, "wooden_cabinet_1_middle", friction=0.5), "is part of the cabinet"),
        (lambda s: laid_out(s, "libero_goal/nothing"), "has no task 'nothing'"),
        (
            lambda s: laid_out(s, s.spatial.layout.split("@")[0] + "@99"),
            "0 to 49",
        ),
        (lambda s: dataclasses.replace(s, attributes=dataclasses.replace(s.attributes, objects=s.attributes.objects[1:])), "keep objects"),
    ],
)
def test_scenes_that_cannot_be_built_say_why(change, said):
    with pytest.raises(InputError, match=said):
        scene_model.build(change(scene("libero_goal", 0)))


def test_a_refilled_world_leaves_the_others_alone(mixed):
    sim, batch, _, state, *_ = mixed
    later, after = sim.replace(batch, state, [1], [job(scene("libero_object", 2))])
    rows = [0, 2, 3]
    for old, new in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert np.array_equal(np.asarray(old)[rows], np.asarray(new)[rows])
    assert after.view.control_step[1] == 0 and later.episodes[1].spec.task.family == "libero_object"
    again = sim.reset(sim.compile([job(scene("libero_object", 2))] * 4))
    assert np.array_equal(again.physics["qpos"][2], after.physics["qpos"][1])


def test_a_state_goes_on_bit_for_bit_in_another_simulator(mixed):
    sim, batch, _, state, _, chunk = mixed
    first, _ = sim.step_chunk(batch, state, chunk[:, ::-1])
    other = LiberoSimulator(4, threads=2)
    second, _ = other.step_chunk(other.compile([e for e in batch.episodes if e]), state, chunk[:, ::-1])
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        assert np.array_equal(a, b)


def test_worlds_stop_at_their_horizon_and_at_success(mixed):
    sim = LiberoSimulator(2, threads=1)
    spec = scene("libero_goal", 3)
    done = Episode(spec, (Expr("at_most", (Expr("gripper_opening", ()), 0.07)),), 50)
    batch = sim.compile([job(spec, horizon=2), done])
    before = sim.physics_steps
    closing = np.tile([0, 0, 0, 0, 0, 0, 1.0], (2, 6, 1))
    _, trace = sim.step_chunk(batch, sim.reset(batch), closing)
    assert trace.executed[0] == 2 and trace.truncated[0] and not trace.terminated[0]
    assert trace.terminated[1] and 0 < trace.executed[1] < 6 and not trace.truncated[1]
    assert sim.physics_steps - before == 25 * (int(trace.executed.sum()) + 10)  # one scene settles once
    assert (trace.qpos[0, 2:] == trace.qpos[0, 1]).all()


def test_a_state_that_diverges_is_flagged_and_frozen(mixed):
    sim, batch, _, state, _, chunk = mixed
    physics = {name: values.copy() for name, values in state.physics.items()}
    physics["qvel"][1, 12] = 1e12
    bad, trace = sim.step_chunk(batch, dataclasses.replace(state, physics=physics), chunk)
    assert bad.health[1] & HEALTH_NAN and (bad.health[[0, 2, 3]] == 0).all()
    assert trace.executed[1] == 1 and (trace.executed[[0, 2, 3]] == 5).all()


def test_a_start_in_which_mujoco_raises_is_flagged_and_the_others_begin():
    sim = LiberoSimulator(2, threads=1)
    specs = [scene("libero_goal", 3), scene("libero_goal", 3, 5)]
    batch = sim.compile([job(s) for s in specs])
    bad = copy.copy(batch.models[1].model)
    bad.actuator_trntype[0] = 99  # MuJoCo raises wherever it computes positions
    batch = dataclasses.replace(batch, models=(batch.models[0], dataclasses.replace(batch.models[1], model=bad)))
    state = sim.reset(batch)
    assert state.health.tolist() == [0, HEALTH_NAN]
    assert sim.physics_steps == 25 * tasks.SETTLE_STEPS  # the flagged one is left as it is
    assert np.array_equal(state.physics["qpos"][1, : bad.nq], batch.models[1].start[1 : 1 + bad.nq])
    after, trace = sim.step_chunk(batch, state, np.zeros((2, 2, 7)))
    assert trace.executed.tolist() == [2, 0] and after.health.tolist() == [0, HEALTH_NAN]
    alone = LiberoSimulator(1, threads=1)
    first = alone.reset(alone.compile([job(specs[0])]))
    assert np.array_equal(first.physics["qpos"][0], state.physics["qpos"][0])


def test_numpy_and_the_callback_agree(mixed):
    if not compiled.available():
        pytest.skip("needs numba")
    *_, state, _, chunk = mixed
    sim = LiberoSimulator(4, threads=1, callback=False)
    batch = sim.compile([job(scene(s, k)) for s, k in MIXED])
    other, _ = sim.step_chunk(batch, sim.reset(batch), chunk)
    for name, values in state.physics.items():
        if name != "qacc_warmstart":
            assert np.abs(values - other.physics[name]).max() < 1e-7, name


def test_wrong_chunks_and_too_many_episodes_are_refused(mixed):
    sim, batch, _, state, _, chunk = mixed
    with pytest.raises(ValueError, match=r"a chunk is \[4, e, 7\]"):
        sim.step_chunk(batch, state, chunk[:2])
    with pytest.raises(SceneError, match="5 episodes for 4 worlds"):
        sim.compile([job(scene("libero_goal", 0))] * 5)


def test_drawers_and_knobs_show_in_their_tokens():
    """From placements: an opening is a share of the way, and LIBERO's own predicates see the drawer."""
    spec = scene("libero_goal", 0)
    openings = {"wooden_cabinet_1": 0.5, "wooden_cabinet_1_middle": 0.95, "flat_stove_1": 0.4}
    placed = tuple(dataclasses.replace(p, opening=openings.get(p.object, p.opening)) for p in spec.spatial.placements)
    spec = dataclasses.replace(spec, spatial=dataclasses.replace(spec.spatial, layout=spec.spatial.layout.split("@")[0], placements=placed))
    sim = LiberoSimulator(1, threads=1)
    start = scene_model.build(spec)
    batch = sim.compile([job(spec)])
    view = sim.reset(batch).view
    o = {n: i for n, i in start.layout.index.items() if i < TOKENS}
    assert view.articulation[0, o["wooden_cabinet_1"]] == pytest.approx(0.08, abs=0.01)
    assert view.articulation[0, o["wooden_cabinet_1_middle"]] == pytest.approx(0.152, abs=0.01)
    assert view.articulation[0, o["flat_stove_1"]] == pytest.approx(0.84, abs=0.02)
    closed, opened = spec.placement("wooden_cabinet_1_middle").pos_m, view.pos[0, o["wooden_cabinet_1_middle"]]
    assert np.linalg.norm(opened - closed) == pytest.approx(view.articulation[0, o["wooden_cabinet_1_middle"]], abs=0.002)
    state, trace = sim.step_chunk(batch, sim.reset(batch), np.zeros((1, 1, 7)))
    assert state.view.regions is not None and trace.terminated[0]  # "open the middle drawer" holds: nothing was left to do


@pytest.mark.slow
def test_states_and_predicates_are_the_official_ones():
    """One policy step at a time from the official state: the same coordinates, and every predicate equal."""
    from benchmarks.libero import parity, predicates

    found = parity.compare("libero_object", 0, 0, steps=30)
    assert found.step < 1e-9 and found.worst < 1e-6
    tally = predicates.Tally()
    predicates.compare("libero_goal", 3, 3, 1, tally)
    assert tally.unequal == 0 and tally.checks > 10_000 and tally.kinds["On(site)"] and tally.kinds["On"]
