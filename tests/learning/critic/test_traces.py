"""Advantages of what happened, against a loop and against what they must be at either end."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning import experience, records
from coda_jax.learning.critic.monitor import realised_returns
from coda_jax.learning.critic.targets import Rule
from coda_jax.learning.critic.traces import trajectory_advantages
from tests.learning import test_awr

RULE = Rule(0.9, "step", 0.5)


@pytest.fixture(scope="module")
def table():
    """Episodes with and without success, dense rewards and a potential."""
    rng = np.random.default_rng(0)
    episodes = [test_awr.record(rng, source, success, 0.5) for source, success in zip(test_awr.SOURCES, test_awr.SUCCESS, strict=True)]
    whole = experience.build(episodes, [records.sparse_labels(r) for r in episodes], test_awr.embed, 8, 2)
    phi = jnp.asarray(rng.uniform(0, 2, whole.phi.shape), jnp.float32)
    rewards = whole.rewards + jnp.asarray(0.1 * rng.uniform(size=whole.rewards.shape), jnp.float32) * whole.mask
    return dataclasses.replace(whole, phi=phi, rewards=rewards)


def by_loop(rule, trace, table, v):
    n, found = int(table.size), np.zeros(table.phi.shape[0])
    mask, rewards, terminal, episode = (np.asarray(x) for x in (table.mask, table.rewards, table.terminal, table.episode))
    worth = np.asarray(v, np.float64) + rule.beta * np.asarray(table.phi)
    for row in reversed(range(n)):
        steps = mask[row].sum()
        if not steps:
            continue
        powers = rule.gamma ** np.arange(len(mask[row])) if rule.gamma_unit == "step" else 1.0
        factor = rule.gamma**steps if rule.gamma_unit == "step" else rule.gamma
        delta = (rewards[row] * mask[row] * powers).sum() - worth[row]
        goes_on = not terminal[row] and row + 1 < n and episode[row + 1] == episode[row]
        if goes_on:
            delta += factor * worth[row + 1]
            delta += trace * factor * found[row + 1]
        found[row] = delta
    return found


@pytest.mark.parametrize("unit", ["step", "chunk"])
@pytest.mark.parametrize("trace", [0.0, 0.7, 1.0])
def test_they_are_those_of_a_loop(table, unit, trace):
    rule = dataclasses.replace(RULE, gamma_unit=unit)
    v = jax.random.normal(jax.random.key(1), table.phi.shape)
    found = trajectory_advantages(rule, jnp.asarray(trace), table, v)
    np.testing.assert_allclose(found, by_loop(rule, trace, table, v), atol=2e-5)
    assert np.asarray(table.terminal).any() and not np.asarray(table.terminal)[: int(table.size)].all()


def test_a_full_trace_compares_what_was_earned_with_the_state_s_worth(table):
    """Of episodes that end in success; one that ran out of time is worth V of its last moment on top."""
    v = jax.random.normal(jax.random.key(1), table.phi.shape)
    n = int(table.size)
    found = np.asarray(trajectory_advantages(RULE, jnp.asarray(1.0), table, v))[:n]
    episode, terminal = np.asarray(table.episode)[:n], np.asarray(table.terminal)[:n]
    earned = realised_returns(RULE, np.asarray(table.rewards)[:n], np.asarray(table.mask)[:n], episode)
    won = np.isin(episode, episode[terminal])
    np.testing.assert_allclose(found[won], (earned - np.asarray(v + RULE.beta * table.phi)[:n])[won], atol=2e-5)
    assert 0 < won.sum() < n


def test_the_potential_does_not_matter(table):
    """V of the shaped problem goes down by what the potential goes up."""
    v = jax.random.normal(jax.random.key(1), table.phi.shape)
    other = dataclasses.replace(table, phi=2.0 - table.phi)
    shifted = v + RULE.beta * (table.phi - other.phi)
    a, b = (trajectory_advantages(RULE, jnp.asarray(0.9), t, x) for t, x in ((table, v), (other, shifted)))
    np.testing.assert_allclose(a, b, atol=2e-5)
    assert float(jnp.abs(a).max()) > 0.1


def test_rows_without_a_decision_have_none(table):
    found = np.asarray(trajectory_advantages(RULE, jnp.asarray(0.9), table, jnp.ones(table.phi.shape)))
    idle = np.asarray(table.mask).sum(-1) == 0
    assert idle[: int(table.size)].any() and not found[idle].any() and not found[int(table.size) :].any()
