"""Stage, latch and potential by hand, on numpy and jax alike."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.programs.training.potential import BELOW_ONE, current_progress, latch, latch_rows, potential, stage_of

# Grasp, lift, over, success along a correct motion: what was grasped is let go before success is met.
TRAP = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]], np.float32)
BOTH = pytest.mark.parametrize("array", [np.asarray, jnp.asarray], ids=["numpy", "jax"])


@BOTH
def test_stage_is_the_last_that_holds(array):
    assert stage_of(array(TRAP)).tolist() == [0, 1, 2, 3, 0, 4]
    assert stage_of(array([[0.0, 0.0, 1.0]])).tolist() == [3]  # earlier ones need not hold
    assert stage_of(array(TRAP)).dtype == np.int32


@BOTH
def test_latch_keeps_what_was_reached(array):
    stages = array(np.stack([stage_of(TRAP), np.array([0, 2, 0, 1, 3, 0], np.int32)]))
    assert latch(stages).tolist() == [[0, 1, 2, 3, 3, 4], [0, 2, 2, 2, 3, 3]]


def test_latch_of_rows_ends_with_the_episode():
    stage = np.array([0, 4, 1, 0, 2, 1, 3, 0], np.int32)
    episode = np.array([5, 5, 5, 2, 2, 2, 9, 9])  # in any order, but together
    every = latch_rows(stage, episode, np.ones(8, bool))
    assert every.tolist() == [0, 4, 4, 0, 2, 2, 3, 3]
    assert latch_rows(stage, episode, episode == 2).tolist() == [0, 4, 1, 0, 2, 2, 3, 0]
    assert every.dtype == np.int32


@BOTH
def test_potential_by_hand(array):
    progress = array(np.array([[0.5, 0.25, 0.0, 0.75], [0.9, 1.0, 0.2, 0.1], [0.3, 0.3, 0.3, 0.3], [-2.0, 0.0, 0.0, 0.0]], np.float32))
    stage = array(np.array([0, 1, 4, 0], np.int32))
    assert current_progress(stage, progress).tolist() == [0.5, np.float32(BELOW_ONE), 0.0, 0.0]
    assert potential(stage, progress).tolist() == [0.5, np.float32(1 + BELOW_ONE), 4.0, 0.0]


@BOTH
def test_potential_is_m_only_when_all_is_done(array):
    for m in range(1, 5):
        full = array(np.ones((m + 1, m), np.float32))
        phi = np.asarray(potential(array(np.arange(m + 1, dtype=np.int32)), full))
        assert phi.dtype == np.float32
        assert (phi[:-1] < np.arange(1, m + 1)).all() and phi[-1] == m


def test_padding_stages_change_nothing():
    rng = np.random.default_rng(0)
    done, progress = (rng.random((64, 2)) < 0.5).astype(np.float32), rng.random((64, 2), np.float32)
    wide = [np.concatenate([x, np.zeros((64, 2), np.float32)], 1) for x in (done, progress)]
    np.testing.assert_array_equal(stage_of(wide[0]), stage_of(done))
    np.testing.assert_array_equal(potential(stage_of(done), wide[1]), potential(stage_of(done), progress))


def test_numpy_and_jax_agree_over_leading_axes():
    rng = np.random.default_rng(1)
    done, progress = (rng.random((3, 5, 7, 4)) < 0.3).astype(np.float32), rng.random((3, 5, 7, 4), np.float32)
    here = potential(latch(stage_of(done)), progress)
    there = jax.jit(lambda d, g: potential(latch(stage_of(d)), g))(done, progress)
    np.testing.assert_array_equal(here, there)
    assert here.shape == (3, 5, 7)
