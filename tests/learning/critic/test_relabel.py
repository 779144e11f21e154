"""A refined potential: values are shifted by beta (Phi_old - Phi_new), or the head starts anew."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from coda_jax.learning.critic import relabel, steps
from coda_jax.learning.critic.backup import Backup
from coda_jax.learning.critic.values import table_values
from tests.learning.critic import small

CRITIC, TRAINING = small.critic(), small.training()
TABLE = small.random_table(24)
MEAN = Backup("mean", 0.1)


def draw(data, key):
    table, values = data
    rows = jax.random.randint(key, (64,), 0, table.size)
    return small.gather(table, rows), values[rows]


def test_shift_moves_decoded_values_and_the_target_network_follows():
    state = steps.init_state(CRITIC, TRAINING, CRITIC.init(jax.random.key(0)))
    phi = TABLE.phi[TABLE.state]
    new_phi = jnp.asarray(np.random.default_rng(1).uniform(0, 2, len(phi)), jnp.float32)
    refined = dataclasses.replace(
        TABLE,
        phi=TABLE.phi.at[TABLE.state].set(new_phi),
        program=dataclasses.replace(TABLE.program, progress=1 - TABLE.program.progress),
    )
    old = table_values(CRITIC, state.params, TABLE, small.gather, MEAN).q
    values = relabel.shifted(old, phi, new_phi, TRAINING.rule.beta)
    np.testing.assert_allclose(values, old + 0.5 * (phi - new_phi), atol=1e-6)
    state, loss = relabel.shift_steps(CRITIC, TRAINING, draw, state, (refined, values), jax.random.key(2), jnp.asarray(400, jnp.int32))
    found = table_values(CRITIC, state.params, refined, small.gather, MEAN).q
    assert float(jnp.abs(old - values).max()) > 0.3  # there was something to do
    np.testing.assert_allclose(found, values, atol=0.03)
    jax.tree.map(np.testing.assert_array_equal, state.target, state.params["net"])
    assert int(state.step) == 400 and np.isfinite(float(loss))


def test_reset_starts_at_zero_over_the_learned_body():
    state = steps.init_state(CRITIC, TRAINING, CRITIC.init(jax.random.key(0)))
    count = jnp.asarray(20, jnp.int32)
    state, _ = steps.critic_steps(CRITIC, TRAINING, small.Draw(16), state, TABLE, jax.random.key(0), count)
    body = {name: jax.tree.map(np.asarray, x) for name, x in state.params["net"].items() if name != "head"}
    assert np.abs(table_values(CRITIC, state.params, TABLE, small.gather, MEAN).q).max() > 0.01
    fresh = relabel.reset(CRITIC, TRAINING, state)
    np.testing.assert_allclose(table_values(CRITIC, fresh.params, TABLE, small.gather, MEAN).q, 0.0, atol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, {k: v for k, v in fresh.params["net"].items() if k != "head"}, body)
    jax.tree.map(np.testing.assert_array_equal, fresh.target, fresh.params["net"])
    assert int(fresh.step) == 20
    again, _ = steps.critic_steps(CRITIC, TRAINING, small.Draw(16), fresh, TABLE, jax.random.key(0), count)  # and trains on
    assert int(again.step) == 40
