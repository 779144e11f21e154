"""What the limit on tested pairs hides."""

import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.sim.mjx_pairs import hidden_among

PAIRS = np.array([[0, 1], [0, 2]])
POS = jnp.array([[0.0, 0, 0], [0.015, 0, 0], [0.05, 0, 0]])  # a board, a small box that touches it, one that touches its end
HALF = jnp.array([[0.06, 0.01, 0.01], [0.01, 0.01, 0.01], [0.01, 0.01, 0.01]])


@pytest.mark.parametrize(("tested", "radius_m", "lost"), [(1, 0.03, True), (2, 0.03, False), (3, 0.03, False)])
def test_a_touching_pair_is_hidden_where_nearer_ones_take_its_place(tested, radius_m, lost):
    found = hidden_among(PAIRS, tested, POS, jnp.tile(jnp.eye(3), (3, 1, 1)), HALF, jnp.full(3, radius_m))
    assert bool(found) == lost


def test_what_does_not_touch_hides_nothing():
    away = POS.at[2, 0].set(0.08)
    assert not hidden_among(PAIRS, 1, away, jnp.tile(jnp.eye(3), (3, 1, 1)), HALF, jnp.full(3, 0.03))
