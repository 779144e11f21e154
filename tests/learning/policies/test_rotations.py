import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning.policies import rotations


def test_quarter_turn_about_z():
    q = rotations.from_rotation_vector(jnp.array([0.0, 0.0, np.pi / 2]))
    np.testing.assert_allclose(q, [2**-0.5, 0, 0, 2**-0.5], atol=1e-6)
    np.testing.assert_allclose(rotations.to_matrix(q), [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-6)
    np.testing.assert_allclose(rotations.six_d(rotations.to_matrix(q)), [0, 1, 0, -1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(rotations.yaw(rotations.to_matrix(q)), np.pi / 2, atol=1e-6)
    np.testing.assert_allclose(rotations.about_z(jnp.array([1.0, 2.0, 3.0]), jnp.array(np.pi / 2)), [-2, 1, 3], atol=1e-6)


def test_multiply_rotates_by_the_right_factor_first():
    x = rotations.from_rotation_vector(jnp.array([np.pi / 2, 0.0, 0.0]))
    z = rotations.from_rotation_vector(jnp.array([0.0, 0.0, np.pi / 2]))
    # y goes to z by the turn about x, and stays there by the turn about z
    np.testing.assert_allclose(rotations.to_matrix(rotations.multiply(z, x)) @ jnp.array([0.0, 1, 0]), [0, 0, 1], atol=1e-6)


@pytest.mark.parametrize("angle", [0.0, 1e-7, 1e-3, 0.7, 3.0])
def test_rotation_vector_round_trip_and_finite_gradient(angle):
    r = angle * jnp.array([0.6, 0.0, 0.8])
    np.testing.assert_allclose(rotations.to_rotation_vector(rotations.from_rotation_vector(r)), r, atol=2e-6)
    np.testing.assert_allclose(rotations.to_rotation_vector(-rotations.from_rotation_vector(r)), r, atol=2e-6)
    gradient = jax.jacobian(lambda v: rotations.to_rotation_vector(rotations.from_rotation_vector(v)))(r)
    np.testing.assert_allclose(gradient, np.eye(3), atol=2e-3)
