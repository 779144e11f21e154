import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning import dataset
from coda_jax.learning.policies import features
from tests.learning import toy


@pytest.fixture(scope="module")
def obs():
    demo = toy.demonstration(np.random.default_rng(2), toy.names(("red",), ("mug", "can", "apple", "bowl", "dice")), ["tray", "plate"])
    data = dataset.build([demo], lambda strings: np.ones((len(strings), 384), np.float32))
    return dataset.gather(data, jnp.arange(3), 8).obs


@pytest.mark.parametrize("multiscale", [True, False])
def test_declared_sizes(obs, multiscale):
    angle = features.heading(obs, True)
    assert features.token_features(obs, angle, multiscale).shape == (3, 8, features.TOKEN_DIM[multiscale])
    assert features.gripper_features(obs, angle, multiscale).shape == (3, features.GRIPPER_DIM[multiscale])
    assert features.shape_features(obs).shape == (3, 8, features.SHAPE_DIM)


def test_multi_scale_by_hand():
    p = jnp.array([0.01, 0.0, -0.04])
    expected = [0.04, 0, -0.16, np.tanh(0.25), 0, -np.tanh(1.0), np.tanh(0.8), 0, -np.tanh(3.2)]
    np.testing.assert_allclose(features.multi_scale(p, True), expected, rtol=1e-5)
    np.testing.assert_allclose(features.multi_scale(p, False), expected[:3], rtol=1e-5)


def test_heading_of_a_gripper_pointing_down(obs):
    # a half turn about x and then 30 degrees about z: the x axis points 30 degrees left
    half = np.deg2rad(15)
    quat = jnp.array([[0.0, np.cos(half), np.sin(half), 0.0]] * 3)
    turned = features.heading(obs.__class__(**{**obs.__dict__, "ee_quat": quat}), True)
    np.testing.assert_allclose(turned, np.deg2rad(30), atol=1e-5)
    np.testing.assert_array_equal(features.heading(obs, False), np.zeros(3))
