"""Several policies in one executable: every world gets what its own policy gives it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.decisions import observation
from coda_jax import runtime
from coda_jax.learning.policies.stacked import blocks_of, sample_stacked, stack
from tests.learning import toy

WORLDS = 10


@pytest.fixture(scope="module")
def policy():
    return toy.policy(width=16, text_dim=8)


@pytest.fixture(scope="module")
def params(policy):
    return [policy.init(jax.random.key(i)) for i in range(6)]


@pytest.fixture(scope="module")
def inputs(policy):
    return observation(WORLDS, policy.text_dim), jax.random.split(jax.random.key(7), WORLDS), np.linspace(0, 1, WORLDS, dtype=np.float32)


def test_blocks_hold_every_deciding_world_once_with_its_policy():
    policies = np.array([3, 3, 0, 3, 1, 3, 0, 3, 3, 5])
    decides = np.array([1, 1, 1, 1, 1, 1, 0, 1, 1, 0], bool)
    blocks = blocks_of(policies, decides, 4)
    assert blocks.which.tolist() == [0, 1, 3, 3] and blocks.rows.shape == (4, 4)
    assert sorted(blocks.worlds) == np.flatnonzero(decides).tolist()
    np.testing.assert_array_equal(blocks.rows.ravel()[blocks.places], blocks.worlds)
    np.testing.assert_array_equal(policies[blocks.rows], np.repeat(blocks.which[:, None], 4, 1))
    assert blocks_of(policies, np.zeros(10, bool), 4).rows.shape == (0, 4)


@pytest.mark.parametrize("size", [2, 4, 10])
def test_a_world_gets_what_its_policy_alone_gives(policy, params, inputs, size):
    obs, keys, warmth = inputs
    policies = np.array([3, 3, 0, 3, 1, 2, 0, 4, 4, 5])  # more policies than one call has blocks where the size is 10
    decides = np.arange(WORLDS) != 6
    found = sample_stacked(policy, stack(params), policies, decides, size, obs, keys, warmth)
    for world in np.flatnonzero(decides):
        alone = policy.sample(params[policies[world]], obs, keys, 1, None, jnp.asarray(warmth))[world, 0]
        np.testing.assert_allclose(found[world], alone, atol=3e-6)
    assert not found[6].any()


def test_no_mixture_of_policies_builds_another_executable(policy, params, inputs):
    obs, keys, warmth = inputs
    stacked, everyone = stack(params), np.ones(WORLDS, bool)
    sample_stacked(policy, stacked, np.zeros(WORLDS, int), everyone, 4, obs, keys, warmth)
    built = runtime.compile_count()
    for policies in (np.arange(WORLDS) % 6, np.arange(WORLDS) // 5, np.full(WORLDS, 5)):
        for decides in (everyone, np.arange(WORLDS) < 3):
            sample_stacked(policy, stacked, policies, decides, 4, obs, keys, warmth)
    assert runtime.compile_count() == built


def test_policies_of_other_shapes_are_refused(policy, params):
    with pytest.raises(ValueError, match="policy 1 has other shapes"):
        stack([params[0], toy.policy(width=32, text_dim=8).init(jax.random.key(0))])
    with pytest.raises(ValueError, match="at least one"):
        stack([])
