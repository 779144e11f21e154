"""Trials: order, pairing by key, phases and margins; and recorded actions end in the same states when they are carried out again."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.agents.base import Trial
from coda_jax.evaluation.rollouts import rollout
from coda_jax.evaluation.trials import TrialRunner, by_scene, rate_interval, success_rate
from coda_jax.programs import expressions
from coda_jax.scenes import families
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import token_index
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.replay import replay
from coda_jax.sim.simulator import episode_of

HORIZON = 10


@pytest.fixture(scope="module")
def sim():
    return NativeSimulator(Catalogue.all(), Bucket(6, 6), worlds=3)


def wander(obs, keys):
    """Chunks [b, 8, 7] that go down to the target with noise of their keys, some of it outside [-1, 1]."""
    toward = jnp.clip((obs.pos[:, 0] - obs.ee_pos) * 6, -1, 1)
    noise = jax.vmap(lambda k: 0.5 * jax.random.normal(k, (8, 7)))(keys)
    return noise.at[..., :3].add(toward[:, None])


def embed(texts):
    return np.zeros((len(texts), 4), np.float32)


@pytest.fixture(scope="module")
def specs():
    return [sample_spec(Catalogue("train"), "pick_place", "id", "train", seed) for seed in range(2)]


def test_outcomes_come_in_order_and_equal_trials_are_equal(sim, specs):
    ended = []
    runner = TrialRunner(sim, Catalogue.all(), wander, embed, 4, lambda _: HORIZON, jax.random.key(0), ended.append)
    trials = [Trial(specs[i % 2], (i % 2, i // 4)) for i in range(7)]
    outcomes = runner(trials)
    assert [o.trial for o in outcomes] == trials
    assert {id(o) for o in ended} == {id(o) for o in outcomes} and len(ended) == 7
    assert np.array_equal(outcomes[0].actions, outcomes[2].actions)  # same scene and repeat, other world and neighbours
    assert not np.array_equal(outcomes[0].actions, outcomes[4].actions)  # another repeat
    assert success_rate(outcomes) == (0, 7)
    assert by_scene(outcomes) == {0: (0, 4), 1: (0, 3)}


def test_margins_say_how_close_a_rollout_came(sim, specs):
    (outcome,) = TrialRunner(sim, Catalogue.all(), wander, embed, 4, lambda _: HORIZON, jax.random.key(1))([Trial(specs[0], (0, 0))])
    reached = outcome.margins["gripper_to_target"]
    assert 0 < reached.value < 0.5
    assert (outcome.phase == "approach") == (reached.value > reached.threshold)
    assert set(outcome.margins) == {m.name for m in families.margins(specs[0])}
    assert 1 <= reached.step <= outcome.steps


def test_recorded_actions_end_in_the_same_states(sim, specs):
    episodes = [episode_of(specs[i % 2], HORIZON, (i % 2, i)) for i in range(4)]
    results = list(rollout(sim, Catalogue.all(), episodes, wander, embed, 4, jax.random.key(2)))
    assert sum(r.clipped for r in results) > 0
    again = {t.episode.key: t for t in replay(sim, [(r.episode, r.actions) for r in results])}
    for r in results:
        t = again[r.episode.key]
        assert np.array_equal(t.qpos, r.qpos)
        assert np.array_equal(t.actions, np.clip(r.actions, -1, 1))
        assert t.views.ee_pos.shape == (r.steps + 1, 3)
        assert t.success == r.success


def test_a_job_without_actions_is_refused(sim, specs):
    with pytest.raises(ValueError, match="no actions"):
        next(replay(sim, [(episode_of(specs[0], HORIZON, (0, 0)), np.zeros((0, 7)))]))


def test_intervals_of_rates_are_over_scenes():
    agreeing = rate_interval([8, 8, 0, 0], 8)  # four scenes, whatever the number of rollouts
    assert agreeing.high - agreeing.low > 0.7 > rate_interval([4, 4, 4, 4], 8).high - rate_interval([4, 4, 4, 4], 8).low
    assert rate_interval([1, 2], [2, 4]).low <= 0.5 <= rate_interval([1, 2], [2, 4]).high
    assert rate_interval([], 4) == (0.0, 1.0)
    assert rate_interval([3], 4).low < 0.75 < rate_interval([3], 4).high


def wildly(obs, keys):
    return jax.vmap(lambda k: 1.5 * jax.random.normal(k, (8, 7)))(keys)


def views_equal(a, b):
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_a_record_holds_every_moment_and_changes_nothing(sim, specs):
    episodes = [episode_of(specs[i % 2], HORIZON, (i % 2, i)) for i in range(4)]
    results = list(rollout(sim, Catalogue.all(), episodes, wander, embed, 4, jax.random.key(2), record=True))
    plain = {r.episode.key: r for r in rollout(sim, Catalogue.all(), episodes, wander, embed, 4, jax.random.key(2))}
    again = {t.episode.key: t for t in replay(sim, [(r.episode, r.actions) for r in results])}
    for r in results:
        assert np.array_equal(r.actions, plain[r.episode.key].actions)
        assert plain[r.episode.key].views is None
        assert r.views is not None
        assert r.views.pos.shape == (r.steps + 1, 8, 3)
        assert np.array_equal(r.views.control_step, np.arange(r.steps + 1))
        assert views_equal(r.views, again[r.episode.key].views)  # native replays bit for bit
        table = expressions.encode(r.episode.predicates, token_index(r.episode.spec, Catalogue.all()))
        tables = jax.tree.map(lambda leaf, n=r.steps + 1: np.broadcast_to(leaf, (n, *leaf.shape)), table)
        assert np.array_equal(expressions.evaluate(tables, r.views)[1:], r.predicates)


def test_a_prefix_is_carried_out_in_whole_chunks_before_the_policy_takes_over(sim, specs):
    plain = episode_of(specs[0], HORIZON, (0, 0))
    (first,) = rollout(sim, Catalogue.all(), [plain], wander, embed, 4, jax.random.key(3), record=True)
    begun = dataclasses.replace(plain, prefix=np.clip(first.actions[:6], -1, 1))
    other = episode_of(specs[1], HORIZON, (1, 0))
    results = {r.episode.key: r for r in rollout(sim, Catalogue.all(), [begun, other], wildly, embed, 4, jax.random.key(3), record=True)}
    r = results[0, 0]
    assert r.views is not None and first.views is not None
    assert (r.prefix, results[1, 0].prefix) == (4, 0)
    assert r.steps == HORIZON  # the prefix counts
    assert np.array_equal(r.executed, [4, 4, 2])
    assert np.array_equal(r.qpos[:4], first.qpos[:4])
    assert np.array_equal(r.views.pos[:5], first.views.pos[:5])
    assert np.abs(r.actions[4:]).max() > 1 > np.abs(r.actions[:4, :3]).min()
    assert not np.array_equal(r.qpos[5], first.qpos[5])
    outcome = TrialRunner(sim, Catalogue.all(), wildly, embed, 4, lambda _: HORIZON, jax.random.key(3), record=True)(
        [Trial(specs[0], (0, 0), begun.prefix)]
    )[0]
    assert outcome.recorded is not None and outcome.recorded.prefix == 4
    assert np.array_equal(outcome.actions, r.actions)  # the noise of a decision does not depend on who acted before
