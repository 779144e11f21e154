import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning.policies import normalise


def test_cumulative_positions_by_hand():
    actions = jnp.zeros((3, 7)).at[:, 0].set(jnp.array([0.5, 0.25, -1.0])).at[:, 6].set(jnp.array([-1.0, 1.0, 1.0]))
    encoded = normalise.encode_chunk(actions, jnp.array(0.0), True)
    np.testing.assert_allclose(encoded[:, 0], [0.5, 0.75, -0.25], atol=1e-6)
    np.testing.assert_allclose(encoded[:, 6], [-1, 1, 1])
    quarter = normalise.encode_chunk(actions, jnp.array(np.pi / 2), True)  # base x is -y of a frame turned by 90 degrees
    np.testing.assert_allclose(quarter[:, :2], [[0, -0.5], [0, -0.75], [0, 0.25]], atol=1e-6)


def test_rotations_compose_and_are_not_summed():
    actions = jnp.zeros((2, 7)).at[0, 3].set(1.0).at[1, 4].set(1.0)
    encoded = normalise.encode_chunk(actions, jnp.array(0.0), True)
    # about x by 0.5 rad, then about base y by 0.5 rad: the composed axis has a z part, -sin^2(0.25) before scaling
    s, c = np.sin(0.25), np.cos(0.25)
    angle = 2 * np.arccos(c * c)
    axis = np.array([s * c, s * c, -s * s]) / np.sin(angle / 2)
    np.testing.assert_allclose(encoded[1, 3:6], axis * angle / 0.5, atol=1e-5)


@pytest.mark.parametrize("cumulative", [True, False])
def test_round_trip(cumulative):
    actions = jax.random.uniform(jax.random.key(0), (5, 4, 8, 7), minval=-1, maxval=1)
    heading = jax.random.uniform(jax.random.key(1), (5, 4), minval=-3, maxval=3)
    decoded = normalise.decode_chunk(normalise.encode_chunk(actions, heading, cumulative), heading, cumulative)
    np.testing.assert_allclose(decoded, actions, atol=2e-5)


def test_decoding_leaves_motion_to_be_counted_and_cuts_the_gripper():
    targets = jnp.zeros((2, 7)).at[1, 0].set(1.5).at[:, 6].set(jnp.array([-1.4, 1.2]))
    decoded = normalise.decode_chunk(targets, jnp.array(0.0), True)
    np.testing.assert_allclose(decoded[:, 0], [0, 1.5])
    np.testing.assert_allclose(decoded[:, 6], [-1, 1])


def test_statistics_ignore_masked_rows():
    targets = jnp.stack([jnp.full((1, 7), v) for v in (0.0, 2.0, 1000.0)])
    statistics = normalise.fit_statistics(targets, jnp.array([[True], [True], [False]]))
    np.testing.assert_allclose(statistics["mean"][0], [1, 1, 1, 1, 1, 1, 0])
    np.testing.assert_allclose(statistics["std"][0], [1] * 7)
    np.testing.assert_allclose(normalise.restore(statistics, normalise.standardise(statistics, targets)), targets, rtol=1e-6)
