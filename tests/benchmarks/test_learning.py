"""The updates in PyTorch that benchmarks.learning races against are the project's own; the counts and the profile read what they say."""

from __future__ import annotations

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.learning import costs, data, inputs
from coda_jax.learning.awr import METRICS, Awr, policy_step
from coda_jax.learning.critic import steps as critic_steps
from coda_jax.learning.experience import Experience
from coda_jax.learning.steps import init_state, train_step
from tests.learning import toy
from tests.learning.critic import small

KEY = jax.random.key(1)
TEXT_DIM = 12
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason='needs pip install -e ".[bench]"')


@pytest.fixture(scope="module")
def tables():
    return data.tables(3, 8, small.EXECUTED, 2, TEXT_DIM)


def compare(peer, batch, step, state, updates=4):
    """Losses and parameters of the peer's updates and of the project's, one by one."""
    from benchmarks.learning.torch_tools import tensors

    seen = []
    for number in range(updates):
        found = float(peer(tensors(batch(number))))
        state, wanted = step(state)
        assert found == pytest.approx(float(wanted), rel=1e-4)
        seen.append(found)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-4), peer.learner.parameters(), state.params["net"])
    assert len(set(seen)) == updates
    return state


@needs_torch
@pytest.mark.parametrize("fused", [False, True])
def test_the_critic_in_pytorch_is_the_critic(tables, fused):
    from benchmarks.learning.torch_critic import CriticUpdate

    critic, training, draw, table = (
        small.critic(text_dim=TEXT_DIM, layers=2),
        small.training(warmup=2, learning_rate=3e-4),
        data.Draw(16),
        tables[1],
    )
    params = critic.init(jax.random.key(0))
    params["net"]["head"]["w"] = 0.1 * jax.random.normal(KEY, params["net"]["head"]["w"].shape)
    peer = CriticUpdate(critic, training, params["net"], params["net"], fused, compiled=False)

    def step(state):
        state, row = critic_steps.critic_step(critic, training, draw, state, table, KEY)
        return state, row[critic_steps.METRICS.index("loss")]

    start = critic_steps.init_state(critic, training, params)
    after = compare(peer, lambda n: inputs.critic_inputs(critic, draw, params, table, KEY, n), jax.jit(step), start)

    from benchmarks.learning.torch_tools import turned

    jax.tree.map(lambda x, y: np.testing.assert_allclose(x.numpy(), y, atol=1e-5), turned(peer.learner.average), after.target)


@needs_torch
@pytest.mark.parametrize("improve", [False, True])
def test_the_policy_in_pytorch_is_the_policy(tables, improve):
    from benchmarks.learning.torch_flow import FlowUpdate

    policy, language = toy.policy(text_dim=TEXT_DIM), data.sentences(TEXT_DIM)
    training = toy.training(batch=16, warmup=2, language_batch=8)
    awr = Awr("awr", "critic", 0.95, "std", 1.0, 20.0, 0.02, 0.9, (0.25, 0.75, 0.0, 0.0), 0.5)
    demos, table = tables
    params = policy.init(jax.random.key(0))
    clone = {**params, "net": jax.tree.map(lambda x: 1.1 * x, params["net"])}
    weights = jnp.exp(jax.random.normal(KEY, table.phi.shape))
    peer = FlowUpdate(policy, training, params["net"], clone["net"] if improve else None, awr.drift_weight, compiled=False)

    def cloned(state):
        state, losses = train_step(policy, training, state, demos, language, KEY)
        return state, losses @ jnp.array([1.0, policy.grounding_weight, training.language_weight])

    counts = jnp.asarray(awr.counts(training.batch), jnp.int32)

    def improved(state):
        state, row = policy_step(policy, training, awr, state, demos, table, counts, weights, clone, language, KEY)
        return state, row[METRICS.index("loss")]

    def batch(n):
        if improve:
            return inputs.awr_inputs(policy, training, awr, params, demos, table, weights, language, KEY, n)
        return inputs.cloning_inputs(policy, training, params, demos, language, KEY, n)

    compare(peer, batch, jax.jit(improved if improve else cloned), init_state(policy, training, params))


def test_tables_hold_both_sources(tables):
    demos, table = tables
    assert isinstance(table, Experience)
    assert np.diff(np.asarray(table.offsets)).tolist() == [60, 60, 0, 0]
    assert int(demos.size) == 240


def test_products_are_counted_in_functions_loops_and_gradients():
    x, w = jnp.ones((5, 6)), jnp.ones((6, 7))
    assert costs.product_flops(lambda x, w: x @ w, x, w) == 2 * 5 * 6 * 7
    assert costs.product_flops(jax.jit(lambda x, w: jnp.sin(x @ w)), x, w) == 2 * 5 * 6 * 7
    assert costs.product_flops(jax.grad(lambda w: (x @ w).sum()), w) == 2 * 2 * 5 * 6 * 7
    assert costs.product_flops(lambda: jnp.einsum("bij,bjk->bik", jnp.ones((3, 4, 5)), jnp.ones((3, 5, 6)))) == 2 * 3 * 4 * 5 * 6


def test_a_profile_names_functions_of_the_project_and_sums_to_one(tables):
    critic, training, draw, table = small.critic(text_dim=TEXT_DIM), small.training(), data.Draw(16), tables[1]
    state, count = critic_steps.init_state(critic, training, critic.init(KEY)), jnp.asarray(3, jnp.int32)
    hlo = critic_steps.critic_steps.lower(critic, training, draw, state, table, KEY, count).compile().as_text()
    assert hlo is not None

    spent = costs.profile(lambda: critic_steps.critic_steps(critic, training, draw, state, table, KEY, count), hlo, 3)

    assert sum(share for _, share in spent) == pytest.approx(1)
    assert {"dense, products", "updated, the rest"} <= {place for place, _ in spent}
    assert [share for _, share in spent] == sorted((share for _, share in spent), reverse=True)
