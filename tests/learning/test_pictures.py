"""Which pictures an update learns from is told by its number alone, and interruptions change nothing."""

import jax
import numpy as np
import pytest

from coda_jax.learning import clone as cloning
from coda_jax.learning import dataset
from coda_jax.learning.pictures import BLOCK, PictureTable
from tests.learning import made, toy
from tests.learning.policies.test_pixels import SIZE, policy


def table(p=30):
    rng = np.random.default_rng(1)
    return PictureTable(np.arange(0, 2 * p, 2, dtype=np.int32), rng.integers(0, 256, (p, 2, SIZE, SIZE, 3), dtype=np.uint8))


def test_rows_of_an_update_do_not_depend_on_its_block():
    pictures, key = table(), jax.random.key(0)
    first, later = pictures.block(key, 0, 8), pictures.block(key, 3, 8)
    np.testing.assert_array_equal(first.rows[3:], later.rows[: BLOCK - 3])
    np.testing.assert_array_equal(first.pixels[3:], later.pixels[: BLOCK - 3])
    assert len(np.unique(first.rows)) > 20 and (np.asarray(first.rows) % 2 == 0).all()
    np.testing.assert_array_equal(first.pixels[0, 0], pictures.pixels[int(first.rows[0, 0]) // 2])


def test_rows_without_pictures_are_refused():
    with pytest.raises(ValueError, match="3 rows and 2 pictures"):
        PictureTable(np.arange(3), np.zeros((2, 2, 4, 4, 3), np.uint8))


def test_cloning_goes_on_bit_for_bit():
    rng = np.random.default_rng(0)
    pairs, supports = toy.names(toy.COLOURS, toy.OBJECTS), toy.names(toy.COLOURS, toy.SUPPORTS)
    data = dataset.build([toy.demonstration(rng, pairs, supports) for _ in range(6)], made.embed)
    chosen, training, saved = policy(), toy.training(steps=14, batch=8, warmup=2), []
    keep = lambda state: saved.append(jax.tree.map(np.array, state))  # noqa: E731
    whole = cloning.clone(chosen, training, data, None, 0, None, None, keep, 7, table())
    begun = jax.tree.map(jax.numpy.asarray, saved[0])
    again = cloning.clone(chosen, training, data, None, 0, begun, None, None, 7, table())
    for a, b in zip(jax.tree.leaves(whole.params), jax.tree.leaves(again.params), strict=True):
        np.testing.assert_array_equal(a, b)
