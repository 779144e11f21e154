"""The policy of pictures: what it sees, what it must not see, and that its labels of training teach it where things are."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning import dataset
from coda_jax.learning.policies import vision
from coda_jax.learning.policies.pixels import PixelPolicy
from tests.learning import made, toy

SIZE, B, H = 16, 8, 8


def policy(**changes) -> PixelPolicy:
    own = {"height": SIZE, "columns": SIZE, "patch": 4, "channels": 8, "layers": 1, "place_weight": 5.0}
    return PixelPolicy(**dataclasses.asdict(toy.policy(width=32)) | own | changes)


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    pairs, supports = toy.names(toy.COLOURS, toy.OBJECTS), toy.names(toy.COLOURS, toy.SUPPORTS)
    data = dataset.build([toy.demonstration(rng, pairs, supports) for _ in range(B)], made.embed)
    found = dataset.gather(data, jnp.arange(B) * 12, H)
    pixels = jnp.asarray(rng.integers(0, 256, (B, 2, SIZE, SIZE, 3), dtype=np.uint8))
    return dataclasses.replace(found, obs=dataclasses.replace(found.obs, pixels=pixels))


def test_a_chunk_depends_on_pictures_gripper_and_words_alone(batch):
    chosen = policy()
    params, key = chosen.init(jax.random.key(0)), jax.random.key(1)
    first = chosen.sample(params, batch.obs, key, 2)
    assert first.shape == (B, 2, H, 7) and np.isfinite(first).all()
    hidden = {name: jnp.zeros_like(getattr(batch.obs, name)) for name in ("pos", "linvel", "angvel", "half_extent", "articulation")}
    hidden |= {"quat": batch.obs.quat[::-1], "present": ~batch.obs.present, "text": jnp.zeros_like(batch.obs.text)}
    np.testing.assert_array_equal(chosen.sample(params, dataclasses.replace(batch.obs, **hidden), key, 2), first)
    for changes in (
        {"pixels": batch.obs.pixels[:, ::-1]},
        {"ee_pos": batch.obs.ee_pos + 0.05},
        {"instruction": batch.obs.instruction[::-1]},
    ):
        assert np.abs(chosen.sample(params, dataclasses.replace(batch.obs, **changes), key, 2) - first).max() > 1e-4


def test_training_finds_the_named_cells_and_places(batch):
    chosen = policy()
    params = chosen.init(jax.random.key(0))

    @jax.jit
    def step(net):
        def total(net):
            return chosen.loss({**params, "net": net}, batch, jax.random.key(3)).mean()

        loss, gradient = jax.value_and_grad(total)(net)
        return loss, jax.tree.map(lambda p, g: p - 0.03 * g / (1e-3 + jnp.sqrt(jnp.square(g).mean())), net, gradient)

    def grounding(net):
        return float(chosen.losses({**params, "net": net}, batch, jax.random.key(3))[1].mean())

    net, before = params["net"], grounding(params["net"])
    for _ in range(60):
        _, net = step(net)
    assert grounding(net) < 0.6 * before


def test_pictures_of_another_size_and_none_are_refused(batch):
    chosen = policy()
    params = chosen.init(jax.random.key(0))
    for pixels, found in ((None, "none"), (batch.obs.pixels[:, :, :8], r"\(2, 8, 16, 3\)")):
        with pytest.raises(ValueError, match=rf"sees pictures \(2, 16, 16, 3\).* has {found}"):
            chosen.sample(params, dataclasses.replace(batch.obs, pixels=pixels), jax.random.key(0), 1)


def test_settings_that_pictures_cannot_have():
    with pytest.raises(ValueError, match="no whole number of patches of 5"):
        policy(patch=5)
    with pytest.raises(ValueError, match="given_roles"):
        policy(given_roles=True)


def test_cells_and_their_centres_agree():
    centres = vision.places(4, 6)
    depth = np.ones((1, 24), np.float32)
    np.testing.assert_array_equal(vision.cell_at(jnp.asarray(centres[None]), depth, 4, 6)[0], np.arange(24))
    np.testing.assert_array_equal(vision.cell_at(jnp.asarray(centres[None]), -depth, 4, 6)[0], -1)
    np.testing.assert_array_equal(vision.cell_at(jnp.asarray([[[1.01, 0.0], [0.0, -1.01]]]), depth[:, :2], 4, 6)[0], -1)


def test_a_picture_is_cut_into_patches_where_they_are():
    pixels = np.zeros((1, 8, 12, 3), np.uint8)
    pixels[0, 4:, 8:] = 255
    params = vision.init(jax.random.key(0), 4, 5, 0)
    found = np.asarray(vision.cells(params, jnp.asarray(pixels), 4))
    assert found.shape == (1, 2, 3, 5)
    np.testing.assert_allclose(found[0, 0], found[0, 0, :1].repeat(3, 0), atol=1e-6)
    assert np.abs(found[0, 1, 2] - found[0, 1, 1]).max() > 1e-3


def test_hard_attention_keeps_what_is_near_the_best():
    scores = jnp.zeros((1, 1, 48)).at[0, 0, 9].set(3.0)
    kept = np.asarray(vision.near_best(scores, 6, 8))[0, 0].reshape(6, 8) > -1
    wanted = np.zeros((6, 8), bool)
    wanted[:4, :4] = True  # two cells around row 1, column 1
    np.testing.assert_array_equal(kept, wanted)
