"""Averages of chunks with known answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from coda_jax.learning.policies import averaging


def turning(angles, axis=(0.0, 0.0, 1.0), h=8):
    """Candidates [1, j, h, 3] that turn by angles [j] (rad) about the axis in all, in equal steps."""
    return jnp.asarray(angles)[None, :, None, None] / h * jnp.ones((h, 1)) * jnp.asarray(axis)


def composed(turns) -> list[Rotation]:
    """Rotations reached after each step of turns [h, 3], by scipy."""
    total, found = Rotation.identity(), []
    for turn in np.asarray(turns):
        total = Rotation.from_rotvec(turn) * total
        found.append(total)
    return found


def average(turns, weights):
    return np.asarray(jax.jit(averaging.average_rotations)(jnp.asarray(turns), jnp.asarray(weights)))


def chunk_average(chunks, weights):
    return np.asarray(jax.jit(averaging.average_chunks)(jnp.asarray(chunks), jnp.asarray(weights)))


def test_turns_about_one_axis_average_like_numbers():
    steps = average(turning([0.2, 0.6, 1.3]), jnp.array([[0.5, 0.25, 0.25]]))
    np.testing.assert_allclose(steps[0].sum(0), [0, 0, 0.575], atol=1e-6)


@pytest.mark.parametrize("axis", [(1.0, 0, 0), (0, 0.6, 0.8)])
def test_near_half_a_turn_the_average_is_half_a_turn(axis):
    """3.10 and 3.22 rad: as rotation vectors of at most pi these are 3.10 and -3.06, whose mean is no turn at all."""
    turns = turning([3.10, 3.22], axis)
    steps = average(turns, jnp.array([[0.5, 0.5]]))
    np.testing.assert_allclose(steps[0].sum(0), 3.16 * jnp.array(axis), atol=1e-5)
    naive = np.mean([composed(t)[-1].as_rotvec() for t in turns[0]], axis=0)
    assert np.abs(naive).max() < 0.1


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.7, 0.3)])
def test_candidates_that_disagree_average_without_a_jump(weights):
    """One turns left by 3.6 rad, one right: they pass each other on the far side, and no step of the average turns more than theirs."""
    steps = average(turning([3.6, -3.6]), jnp.array([weights]))
    np.testing.assert_allclose(steps[0, :, 2], np.full(8, 3.6 / 8 * (weights[0] - weights[1])), atol=1e-5)


def test_the_mean_is_the_point_without_pull():
    """sum_j w_j log(q_j m^-1) = 0 after every step, for random chunks within the simulator's limits."""
    rng = np.random.default_rng(0)
    turns, weights = rng.uniform(-0.5, 0.5, (16, 4, 8, 3)), rng.dirichlet(np.ones(4), 16)
    steps = average(turns, weights)
    for b in range(16):
        means, candidates = composed(steps[b]), [composed(t) for t in turns[b]]
        for i in range(8):
            pull = [w * (c[i] * means[i].inv()).as_rotvec() for w, c in zip(weights[b], candidates, strict=True)]
            assert np.abs(np.sum(pull, axis=0)).max() < 5e-4


def test_the_sign_of_a_quaternion_does_not_matter():
    """A turn of 2 pi + a is a turn of a with the other sign: composed steps pass through both."""
    steps = average(turning([2 * np.pi + 0.1, 2 * np.pi + 0.3], h=16), jnp.array([[0.5, 0.5]]))
    np.testing.assert_allclose(steps[0].sum(0), [0, 0, 2 * np.pi + 0.2], atol=1e-5)


def test_sums_of_per_step_vectors_are_not_the_answer():
    """Turning about x then y against y then x: the composed rotations' mean differs from the mean of the steps."""
    one, two = jnp.zeros((2, 3)).at[0, 0].set(1.0).at[1, 1].set(1.0), jnp.zeros((2, 3)).at[0, 1].set(1.0).at[1, 0].set(1.0)
    turns, half = jnp.stack([one, two])[None], jnp.array([[0.5, 0.5]])
    exact, naive = average(turns, half)[0], np.asarray(turns.mean(1))[0]
    first, second = (composed(t)[-1] for t in (one, two))
    middle = Rotation.from_rotvec((second * first.inv()).as_rotvec() / 2) * first  # of two rotations: halfway
    assert (composed(exact)[-1] * middle.inv()).magnitude() < 1e-5
    assert (composed(naive)[-1] * middle.inv()).magnitude() > 0.02


def test_a_chunk_alone_or_with_all_the_weight_stays():
    chunks = jax.random.uniform(jax.random.key(2), (5, 3, 8, 7), minval=-1, maxval=1)
    sure = jnp.tile(jnp.array([0.0, 1.0, 0.0]), (5, 1))
    averaged = chunk_average(chunks, sure)
    np.testing.assert_allclose(averaged[..., :6], chunks[:, 1, :, :6], atol=1e-5)
    np.testing.assert_array_equal(averaged[..., 6], np.where(chunks[:, 1, :, 6] > 0, 1, -1))


def test_positions_average_and_the_gripper_votes():
    chunks = jnp.zeros((1, 3, 2, 7)).at[0, :, 0, 0].set(jnp.array([1.0, 0.0, -0.5]))
    chunks = chunks.at[0, :, 0, 6].set(jnp.array([-1.0, 0.1, 0.1])).at[0, :, 1, 6].set(jnp.array([0.2, -1.0, -1.0]))
    averaged = chunk_average(chunks, jnp.array([[0.4, 0.35, 0.25]]))
    np.testing.assert_allclose(averaged[0, 0, 0], 0.4 - 0.125, atol=1e-6)
    # two weak commands to close outweigh a strong one to open (0.6), one alone does not (0.4)
    np.testing.assert_array_equal(averaged[0, :, 6], [1, -1])
