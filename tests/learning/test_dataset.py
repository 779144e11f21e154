import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning import dataset
from tests.learning import toy

PAIRS = toy.names(("red", "blue"), ("mug", "can", "apple"))
SUPPORTS = toy.names(("white",), ("plate", "tray"))


def embed(strings):
    """A distinct vector for every string."""
    return np.stack([np.random.default_rng(abs(hash(s))).normal(size=384) for s in strings]).astype(np.float32)


@pytest.fixture(scope="module")
def demos():
    rng = np.random.default_rng(0)
    return [toy.demonstration(rng, PAIRS, SUPPORTS, t=t) for t in (5, 12, 3)]


def test_gather_gives_labels_of_the_same_episode(demos):
    data = dataset.build(demos, embed)
    batch = dataset.gather(data, jnp.array([0, 5 + 10, 5 + 12]), 8)
    np.testing.assert_allclose(batch.actions[0, :5], demos[0].actions, atol=1e-6)
    assert batch.mask[0].tolist() == [True] * 5 + [False] * 3
    assert np.all(np.asarray(batch.actions[0, 5:, :6]) == 0)  # hold still, and keep the gripper
    np.testing.assert_allclose(batch.actions[0, 5:, 6], demos[0].actions[-1, 6])
    assert batch.mask[1].tolist() == [True] * 2 + [False] * 6
    np.testing.assert_allclose(batch.obs.ee_pos[1], demos[1].obs["ee_pos"][10], atol=1e-6)
    np.testing.assert_allclose(batch.obs.pos[2], demos[2].obs["pos"][0], atol=1e-6)
    assert batch.roles.tolist() == [2 * list(d.roles) for d in demos]


def test_words_are_those_of_the_demonstration(demos):
    data = dataset.build(demos, embed)
    batch = dataset.gather(data, jnp.array([0, 6]), 8)
    for row, demo in enumerate(demos[:2]):
        np.testing.assert_allclose(batch.obs.instruction[row], embed([demo.instruction])[0])
        for token, name in enumerate(demo.names):
            expected = embed([name])[0] if name else np.zeros(384)
            np.testing.assert_allclose(batch.obs.text[row, token], expected)
    assert batch.table is not None
    on_table = jnp.where(batch.obs.present[..., None], batch.table.text[batch.table.names], 0)
    np.testing.assert_array_equal(on_table, batch.obs.text)


def test_draw_reaches_every_real_row_and_no_padding(demos):
    data = dataset.build(demos, embed)
    batch = dataset.draw(data, jax.random.key(0), 512, 8)
    assert batch.mask[:, 0].all()
    assert len(np.unique(np.asarray(batch.obs.ee_pos), axis=0)) == len(np.unique(np.concatenate([d.obs["ee_pos"] for d in demos]), axis=0))


def test_growing_data_keeps_the_shapes(demos):
    small, large = dataset.build(demos[:1], embed), dataset.build(demos, embed)
    assert jax.tree.map(jnp.shape, small) == jax.tree.map(jnp.shape, large)


def test_a_label_without_clean_value_does_not_count(demos):
    mask = np.array([True, False, True, True, True])
    batch = dataset.gather(dataset.build([dataclasses.replace(demos[0], mask=mask)], embed), jnp.array([0]), 8)
    assert batch.mask[0].tolist() == [True, False, True, True, True, False, False, False]


def test_malformed_demonstrations_are_named(demos):
    good = demos[0]
    absent = next(i for i, n in enumerate(good.names) if n is None)
    bad = {
        "outside": dataclasses.replace(good, actions=good.actions * 3),
        "NaN": dataclasses.replace(good, obs={**good.obs, "pos": good.obs["pos"] * np.nan}),
        "shape": dataclasses.replace(good, obs={**good.obs, "quat": good.obs["quat"][:2]}),
        "lacks": dataclasses.replace(good, obs={k: v for k, v in good.obs.items() if k != "linvel"}),
        f"role token {absent}": dataclasses.replace(good, roles=(absent, 6)),
        "only present": dataclasses.replace(good, names=(*good.names[:7], None)),
        "no control steps": dataclasses.replace(good, actions=good.actions[:0]),
    }
    for words, demo in bad.items():
        with pytest.raises(ValueError, match=f"demonstration 1 .*{words}"):
            dataset.build([good, demo], embed)
    with pytest.raises(ValueError, match="0 demonstrations"):
        dataset.build([], embed)
