"""Training: resumption bit for bit, what moves and what does not, metrics, one executable, no transfer in the loop."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax import runtime
from coda_jax.learning.critic import steps
from tests.learning.critic import small

CRITIC, TRAINING, DRAW = small.critic(), small.training(), small.Draw(16)
TABLE = small.random_table(24)
KEY = jax.random.key(3)


def run(count, state=None, table=TABLE):
    state = steps.init_state(CRITIC, TRAINING, CRITIC.init(jax.random.key(0))) if state is None else state
    return steps.critic_steps(CRITIC, TRAINING, DRAW, state, table, KEY, jnp.asarray(count, jnp.int32))


def test_two_steps_saved_and_two_more_are_four(tmp_path):
    whole, _ = run(4)
    half, _ = run(2)
    leaves, tree = jax.tree.flatten(half)
    np.savez(tmp_path / "state.npz", *leaves)
    with np.load(tmp_path / "state.npz") as saved:
        restored = jax.tree.unflatten(tree, [jnp.asarray(saved[name]) for name in saved.files])
    resumed, _ = run(2, restored)
    assert int(resumed.step) == 4
    jax.tree.map(np.testing.assert_array_equal, resumed, whole)


def test_what_learns_what_follows_and_what_stays():
    start = CRITIC.init(jax.random.key(0))
    first, _ = run(1)  # the warm-up's first rate is 0
    jax.tree.map(np.testing.assert_array_equal, first.params["net"], start["net"])
    before = jax.tree.map(np.asarray, (first.params, first.target))
    second, _ = run(1, first)
    jax.tree.map(np.testing.assert_array_equal, second.params["grounding"], start["grounding"])
    jax.tree.map(np.testing.assert_array_equal, second.params["statistics"], start["statistics"])
    assert np.abs(second.params["net"]["head"]["w"] - before[0]["net"]["head"]["w"]).max() > 0
    moved = jax.tree.map(lambda t, p: t + TRAINING.tau * (p - t), before[1], second.params["net"])
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-7), second.target, moved)


def test_every_weight_of_the_network_gets_a_gradient():
    after, _ = run(5)
    start = CRITIC.init(jax.random.key(0))["net"]
    unmoved = [
        jax.tree_util.keystr(path)
        for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(after.params["net"]), jax.tree.leaves(start), strict=True)
        if not (np.asarray(x) != np.asarray(y)).any()
    ]
    assert unmoved == []


def test_one_executable_for_any_count_and_no_transfer_inside():
    state, _ = run(2)
    count = jnp.asarray(3, jnp.int32)
    state, _ = steps.critic_steps(CRITIC, TRAINING, DRAW, state, TABLE, KEY, count)
    built = runtime.compile_count()
    with jax.transfer_guard("disallow"):
        state, _ = steps.critic_steps(CRITIC, TRAINING, DRAW, state, TABLE, KEY, count)
    assert runtime.compile_count() == built
    assert int(state.step) == 8


def test_the_state_is_consumed():
    state, _ = run(1)
    run(1, state)
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(state.step)


def test_nothing_is_read_at_a_terminal():
    """Successors of terminal transitions hold NaN; nothing of it reaches the parameters."""
    spare = len(TABLE.phi) - 1  # a state that no transition begins in or leads to

    def spoil(x):
        return x.at[spare].set(jnp.nan) if x.dtype == jnp.float32 else x

    clean = dataclasses.replace(TABLE, successor=jnp.where(TABLE.terminal, spare, TABLE.successor))
    spoiled = {name: jax.tree.map(spoil, getattr(clean, name)) for name in ("obs", "phi", "candidates")}
    got, _ = run(3, table=dataclasses.replace(clean, **spoiled))
    expected, _ = run(3, table=clean)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(got.params))
    jax.tree.map(np.testing.assert_array_equal, got.params, expected.params)


def test_metrics_of_an_untrained_critic():
    _, row = run(1)
    found = dict(zip(steps.METRICS, np.asarray(row).tolist(), strict=True))
    p = np.exp(CRITIC.support.start_bias().astype(np.float64))
    p /= p.sum()
    assert found["entropy"] == pytest.approx(-(p * np.log(p)).sum(), abs=1e-4)
    assert found["edge_mass"] == pytest.approx(p[[0, 100]].sum(), abs=1e-6)
    assert found["bins_used"] == pytest.approx((p > 0.1 / 101).mean(), abs=1e-6)
    assert found["candidate_spread"] == pytest.approx(0.0, abs=1e-5)  # all candidates decode to 0
    assert found["effective_candidates"] == pytest.approx(small.J, abs=0.05)
    assert found["clip_share"] == 0.0 and found["gradient_norm"] > 0 and found["loss"] > 0


def metrics_of(training, candidates, y, clipped=None):
    logits = jnp.tile(jnp.asarray(CRITIC.support.start_bias()), (len(y), 1))
    clipped = jnp.zeros(len(y), bool) if clipped is None else clipped
    row = steps.metrics(CRITIC, training, jnp.array(1.0), logits, y, clipped, candidates, jnp.array(2.0))
    return dict(zip(steps.METRICS, np.asarray(row).tolist(), strict=True))


def test_metrics_by_hand():
    candidates = jnp.array([[0.0, 0.2], [0.5, 0.5]])
    found = metrics_of(small.training(temperature=0.1, temperature_unit="raw"), candidates, jnp.array([0.1, 0.3]), jnp.array([True, False]))
    assert found["bias"] == pytest.approx(-0.2, abs=1e-5)
    assert found["clip_share"] == 0.5 and found["gradient_norm"] == 2.0
    assert found["candidate_spread"] == pytest.approx(0.05)
    w = 1 / (1 + np.exp(2))
    assert found["effective_candidates"] == pytest.approx((2 + 1 / (w**2 + (1 - w) ** 2)) / 2, abs=1e-4)
    scaled = metrics_of(small.training(temperature=0.1), 7 * candidates, jnp.array([0.1, 0.3]))
    assert scaled["effective_candidates"] == pytest.approx(
        metrics_of(small.training(temperature=0.1), candidates, jnp.array([0.1, 0.3]))["effective_candidates"], abs=1e-3
    )


def test_settings_of_the_optimiser_matter():
    params = CRITIC.init(jax.random.key(0))
    gradient = jax.tree.map(lambda x: jnp.sin(jnp.arange(x.size, dtype=jnp.float32)).reshape(x.shape), params)

    def after(training, count=3):
        state = steps.init_state(CRITIC, training, params)
        for i in range(count):
            scaled = jax.tree.map(lambda g, i=i: g * (1.0 + i), gradient)  # clipped or not, directions stay and lengths differ
            state = steps.updated(CRITIC, training, state, scaled)
        return np.concatenate([np.ravel(x) for x in jax.tree.leaves(state.target)])

    base = after(TRAINING)
    for changes in ({"learning_rate": 1e-3}, {"warmup": 3}, {"warmup": 0}, {"weight_decay": 0.1}, {"clip_norm": 1e3}, {"tau": 0.5}):
        assert np.abs(after(dataclasses.replace(TRAINING, **changes)) - base).max() > 1e-7, changes


@pytest.mark.parametrize("changes, message", [({"tau": 0.0}, "tau"), ({"warmup": -1}, "warmup"), ({"temperature_unit": "z"}, "raw")])
def test_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        small.training(**changes)
