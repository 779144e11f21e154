"""Targets by hand: discount inside an early-ended chunk, terminal against time-out, both units of gamma, numpy and jax alike."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning.critic import targets
from coda_jax.learning.critic.targets import Rule

MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]], bool)
REWARDS = np.array([[0, 0, 0, 0], [0, 1, 9, 9], [0, 0, 9, 9], [0, 0, 0, 0]], float)
TERMINAL = np.array([False, True, False, False])  # goes on, success in the second step, time-out in the second step, closing row
PHI = np.array([1.0, 1.5, 1.5, 0.5])
NEXT_PHI = np.array([1.5, np.nan, 1.75, 0.5])
BOOTSTRAP = np.array([0.2, np.nan, -0.4, 0.1])


@pytest.mark.parametrize("unit", targets.GAMMA_UNITS)
def test_by_hand(unit):
    y = targets.targets(Rule(0.9, unit, 0.5), REWARDS, MASK, TERMINAL, PHI, NEXT_PHI, BOOTSTRAP)
    four, two, one = (0.9**4, 0.9**2, 0.9) if unit == "step" else (0.9, 0.9, 1.0)
    np.testing.assert_allclose(
        y,
        [
            0.5 * (four * 1.5 - 1.0) + four * 0.2,
            one - 0.5 * 1.5,  # no potential after success: often negative, and right
            0.5 * (two * 1.75 - 1.5) + two * -0.4,  # a time-out keeps potential and bootstrap
            0.1,  # nothing carried out: no time passes
        ],
        atol=1e-15,
    )


def test_jax_agrees_and_keeps_float32():
    rule = Rule(0.99, "step", 0.5)
    inputs = [jnp.asarray(x, x.dtype if x.dtype == bool else jnp.float32) for x in (REWARDS, MASK, TERMINAL, PHI, NEXT_PHI, BOOTSTRAP)]
    y = jax.jit(targets.targets, static_argnums=0)(rule, *inputs)
    assert y.dtype == jnp.float32
    np.testing.assert_allclose(y, targets.targets(rule, REWARDS, MASK, TERMINAL, PHI, NEXT_PHI, BOOTSTRAP), atol=1e-6)


def test_shaping_sums_to_the_potential_at_the_start():
    # along an episode the discounted F telescope to -beta Phi(s0), whatever the lengths of chunks
    rng = np.random.default_rng(1)
    steps = rng.integers(1, 9, 20)
    phi = rng.uniform(0, 4, 21)
    terminal = np.arange(20) == 19
    factor = targets.discount(steps, 0.99, "step", np.float64)
    f = targets.shaping(phi[:-1], phi[1:], terminal, factor, 0.5)
    before = np.concatenate([[1.0], np.cumprod(factor)[:-1]])
    assert (before * f).sum() == pytest.approx(-0.5 * phi[0], abs=1e-14)


@pytest.mark.parametrize("steps, unit, value", [(300, "step", 0.049), (37.5, "chunk", 0.69)])
def test_what_a_success_after_300_steps_is_worth(steps, unit, value):
    per = targets.discount(np.array(1), 0.99, unit, np.float64)
    assert per**steps == pytest.approx(value, abs=0.005)


@pytest.mark.parametrize(
    "arguments, message", [((0.0, "step", 0.5), "gamma"), ((0.9, "second", 0.5), "step, chunk"), ((0.9, "step", -1.0), "beta")]
)
def test_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Rule(*arguments)
