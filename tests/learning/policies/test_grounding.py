import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning.policies import grounding
from coda_jax.learning.policies.grounding import Phrase


def embed(strings):
    return np.stack([np.full(3, len(s), np.float32) for s in strings])


def test_cross_entropy_by_hand():
    scores = jnp.log(jnp.array([[[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]]))
    np.testing.assert_allclose(grounding.cross_entropy(scores, jnp.array([[0, 2]])), [-(np.log(0.5) + np.log(0.8)) / 2], rtol=1e-5)
    np.testing.assert_allclose(grounding.cross_entropy(scores, jnp.array([[1, -1]])), [-np.log(0.25)], rtol=1e-5)
    np.testing.assert_allclose(grounding.cross_entropy(scores, jnp.array([[-1, -1]])), [0.0])


def test_language_set_pads_and_points_at_the_right_names():
    phrases = [Phrase("put the red mug on the tray", "red mug", "tray"), Phrase("lift the can", "can", None)]
    language = grounding.language_set(phrases, ["can", "tray", "red mug", "can"], embed, 4)
    assert language.names.shape == (4, 3) and language.instructions.shape == (4, 3)
    assert language.named.tolist() == [True, True, True, False] and int(language.size) == 2
    assert language.roles[:2].tolist() == [[2, 1, 2, 1], [0, -1, 0, -1]]
    np.testing.assert_array_equal(language.names[:, 0], [3, 4, 7, 0])
    with pytest.raises(ValueError, match="'tray', which is not among"):
        grounding.language_set(phrases, ["can", "red mug"], embed, 4)
    with pytest.raises(ValueError, match="at least one"):
        grounding.language_set([], ["can"], embed, 4)


def test_roles_of_a_second_goal():
    assert grounding.filled_roles((3, 6)) == (3, 6, 3, 6) and grounding.filled_roles([3, 6, 1, 3]) == (3, 6, 1, 3)
    for wrong in ((), (3,), (3, 6, 1), (3, 6, 1, 3, 2, 1)):
        with pytest.raises(ValueError, match=f"{len(wrong)} roles: give target and reference of 1 to 2 goals"):
            grounding.filled_roles(wrong)
    tower = grounding.Phrase("the mug on the tray, then the can", "mug", "tray", ("can", "mug"))
    language = grounding.language_set([tower], ["can", "mug", "tray"], embed, 1)
    assert language.roles.tolist() == [[1, 2, 0, 1]]
    with pytest.raises(ValueError, match="means 'cup'"):
        grounding.language_set([grounding.Phrase("x", "mug", "tray", ("cup", "mug"))], ["mug", "tray"], embed, 1)


def test_named_heads_read_words_alone():
    import jax

    params = grounding.init(jax.random.key(0), 6, 2, 4, 2, 5)
    instruction, text = jax.random.normal(jax.random.key(1), (2, 6)), jax.random.normal(jax.random.key(2), (2, 3, 6))
    keys, present = grounding.name_keys(params, text), jnp.array([[True, True, False]] * 2)
    flat = grounding.token_scores(params, instruction, keys, jnp.zeros((2, 3, 2)), present)
    shaped = grounding.token_scores(params, instruction, keys, jnp.ones((2, 3, 2)), present)
    np.testing.assert_array_equal(flat[:, :2], shaped[:, :2])
    assert float(jnp.abs(flat[:, 2:, :2] - shaped[:, 2:, :2]).max()) > 1e-3
    assert (flat[:, :, 2] == grounding.ABSENT).all()
    for row in range(2):  # over a list of names the same scores, as they are the same words
        listed = grounding.name_scores(params, instruction[row : row + 1], text[row], present[row])
        np.testing.assert_allclose(listed[0], flat[row, :2], rtol=1e-4)
