"""Weights by hand, and updates: what they learn from, what they leave alone, resume bit for bit."""

import dataclasses
import logging
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning import awr as improvement
from coda_jax.learning import dataset, experience, records, steps
from coda_jax.learning.policies import grounding
from coda_jax.learning.policies.base import mixed
from coda_jax.loop.checkpoint import Checkpoints
from coda_jax.types import STEP_FIELDS, WorldView
from tests.learning import toy

PAIRS, SUPPORTS = toy.names(("red", "blue"), ("mug", "can", "apple")), toy.names(("white",), ("plate", "tray"))
KEY = jax.random.key(3)
DECISIONS = 3  # of each toy episode


def settings(**changes) -> improvement.Awr:
    values = {
        "improve": "awr",
        "advantage": "critic",
        "trace": 0.95,
        "advantage_unit": "std",
        "temperature": 1.0,
        "most_weight": 20.0,
        "least_sd": 0.02,
        "sd_decay": 0.5,
        "shares": (0.25, 0.5, 0.125, 0.125),
        "drift_weight": 0.0,
    }
    return improvement.Awr(**{**values, **changes})


def embed(strings):
    return np.stack([np.random.default_rng(sum(map(ord, s))).normal(size=384) * 384**-0.5 for s in strings]).astype(np.float32)


def record(rng, source: str, success: bool, scale: float) -> records.EpisodeRecord:
    """A demonstration of the toy as an episode of three decisions; ``scale`` of its motions."""
    demo = toy.demonstration(rng, PAIRS, SUPPORTS, 4 * DECISIONS + 1)
    t, tokens = 4 * DECISIONS, len(demo.names)
    still = {
        name: np.tile(demo.obs[name], (t + 1, 1, *[1] * (np.ndim(demo.obs[name]) - 1))) for name in ("half_extent", "articulation_range")
    }
    zeros = np.zeros((t + 1, tokens, 3), np.float32)
    seen: dict[str, Any] = {name: np.asarray(demo.obs[name], np.float32) for name in STEP_FIELDS}
    views = WorldView(
        **seen,
        half_extent=still["half_extent"].reshape(t + 1, tokens, 3),
        articulation_range=still["articulation_range"].reshape(t + 1, tokens, 2),
        present=np.tile(demo.obs["present"], (t + 1, 1)),
        cavity_pos=zeros,
        cavity_half=zeros,
        finger_contact=np.zeros((t + 1, tokens, 2), bool),
        contact=np.zeros((t + 1, tokens, tokens + 1), bool),
        pos0=zeros,
        quat0=np.zeros((t + 1, tokens, 4), np.float32),
        control_step=np.arange(t + 1),
    )
    return records.EpisodeRecord(
        views=views,
        actions=demo.actions[:t] * ([scale] * 6 + [1]),
        executed=records.decisions(t, 4),
        prefix=0,
        success=success,
        source=source,
        names=demo.names,
        instruction=demo.instruction,
        roles=demo.roles,
        weight=1.0,
    )


SOURCES = ("demonstration", "targeted", "control", "replay", "targeted")
SUCCESS = (True, True, False, False, False)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    demos = dataset.build([toy.demonstration(rng, PAIRS, SUPPORTS) for _ in range(8)], embed)
    episodes = [record(rng, source, success, 0.5) for source, success in zip(SOURCES, SUCCESS, strict=True)]
    table = experience.build(episodes, [records.sparse_labels(r) for r in episodes], embed, 8, 2)
    language = grounding.language_set(toy.phrases(rng, PAIRS, SUPPORTS, 40), PAIRS + SUPPORTS, embed, 64)
    return demos, table, language


def weighed(awr, table, advantages, spread=None):
    padded = jnp.zeros(table.order.shape).at[: len(advantages)].set(jnp.asarray(advantages))
    weights, spread, metrics = improvement.decision_weights(awr, spread or improvement.init_spread(), table, padded)
    return weights, spread, dict(zip(improvement.WEIGHT_METRICS, np.asarray(metrics).tolist(), strict=True))


def real_rows(table) -> np.ndarray:
    """Rows of the policy's own decisions, from the layout: three a successful episode, and a closing row after the others."""
    rows, first = [], 0
    for source, success in zip(SOURCES, SUCCESS, strict=True):
        rows += range(first, first + DECISIONS) if source != "demonstration" else []
        first += DECISIONS + (not success)
    return np.array(rows)


def test_own_and_successful_rows(problem):
    _, table, _ = problem
    assert np.flatnonzero(improvement.own_rows(table)).tolist() == real_rows(table).tolist()
    assert np.flatnonzero(improvement.successful_rows(table)[: int(table.size)]).tolist() == [0, 1, 2, 3, 4, 5]


def test_effective_share_by_hand():
    own = jnp.array([True] * 4 + [False])
    for weights, share in [((1, 1, 1, 1, 9), 1.0), ((1, 0, 0, 0, 9), 0.25), ((3, 1, 0, 0, 9), 16 / 40), ((0, 0, 0, 0, 9), 0.0)]:
        assert float(improvement.effective_share(jnp.array(weights, float), own)) == pytest.approx(share)
    entropy = improvement.entropy_share(jnp.array([1.0, 1.0, 0, 0, 9]), own)
    assert float(entropy) == pytest.approx(2 / 4)
    assert float(improvement.entropy_share(jnp.zeros(5), own)) == 0
    assert float(improvement.entropy_share(jnp.ones(5), own)) == pytest.approx(1.0)


def test_raw_advantages_of_small_spread_are_plain_cloning():
    """sd 0.05 and lambda 1: an effective share of exp(-0.05^2) = 99.75 %; in units of their sd it is exp(-1) = 37 %."""
    advantages = 0.05 * jax.random.normal(KEY, (100_000,))
    own = jnp.ones(len(advantages), bool)
    for unit, share in [("raw", math.exp(-(0.05**2))), ("std", math.exp(-1))]:
        awr = settings(advantage_unit=unit, most_weight=1e6)
        spread = improvement.measure_spread(awr, improvement.init_spread(), advantages, own)
        weights = improvement.advantage_weights(awr, spread, advantages)
        assert float(improvement.effective_share(weights, own)) == pytest.approx(share, rel=0.02 if unit == "std" else 2e-4)


def test_the_floor_keeps_a_flat_critic_s_weights_at_one(problem):
    _, table, _ = problem
    noise = np.random.default_rng(0).normal(0, 0.001, int(table.size))
    weights, spread, metrics = weighed(settings(), table, noise)
    assert np.abs(np.log(weights)).max() < 0.2 and metrics["ess"] > 0.99
    assert float(spread.sd) == pytest.approx(noise[real_rows(table)].std(), rel=1e-3)
    loose, _, metrics = weighed(settings(least_sd=1e-6), table, noise)
    assert np.abs(np.log(loose)).max() > 1 and metrics["ess"] < 0.9


def test_weights_by_hand(problem):
    _, table, _ = problem
    rows = real_rows(table)
    advantages = np.full(int(table.size), 50.0)  # of demonstrations and closing rows: never read
    advantages[rows] = np.tile([0.3, -0.1], 6)  # sd 0.2
    weights, spread, metrics = weighed(settings(most_weight=4.0), table, advantages)
    assert float(spread.sd) == pytest.approx(0.2) and int(spread.seen) == 1
    np.testing.assert_allclose(weights[rows], np.tile([4.0, math.exp(-0.5)], 6), rtol=1e-5)  # exp(1.5) = 4.48 is cut
    assert np.delete(np.asarray(weights), rows).tolist() == [1.0] * (len(weights) - len(rows))
    high, low = 4.0, math.exp(-0.5)
    assert metrics["clipped"] == 0.5 and metrics["decisions"] == 12
    assert metrics["mean_weight"] == pytest.approx((high + low) / 2)
    assert metrics["ess"] == pytest.approx((high + low) ** 2 / 2 / (high**2 + low**2))
    raw, _, _ = weighed(settings(advantage_unit="raw", temperature=0.5), table, advantages)
    np.testing.assert_allclose(raw[rows], np.tile([math.exp(0.6), math.exp(-0.2)], 6), rtol=1e-5)
    # the running value moves by 1 - sd_decay, and is what the next weights are divided by
    weights, spread, metrics = weighed(settings(), table, 3 * advantages, spread)
    assert float(spread.sd) == pytest.approx(0.4) and metrics["advantage_sd"] == pytest.approx(0.6)
    np.testing.assert_allclose(weights[rows], np.tile([math.exp(0.9 / 0.4), math.exp(-0.3 / 0.4)], 6), rtol=1e-5)


def test_filtered_cloning_keeps_decisions_of_successful_episodes(problem):
    _, table, _ = problem
    weights, _, metrics = weighed(settings(improve="filtered"), table, np.random.default_rng(0).normal(size=int(table.size)))
    assert np.flatnonzero(np.asarray(weights)[real_rows(table)]).tolist() == [0, 1, 2]
    assert metrics["ess"] == pytest.approx(3 / 12) and metrics["clipped"] == 0


def test_nothing_of_the_policy_s_own_leaves_the_running_value():
    spread = improvement.measure_spread(settings(), improvement.init_spread(), jnp.ones(3), jnp.zeros(3, bool))
    assert float(spread.sd) == 0 and int(spread.seen) == 0


def test_counts_share_out_the_whole_batch():
    assert settings().counts(64) == (16, 32, 8, 8)
    assert settings().counts(9) == (3, 4, 1, 1)  # a quarter of nine is not two
    assert settings(shares=(0.3, 0.7, 0.0, 0.0)).counts(10) == (3, 7, 0, 0)
    assert settings(shares=(1.0, 0.0, 0.0, 0.0)).counts(7) == (7, 0, 0, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"improve": "ppo"},
        {"advantage_unit": "var"},
        {"temperature": 0.0},
        {"least_sd": 0.0},
        {"most_weight": 0.5},
        {"sd_decay": 1.0},
        {"shares": (0.2, 0.8, 0.0, 0.0)},
        {"shares": (0.5, 0.2, 0.2, 0.2)},
        {"drift_weight": -1.0},
    ],
)
def test_bad_settings_are_named(change):
    with pytest.raises(ValueError, match=rf"awr\.{next(iter(change))}"):
        settings(**change)


POLICY, TRAINING = toy.policy(width=32), toy.training(steps=60, warmup=1, batch=16, language_batch=16)


def start(policy=POLICY, training=TRAINING):
    state = steps.init_state(policy, training, policy.init(jax.random.key(0)))
    return state, jax.tree.map(jnp.copy, state.params)


def run(problem, awr, count=2, weights=None, state=None, table=None, clone=None):
    """``count`` updates from the start or ``state``; the state and the metrics by name."""
    demos, own, language = problem
    fresh, same = start()
    weights = jnp.ones(own.order.shape) if weights is None else weights
    state, metrics = improvement.policy_steps(
        POLICY,
        TRAINING,
        awr,
        state or fresh,
        demos,
        table or own,
        counts(awr),
        weights,
        clone or same,
        language,
        KEY,
        jnp.asarray(count, jnp.int32),
    )
    return state, dict(zip(improvement.METRICS, np.asarray(metrics).tolist(), strict=True))


def counts(awr) -> jax.Array:
    return jnp.asarray(awr.counts(TRAINING.batch), jnp.int32)


def equal(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_save_and_resume_is_bit_for_bit(problem, tmp_path):
    whole, metrics = run(problem, settings(), 4)
    assert all(np.isfinite(list(metrics.values())))
    half, _ = run(problem, settings(), 2)
    with Checkpoints(tmp_path, keep=2) as store:
        store.save(2, half)
        restored = store.restore(start()[0]).tree
    assert int(restored.step) == 2
    assert equal(run(problem, settings(), 2, state=restored)[0], whole)


def test_one_executable_for_every_count_table_and_weights(problem, caplog):
    state, _ = run(problem, settings(), 1)
    other = dataclasses.replace(problem[1], actions=problem[1].actions * 0.3)
    weights, _, _ = weighed(settings(), other, np.ones(int(other.size)))
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        run(problem, settings(), 3, weights, state, other)
        jax.jit(lambda x: x + 1)(jnp.ones(3))
    compiled = [m for m in caplog.messages if "XLA compilation of jit" in m]
    assert any("lambda" in m for m in compiled) and not any("policy_steps" in m for m in compiled)


def test_weights_scale_the_decisions_and_leave_demonstrations(problem):
    """The loss is E[w ...] as it stands: weight 3 adds twice the decisions' share of it; at weight 0 they teach nothing."""
    n = problem[1].order.shape
    plain = run(problem, settings(), 1, jnp.ones(n))[1]
    triple = run(problem, settings(), 1, jnp.full(n, 3.0, jnp.float32))[1]
    assert triple["loss"] - plain["loss"] == pytest.approx(2 * 0.75 * plain["motor_decisions"], rel=1e-4)
    assert triple["motor_demonstrations"] == plain["motor_demonstrations"] and triple["mean_weight"] == 3
    changed = dataclasses.replace(problem[1], actions=-problem[1].actions)
    nothing, other = (run(problem, settings(), 2, jnp.zeros(n), table=t)[0] for t in (problem[1], changed))
    assert equal(nothing.params["net"]["head"], other.params["net"]["head"])
    assert not equal(run(problem, settings())[0].params, run(problem, settings(), table=changed)[0].params)


def test_steps_that_were_not_carried_out_do_not_teach(problem):
    """With plain chunks a label touches its own step alone, so other labels outside the mask change no loss of the head's own steps."""
    policy = toy.policy(width=32, cumulative=False)
    batch = experience.chunk_batch(problem[1], jnp.arange(3))
    assert batch.mask.sum(-1).tolist() == [4, 4, 4]
    velocity, wanted, _ = policy.velocities(policy.init(KEY), batch, KEY)
    loss = improvement.flow_matching(velocity, wanted, batch.mask)
    np.testing.assert_array_equal(improvement.flow_matching(velocity, wanted.at[:, 4:].add(7.0), batch.mask), loss)
    np.testing.assert_allclose(loss, np.square(velocity - wanted)[:, :4].mean((1, 2)), rtol=1e-5)
    assert not np.allclose(improvement.flow_matching(velocity, wanted.at[:, :4].add(7.0), batch.mask), loss)


def test_without_shares_of_its_own_the_table_is_not_read(problem):
    awr = settings(shares=(1.0, 0.0, 0.0, 0.0))
    broken = dataclasses.replace(problem[1], actions=problem[1].actions * jnp.nan)
    state, first = run(problem, awr, 1, table=broken)
    state, _ = run(problem, awr, 58, state=state, table=broken)
    _, last = run(problem, awr, 1, state=state, table=broken)
    assert last["motor_demonstrations"] < 0.9 * first["motor_demonstrations"]
    assert first["motor_decisions"] == 0


def test_drift_is_measured_and_held_back(problem):
    _, begun = run(problem, settings(), 1)
    assert begun["drift"] == 0.0  # the policy is still the clone
    free, guarded = (run(problem, settings(drift_weight=w), 60)[1]["drift"] for w in (0.0, 30.0))
    assert free > 0.003 and guarded < 0.2 * free


def test_drift_by_hand(problem):
    """A clone whose last bias differs by 0.1 in every number: a mean squared difference of 0.01, whatever x_u and u."""
    clone = start()[1]
    clone["net"]["head"][-1]["b"] = clone["net"]["head"][-1]["b"] + 0.1
    assert run(problem, settings(), 1, clone=clone)[1]["drift"] == pytest.approx(0.01, rel=1e-3)


def test_a_frozen_policy_is_not_trained(problem):
    with pytest.raises(ValueError, match="frozen"):
        run(problem, settings(improve="frozen"))


def test_no_host_sync_inside(problem):
    run(problem, settings(), 1)
    state, clone = start()
    demos, table, language = problem
    weights, count, given = jnp.ones(table.order.shape), jnp.asarray(2, jnp.int32), counts(settings())
    with jax.transfer_guard("disallow"):
        improvement.policy_steps(POLICY, TRAINING, settings(), state, demos, table, given, weights, clone, language, KEY, count)


def test_mixed_batches_keep_their_words(problem):
    demos, table, _ = problem
    first, second = dataset.gather(demos, jnp.arange(4), 8), experience.chunk_batch(table, jnp.arange(4))
    take = jnp.array([True, False, True, False])
    both = mixed(take, first, second)
    assert both.table is not None
    present = np.asarray(both.obs.present)
    np.testing.assert_array_equal(both.table.text[both.table.names][present], both.obs.text[present])
    np.testing.assert_array_equal(both.actions[::2], first.actions[::2])
    np.testing.assert_array_equal(both.actions[1::2], second.actions[1::2])
    plain = mixed(take, dataclasses.replace(first, table=None), dataclasses.replace(second, table=None))
    loss = jax.jit(POLICY.loss)
    np.testing.assert_allclose(loss(start()[1], both, KEY), loss(start()[1], plain, KEY), rtol=1e-4)
    with pytest.raises(ValueError, match="word table"):
        mixed(take, first, dataclasses.replace(second, table=None))
