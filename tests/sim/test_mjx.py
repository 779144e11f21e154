"""The MJX backend against the native one on the same scenes and actions, and what only MJX has to promise."""

from __future__ import annotations

import dataclasses

import jax
import mujoco
import numpy as np
import pytest

from coda_jax.programs.expressions import Expr
from coda_jax.programs.verifier import nu
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import AttributeFactor, ObjectAttributes, Placement, Role, SceneSpec, SpatialFactor, TaskFactor
from coda_jax.sim import mjx_model, warp_extra
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import SceneError
from coda_jax.sim.mjx import MjxSimulator
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.simulator import Episode
from coda_jax.types import FREE_SLOTS, HEALTH_NAN, MOVING_FIELDS, TABLE

BUCKET = Bucket(2, 2)
WORLDS, CHUNK = 4, 10
CATALOGUE = Catalogue.all()


def scene(target_xy, board_xy=(0.5, -0.2), target="block_00", support="board_00", brick_xy=None) -> Episode:
    things = [("a_1", target, target_xy, 0.0)]
    things += [("b_1", "carton_01", brick_xy, 0.3)] if brick_xy else []
    things += [("s_1", support, board_xy, 0.0)]
    goal = Expr("on", ("a_1", "s_1"))
    spec = SceneSpec(
        TaskFactor("pick_place", "put it there", goal, (), (Role("a_1", "target"), Role("s_1", "support"))),
        SpatialFactor(
            "layout",
            tuple(
                Placement(n, (float(xy[0]), float(xy[1]), CATALOGUE.get(a).half_extent_m[2]), yaw, "table", "r", 0.0)
                for n, a, xy, yaw in things
            ),
        ),
        AttributeFactor(tuple(ObjectAttributes(n, a, 1.0, 0.1, 1.0, "red") for n, a, _, _ in things)),
    )
    return Episode(spec, (nu(goal, "a_1"), Expr("on", ("a_1", "table")), Expr("lifted", ("a_1",)), Expr("grasped", ("a_1",))), horizon=90)


EPISODES = (
    scene((0.5, 0.1)),
    scene((0.45, 0.05), (0.55, -0.15), support="stand_00", brick_xy=(0.6, 0.2)),
    scene((0.55, 0.15), target="block_03"),
)


# warp's kernels take minutes to build, once on a machine
WARP = pytest.param("warp", marks=[pytest.mark.slow, pytest.mark.skipif(not warp_extra.installed(), reason="needs the extra warp")])


@pytest.fixture(scope="module", params=["jax", WARP])
def simulator(request) -> MjxSimulator:
    return MjxSimulator(CATALOGUE, BUCKET, WORLDS, CHUNK, impl=request.param)


def native_simulator(cone: int) -> NativeSimulator:
    """The native backend with MJX's shapes and fingers."""

    def build(spec, catalogue, bucket, robot):
        compiled = mjx_model.compiled(spec, catalogue, bucket, robot)
        compiled.model.opt.cone = cone
        return compiled

    return NativeSimulator(CATALOGUE, BUCKET, WORLDS, threads=1, robot=mjx_model.ROBOT, build=build)


def _towards(view, goal, closed: bool) -> np.ndarray:
    action = np.zeros((WORLDS, 7))
    action[:, :3] = np.clip((goal - np.asarray(view.ee_pos)) / 0.05, -1, 1)
    action[:, 6] = 1.0 if closed else -1.0
    return action


def demonstrate(simulator: NativeSimulator, batch) -> tuple[np.ndarray, list]:
    """Pick and place by waypoints: actions [t, b, 7], and the trace of each control step."""
    state = simulator.reset(batch)
    pick, place = np.asarray(state.view.pos)[:, 0], np.asarray(state.view.pos)[:, FREE_SLOTS]
    rest = place + (0, 0, 1) * np.asarray(state.view.half_extent)[:, [FREE_SLOTS], 2] + (0, 0, 0.025)
    up = np.array([0, 0, 0.12])
    plan = [(pick + up, 14, False), (pick, 6, False), (pick, 4, True), (pick + up, 6, True)]
    plan += [(rest + up, 10, True), (rest, 6, True), (rest, 4, False), (rest + up, 10, False)]
    actions, traces = [], []
    for goal, steps, closed in plan:
        for _ in range(steps):
            actions.append(_towards(state.view, goal, closed))
            state, trace = simulator.step_chunk(batch, state, actions[-1][:, None])
            traces.append(trace)
    return np.stack(actions), traces


def _joined(traces: list, field: str) -> np.ndarray:
    return np.concatenate([np.asarray(getattr(t, field)) for t in traces], 1)


@pytest.mark.parametrize(("cone", "held_m"), [(mujoco.mjtCone.mjCONE_PYRAMIDAL, 1e-3), (mujoco.mjtCone.mjCONE_ELLIPTIC, 6e-3)])
def test_same_scenes_and_actions_as_native(simulator, cone, held_m):
    """Against native with MJX's own friction cone, and against native as it is used."""
    reference = native_simulator(cone)
    native_batch, batch = reference.compile(EPISODES), simulator.compile(EPISODES)
    actions, native_traces = demonstrate(reference, native_batch)
    first, state = reference.reset(native_batch).view, simulator.reset(batch)
    for name in ("pos", "quat", "linvel", "half_extent", "cavity_pos", "cavity_half", "present", "articulation", "gripper_opening"):
        np.testing.assert_allclose(getattr(state.view, name), getattr(first, name), atol=1e-3, err_msg=name)
    np.testing.assert_allclose(np.asarray(state.view.pos)[:3, 0], first.pos[:3, 0], atol=1e-4)  # the targets' sides lie along the axes
    np.testing.assert_allclose(state.view.ee_pos, first.ee_pos, atol=1e-5)
    assert np.abs(np.sum(np.asarray(state.view.ee_quat) * first.ee_quat, 1)).min() > 1 - 1e-6
    np.testing.assert_array_equal(np.asarray(state.view.contact)[:3], first.contact[:3])
    assert np.asarray(state.view.contact)[:3, 0, TABLE].all()

    traces = []
    for k in range(0, len(actions), CHUNK):
        state, trace = simulator.step_chunk(batch, state, actions[k : k + CHUNK].swapaxes(0, 1))
        traces.append(trace)
    apart = np.abs(_joined(traces, "qpos") - _joined(native_traces, "qpos"))[:3]
    values, native_values = _joined(traces, "predicates")[:3], _joined(native_traces, "predicates")[:3]
    approach, held = slice(0, 20), slice(24, 40)
    assert apart[:, approach, :7].max() < 1e-5  # rad
    assert apart[:, approach, 9:12].max() < 1e-4
    assert (native_values[:, held, 2] > 0.05).any(1).all(), "the plan does not lift: the comparison would be empty"
    assert values[:, held, 3].min() > 0 and values[:, held, 3].mean() > 0.9  # a pad may lose touch for one moment
    assert apart[:, held, 9:12].max() < held_m
    success, native_success = (np.any([t.terminated for t in ts], axis=0).tolist() for ts in (traces, native_traces))
    assert success == native_success == [True, True, True, False]
    assert not _joined(traces, "active")[3].any()  # padding never runs
    assert not np.asarray(state.health).any()


def test_the_size_is_told_of_either_implementation(simulator):
    size = simulator.size(EPISODES[0])
    assert size.contacts == 32 and size.rows > 6 * 32 and size.state_bytes > 0


def test_worlds_end_early_refill_and_compile_nothing(simulator):
    batch = simulator.compile(EPISODES[:2])
    state = simulator.reset(batch)
    chunk = np.zeros((WORLDS, CHUNK, 7), np.float32)
    chunk[:, :, 0] = 2.0
    state, _ = simulator.step_chunk(batch, state, chunk)
    compilations: list[str] = []

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if "backend_compile" in event:
            compilations.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    simulator.replace(batch, state, [3], [EPISODES[2]])  # first use of the refill
    compilations.clear()

    short = Episode(EPISODES[2].spec, EPISODES[2].predicates[:2], horizon=3)
    refilled, mixed = simulator.replace(batch, state, [1, 2], [scene((0.4, -0.05), (0.6, 0.1), brick_xy=(0.5, 0.25)), short])
    for before, after in zip(jax.tree.leaves(state), jax.tree.leaves(mixed), strict=True):
        np.testing.assert_array_equal(np.asarray(before)[0], np.asarray(after)[0])  # the other world to the bit
    np.testing.assert_allclose(np.asarray(mixed.view.pos)[1, 1], (0.5, 0.25, CATALOGUE.get("carton_01").half_extent_m[2]), atol=1e-3)
    after, trace = simulator.step_chunk(refilled, mixed, chunk, record=True)
    assert not compilations  # a record needs no executable of its own
    assert trace.moving is not None and set(trace.moving) == set(MOVING_FIELDS)
    for name, values in trace.moving.items():
        np.testing.assert_array_equal(np.asarray(values)[:, -1], np.asarray(getattr(after.view, name)))
        assert values.shape[:2] == (WORLDS, CHUNK)
    assert (
        np.abs(np.diff(np.asarray(trace.moving["ee_pos"])[2, 2:], axis=0)).max()
        == 0
        < np.abs(np.diff(trace.moving["ee_pos"][0], axis=0)).max()
    )
    assert simulator.step_chunk(refilled, mixed, chunk)[1].moving is None
    assert np.asarray(trace.executed).tolist() == [10, 10, 3, 0]
    assert np.asarray(trace.truncated).tolist() == [False, False, True, False]
    assert np.asarray(trace.clipped).tolist() == [10, 10, 3, 0]
    assert np.asarray(after.view.control_step).tolist() == [20, 10, 3, 0]
    np.testing.assert_array_equal(np.asarray(trace.qpos)[2, 2:], np.tile(np.asarray(trace.qpos)[2, 2], (8, 1)))

    alone, _ = simulator.step_chunk(batch, state, chunk)
    for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(np.asarray(a)[0], np.asarray(b)[0])

    broken = state.physics.replace(qvel=state.physics.qvel.at[0, 0].set(np.nan))
    flagged, trace = simulator.step_chunk(batch, dataclasses.replace(state, physics=broken), chunk)
    assert int(flagged.health[0]) & HEALTH_NAN and int(trace.executed[0]) == 1 and int(flagged.health[1]) == 0


def test_what_does_not_fit_is_refused():
    with pytest.raises(SceneError, match=r"a_1: .*slot's 1 boxes and 1 capsules.*benchmarks.mjx_lint.*sim.backend=native"):
        mjx_model.scene_fields(scene((0.5, 0.1), target="brush_00").spec, CATALOGUE, BUCKET)
    with pytest.raises(SceneError, match=r"bucket f8g1 has no MJX executable.*f2g2"):
        MjxSimulator(CATALOGUE, Bucket(8, 1), 2, CHUNK)
