"""The native backend: determinism to the bit, masks, refill, health, and what an action does."""

import dataclasses
import pickle
from typing import Any

import jax
import numpy as np
import pytest

from coda_jax.programs.expressions import Expr
from coda_jax.programs.verifier import nu
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import SceneError
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.simulator import Episode
from coda_jax.types import HEALTH_NAN, POSITION_SCALE_M, SUBSTEPS
from tests.sim.tabletop import BALL, BLOCK, BOARD, CAN, CATALOGUE, Thing, scene

BUCKET = Bucket(4, 3)
WORLDS = 4
HAMMER = Thing("hammer_1", "hammer_04", 0.6, 0.12, yaw=0.7, mass_kg=0.15)
BIN = Thing("bin_1", "bin_01", 0.6, 0.25)


def episode(*things, horizon=60, goal=None, key=(0, 0)) -> Episode:
    spec = scene(*things, goal=goal)
    target = things[0].name
    return Episode(spec, (nu(spec.task.goal, target), Expr("lifted", (target,)), Expr("grasped", (target,))), horizon, key)


EPISODES = [
    episode(BLOCK, CAN, BOARD),
    episode(CAN, BALL, HAMMER, BLOCK, BOARD),
    episode(HAMMER, BOARD, BIN),
    episode(BLOCK, BALL, BOARD),
]


def busy_chunk(steps=12, worlds=WORLDS, seed=0) -> np.ndarray:
    """Actions that go down among the objects and push them."""
    chunk = np.random.default_rng(seed).uniform(-0.5, 0.5, (worlds, steps, 7))
    chunk[:, :, 2] -= 0.5
    chunk[:, :, 0] += 0.3
    return chunk


def simulator(bucket=BUCKET, worlds=WORLDS, threads=1) -> NativeSimulator:
    return NativeSimulator(CATALOGUE, bucket, worlds, threads)


def run(sim, episodes, chunk, chunks=2):
    batch = sim.compile(episodes)
    state = sim.reset(batch)
    traces = []
    for _ in range(chunks):
        state, trace = sim.step_chunk(batch, state, chunk)
        traces.append(trace)
    return batch, state, traces


def assert_same(a, b, rows: Any = slice(None), other_rows: Any = None):
    """Every array of two pytrees is equal to the bit, in the given worlds."""
    other_rows = rows if other_rows is None else other_rows
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(x)[rows], np.asarray(y)[other_rows])


@pytest.fixture(scope="module")
def reference():
    sim = simulator()
    return sim, *run(sim, EPISODES, busy_chunk())


def test_the_reference_run_touches_things(reference):
    _, _, state, traces = reference
    moved = np.linalg.norm(state.view.pos - state.view.pos0, axis=-1).max(1)
    assert (moved > 0.005).sum() >= 2, "nothing is pushed: the tests of determinism would say little"
    assert all(t.active.all() for t in traces)


@pytest.mark.parametrize("threads", [2, 3])
def test_any_number_of_threads_gives_the_same_bits(reference, threads):
    _, state, traces = run(simulator(threads=threads), EPISODES, busy_chunk())
    assert_same((state, traces), reference[2:])


def test_other_worlds_do_not_matter(reference):
    others = [episode(BALL, BOARD), EPISODES[1], episode(CAN, BIN), episode(HAMMER, CAN, BOARD)]
    chunk = busy_chunk(seed=5)
    chunk[1] = busy_chunk()[1]
    _, state, traces = run(simulator(), others, chunk)
    assert_same((state, traces), reference[2:], rows=[1])
    # nor does the place in the batch
    _, state, traces = run(simulator(), [EPISODES[1]] * 2, busy_chunk()[[1, 1, 1, 1]])
    assert_same((state, traces), reference[2:], rows=[0], other_rows=[1])


@pytest.mark.parametrize(("rows", "bucket"), [([0, 1, 2, 3], Bucket(6, 3)), ([0, 1, 2, 3], Bucket(4, 6)), ([0, 2, 3], Bucket(2, 3))])
def test_unused_slots_are_inert(reference, rows, bucket):
    """The same scenes with more or fewer slots, or geoms in them: the same bits."""
    _, _, state, traces = reference
    shared = slice(9 + 7 * min(bucket.free, BUCKET.free))
    _, other, other_traces = run(simulator(bucket), [EPISODES[r] for r in rows], busy_chunk()[[*rows, *rows][:WORLDS]])
    used = slice(len(rows))
    np.testing.assert_array_equal(other.physics["qpos"][used, shared], state.physics["qpos"][rows, shared])
    np.testing.assert_array_equal(other_traces[1].predicates[used], traces[1].predicates[rows])
    assert_same(other.view, state.view, rows=used, other_rows=rows)


def test_what_a_parked_slot_does_is_not_felt(reference):
    sim, batch, _, traces = reference
    state = sim.reset(batch)
    physics = {k: v.copy() for k, v in state.physics.items()}
    parked = slice(9 + 7 * 3, 9 + 7 * 4), slice(9 + 6 * 3, 9 + 6 * 4)
    physics["qpos"][0, parked[0]][:3] += 0.3
    physics["qvel"][0, parked[1]] = 0.5
    for first in traces:
        state, trace = sim.step_chunk(batch, dataclasses.replace(state, physics=physics), busy_chunk())
        np.testing.assert_array_equal(trace.qpos[0, :, : 9 + 7 * 2], first.qpos[0, :, : 9 + 7 * 2])
        physics = state.physics


def test_colour_is_only_paint(reference):
    painted = [episode(*(dataclasses.replace(t, colour="purple") for t in (BLOCK, CAN, BOARD))), *EPISODES[1:]]
    _, state, traces = run(simulator(), painted, busy_chunk())
    assert_same((state, traces), reference[2:])


def test_saved_state_continues_to_the_bit(reference):
    sim, _, state, traces = reference
    batch = sim.compile(EPISODES)
    halfway, _ = sim.step_chunk(batch, sim.reset(batch), busy_chunk())
    saved = pickle.dumps(halfway)
    sim.step_chunk(batch, halfway, busy_chunk(seed=9))  # stepping does not change what was handed out
    assert pickle.dumps(halfway) == saved
    fresh = simulator()
    continued, trace = fresh.step_chunk(fresh.compile(EPISODES), pickle.loads(saved), busy_chunk())
    assert_same((continued, trace), (state, traces[1]))


def test_warm_start_is_part_of_the_state(reference):
    sim, batch, state, _ = reference
    cold = dataclasses.replace(state, physics={**state.physics, "qacc_warmstart": np.zeros_like(state.physics["qacc_warmstart"])})
    one, other = (sim.step_chunk(batch, s, busy_chunk())[0].physics["qpos"] for s in (state, cold))
    assert not np.array_equal(one, other)


def test_refill_leaves_the_other_worlds_alone(reference):
    sim, batch, state, _ = reference
    fresh = [episode(BALL, CAN, BOARD), episode(CAN, BIN, horizon=5)]
    refilled, mixed = sim.replace(batch, state, [2, 0], fresh)
    kept = [1, 3]
    assert_same(mixed, state, rows=kept)
    assert refilled.episodes == (fresh[1], EPISODES[1], fresh[0], EPISODES[3])
    assert refilled.horizon.tolist() == [5, 60, 60, 60]
    assert mixed.view.control_step.tolist() == [0, 24, 0, 24]
    new, new_trace = sim.step_chunk(refilled, mixed, busy_chunk())
    old, old_trace = sim.step_chunk(batch, state, busy_chunk())
    assert_same((new, new_trace), (old, old_trace), rows=kept)
    # the refilled worlds are what a fresh simulator makes of those scenes
    alone_sim = simulator()
    alone_batch = alone_sim.compile([fresh[0]])
    alone, alone_trace = alone_sim.step_chunk(alone_batch, alone_sim.reset(alone_batch), busy_chunk()[[2, 2, 2, 2]])
    np.testing.assert_array_equal(new.physics["qpos"][2], alone.physics["qpos"][0])
    np.testing.assert_array_equal(new.view.pos0[2], alone.view.pos0[0])
    np.testing.assert_array_equal(new_trace.predicates[2], alone_trace.predicates[0])


def test_every_repeat_starts_from_the_same_settled_state():
    sim = simulator()
    repeats = [episode(BALL, CAN, BOARD, key=(0, r)) for r in range(WORLDS)]
    state = sim.reset(sim.compile(repeats))
    for name, leaf in state.physics.items():
        np.testing.assert_array_equal(leaf, leaf[[0] * WORLDS], err_msg=name)
    assert sim.physics_steps == 100  # settled once
    np.testing.assert_allclose(state.view.linvel, 0.0, atol=2e-3)
    _, later, _ = run(sim, repeats, busy_chunk())
    again = sim.reset(sim.compile(repeats))
    assert_same(again.physics, state.physics)
    assert not np.array_equal(later.physics["qpos"], again.physics["qpos"])


def test_a_full_cache_of_settled_scenes_keeps_those_that_are_asked_for():
    scenes = [episode(dataclasses.replace(CAN, x=0.4 + 0.01 * i), BOARD) for i in range(17)]
    sim = simulator(worlds=2)
    batch = sim.compile(scenes[:2])
    state = sim.reset(batch)
    for i in range(2, 16, 2):  # 8 scenes for each world are remembered
        batch, state = sim.replace(batch, state, [0, 1], scenes[i : i + 2])
    before = sim.physics_steps
    batch, state = sim.replace(batch, state, [0, 1], [scenes[0], scenes[16]])  # the oldest one, and one too many
    assert sim.physics_steps == before + 100
    fresh = simulator(worlds=2)
    expected = fresh.reset(fresh.compile([scenes[0], scenes[16]]))
    np.testing.assert_array_equal(state.physics["qpos"], expected.physics["qpos"])


def test_worlds_stop_at_success_and_at_the_horizon():
    near = Expr("at_most", (Expr("height_above", ("gripper", "table")), 0.2))
    spec = scene(BLOCK, BOARD)
    episodes = [
        Episode(spec, (near,), horizon=60),  # the hand comes down through 0.2 m
        Episode(spec, (Expr("lifted", ("block_1",)),), horizon=3),
        Episode(spec, (Expr("lifted", ("block_1",)),), horizon=60),
    ]
    sim = simulator(Bucket(2, 1))
    chunk = np.zeros((WORLDS, 10, 7))
    chunk[:, :, 2] = -0.6
    _, state, (first, second) = run(sim, episodes, chunk)
    stopped = int(first.executed[0])
    assert 2 <= stopped <= 5
    assert first.executed.tolist() == [stopped, 3, 10, 0] and second.executed.tolist() == [0, 0, 10, 0]  # the last one is padding
    for trace in (first, second):  # what has ended stays ended
        assert trace.terminated.tolist() == [True, False, False, False]
        assert trace.truncated.tolist() == [False, True, False, False]
    np.testing.assert_array_equal(first.active.sum(1), first.executed)
    assert (first.predicates[0, : stopped - 1, 0] == 0).all() and (first.predicates[0, stopped - 1 :, 0] == 1).all()
    for w, steps in ((0, stopped), (1, 3)):  # rows after the end repeat the last one
        np.testing.assert_array_equal(first.qpos[w, steps:], np.repeat(first.qpos[w, steps - 1 : steps], 10 - steps, 0))
    assert state.view.control_step.tolist() == [10 if stopped == 10 else stopped, 3, 20, 0]
    assert sim.physics_steps == 100 + SUBSTEPS * (stopped + 3 + 20)


def test_a_goal_that_holds_at_the_start_ends_the_world_before_it_runs():
    met = Episode(scene(BLOCK, BOARD), (Expr("on", ("block_1", "table")),), horizon=10)
    _, state, (trace,) = run(simulator(Bucket(2, 1)), [met], busy_chunk(), chunks=1)
    assert trace.terminated.tolist() == [True, False, False, False] and not trace.executed.any()
    assert not state.view.control_step.any()


@pytest.mark.parametrize("absurd", [np.nan, 1e12])
def test_a_diverged_world_is_flagged_and_the_others_go_on(reference, absurd, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    sim, batch, state, _ = reference
    physics = {k: v.copy() for k, v in state.physics.items()}
    physics["qvel"][1, 9 + 2] = absurd
    broken, trace = sim.step_chunk(batch, dataclasses.replace(state, physics=physics), busy_chunk())
    healthy, expected = sim.step_chunk(batch, state, busy_chunk())
    others = [0, 2, 3]
    assert_same((broken, trace), (healthy, expected), rows=others)
    assert broken.health.tolist() == [0, HEALTH_NAN, 0, 0]
    assert trace.executed[1] == 1 and not trace.terminated[1] and not trace.truncated[1]
    still, after = sim.step_chunk(batch, broken, busy_chunk())
    assert after.executed[1] == 0 and still.health[1] == HEALTH_NAN
    # a refill heals the world
    refilled, healed = sim.replace(batch, still, [1], [EPISODES[1]])
    healed, trace = sim.step_chunk(refilled, healed, busy_chunk())
    assert healed.health[1] == 0 and trace.executed[1] == 12 and np.isfinite(healed.physics["qpos"]).all()
    assert not list(tmp_path.iterdir()) and capfd.readouterr() == ("", "")  # counted, not scattered in logs


def _lift(friction: float) -> Episode:
    return episode(Thing("block_1", "block_00", 0.45, 0.0, friction=friction, mass_kg=0.3), BOARD)


def test_friction_of_the_object_decides_the_grasp():
    sim = simulator(Bucket(2, 1))
    batch = sim.compile([_lift(1.0), _lift(0.05)])
    state = sim.reset(batch)
    chunk = np.zeros((WORLDS, 30, 7))
    chunk[:, :, 6] = -1.0
    for _ in range(10):  # come down to the block's middle, level by level
        gap = state.view.pos[:, 0] - state.view.ee_pos
        down = np.zeros((WORLDS, 1, 7))
        down[:, 0, :3], down[:, 0, 6] = np.clip(gap / POSITION_SCALE_M, -1, 1), -1.0
        state, _ = sim.step_chunk(batch, state, down)
    chunk[:, :, 6], chunk[:, 6:, 2] = 1.0, 0.4
    state, trace = sim.step_chunk(batch, state, chunk)
    assert trace.predicates[0, -1, 1] > 0.1 and trace.predicates[0, -1, 2] == 1.0
    assert trace.predicates[1, -1, 1] < 0.02


def test_one_unit_moves_half_of_it_in_its_control_step():
    sim = simulator(Bucket(2, 1))
    batch = sim.compile([episode(BLOCK, BOARD, horizon=99)])
    for axis in range(3):
        state = sim.reset(batch)
        start = state.view.ee_pos[0, axis]
        chunk = np.zeros((WORLDS, 10, 7))
        chunk[:, :6, axis] = 0.5 * (-1 if axis == 2 else 1)
        moved = []
        for i in range(10):
            state, _ = sim.step_chunk(batch, state, chunk[:, i : i + 1])
            moved.append((state.view.ee_pos[0, axis] - start) / (POSITION_SCALE_M * chunk[0, 0, axis]))
        share = np.diff([0.0, *moved])
        assert 0.3 < share[0] < 0.45  # from rest
        assert share[1:6].min() > 0.48 and share[1:6].max() < 0.6  # under way
        np.testing.assert_allclose(share[8:], 0.0, atol=0.02)  # and it stops where it was, one lag later
        assert 3.0 < moved[-1] < 3.2


def test_clipped_entries_are_counted_and_have_the_effect_of_the_limit():
    sim = simulator(Bucket(2, 1))
    episodes = [episode(BLOCK, BOARD)] * 2
    chunk = np.zeros((WORLDS, 4, 7))
    chunk[0, :, :2], chunk[1, :, :2] = (3.0, -2.0), (1.0, -1.0)
    _, state, (trace,) = run(sim, episodes, chunk, chunks=1)
    assert trace.clipped.tolist() == [8, 0, 0, 0]
    np.testing.assert_array_equal(state.physics["qpos"][0], state.physics["qpos"][1])


def test_new_scenes_goals_and_predicates_compile_nothing(reference):
    sim, batch, state, _ = reference
    sim.replace(batch, state, [0], [EPISODES[3]])
    compilations: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration_secs, **_: compilations.append(event) if "backend_compile" in event else None
    )
    goal = Expr("all_of", (Expr("on", ("ball_1", "table")), Expr("at_most", (Expr("distance", ("ball_1", "can_1")), 0.08))))
    new = episode(BALL, CAN, BIN, goal=goal)
    refilled, mixed = sim.replace(batch, state, [1], [dataclasses.replace(new, predicates=(*new.predicates, Expr("upright", ("can_1",))))])
    sim.step_chunk(refilled, mixed, busy_chunk())
    run(sim, [new] * 3, busy_chunk())
    assert not compilations


def test_wrong_numbers_of_episodes_are_refused():
    with pytest.raises(SceneError, match="0 episodes for 4 worlds: give 1 to 4"):
        simulator().compile([])
    with pytest.raises(SceneError, match="5 episodes for 4 worlds"):
        simulator().compile([EPISODES[0]] * 5)
    with pytest.raises(SceneError, match="does not fit bucket f2g1"):
        simulator(Bucket(2, 1)).compile([EPISODES[1]])
