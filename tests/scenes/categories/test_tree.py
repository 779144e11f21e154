from __future__ import annotations

import itertools

import pytest

from coda_jax.scenes.catalogue import CATEGORIES
from coda_jax.scenes.categories import tree


def test_every_category_hangs_in_the_tree_once():
    leaves = list(tree.leaves())
    assert sorted(leaves) == sorted(CATEGORIES)
    assert all(tree.path(c)[0] == tree.ROOT and tree.path(c)[-1] == c for c in CATEGORIES)


def test_distances_by_hand():
    assert tree.path("mug") == ("thing", "kitchenware", "drinkware", "mug")
    assert tree.distance("mug", "mug") == 0
    assert tree.distance("mug", "cup") == 2  # up to drinkware, down again
    assert tree.distance("mug", "plate") == 4  # by kitchenware
    assert tree.distance("mug", "hammer") == 6  # by the root
    assert tree.distance("mug", "duck") == 4  # a category of one's own hangs below the root


def test_distance_is_a_metric():
    for a, b in itertools.combinations(CATEGORIES, 2):
        assert tree.distance(a, b) == tree.distance(b, a) >= 2
    names = list(CATEGORIES)[::7]
    for a, b, c in itertools.product(names, repeat=3):
        assert tree.distance(a, c) <= tree.distance(a, b) + tree.distance(b, c)


def test_nearest_and_nodes():
    assert tree.nearest("goblet", ("hammer", "plate", "cup", "jug"), 2) == ("cup", "jug")
    assert list(tree.leaves("fruit")) == ["banana", "pear", "apple", "lemon"]
    with pytest.raises(KeyError, match=r"no 'vehicle': its nodes are thing"):
        list(tree.leaves("vehicle"))
