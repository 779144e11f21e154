import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from coda_jax.learning import dataset
from coda_jax.learning.critic.network import named_attention
from coda_jax.learning.policies import features, grounding, relations
from coda_jax.types import TOKENS
from tests.learning import toy
from tests.learning.critic import small

KEY = jax.random.key(3)
SETTINGS = {"relations": True, "key_dim": 16}


def embed(strings):
    """Hashed bags of words, unit length."""
    rows = np.zeros((len(strings), 384), np.float32)
    for row, s in zip(rows, strings, strict=True):
        for word in s.split():
            row += np.random.default_rng(sum(i * ord(c) for i, c in enumerate(word, 1))).normal(size=384)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def two_bowls(rng, n):
    """``n`` demonstrations of one step with two bowls, one of them beside the anchor that the instruction names."""
    demos = []
    for _ in range(n):
        names: list[str | None] = [None] * TOKENS
        slots = rng.permutation(6)[:4]
        anchors = rng.permutation(["red mug", "green can", "blue box"])[:2]
        for slot, name in zip(slots, ["black bowl", "black bowl", *anchors], strict=True):
            names[slot] = str(name)
        names[6] = "white plate"
        demo = toy.demonstration(rng, toy.names(("red",), toy.OBJECTS), toy.names(("white",), ("plate", "tray")), t=1)
        pos = demo.obs["pos"].copy()
        pos[:, slots[:2]] = pos[:, slots[2:]] + rng.uniform(-0.03, 0.03, (1, 2, 3))  # each bowl beside an anchor
        present = np.array([name is not None for name in names])
        which = int(rng.integers(2))
        instruction = f"pick up the black bowl next to the {anchors[which]} and place it on the white plate"
        obs = {**demo.obs, "pos": pos, "present": present}
        demos.append(dataclasses.replace(demo, obs=obs, names=tuple(names), instruction=instruction, roles=(int(slots[which]), 6)))
    return demos


@pytest.fixture(scope="module")
def bowls():
    data = dataset.build(two_bowls(np.random.default_rng(1), 768), embed)
    return dataset.gather(data, jnp.arange(768), 8)


@pytest.fixture(scope="module")
def single():
    rng = np.random.default_rng(2)
    pairs, supports = toy.names(("red", "blue"), ("mug", "can", "apple")), toy.names(("white",), ("plate", "tray"))
    return dataset.gather(dataset.build([toy.demonstration(rng, pairs, supports) for _ in range(8)], embed), jnp.arange(0, 96, 12), 8)


def rows(batch, chosen):
    plain = dataclasses.replace(batch, table=None)
    return jax.tree.map(lambda x: x[chosen], plain)


def test_where_a_name_is_there_once_nothing_changes(single):
    policy = toy.policy(**SETTINGS)
    params = policy.init(KEY)
    without = {**params, "net": {**params["net"], "grounding": {k: x for k, x in params["net"]["grounding"].items() if k != "relations"}}}
    plain = dataclasses.replace(policy, relations=False)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), without, plain.init(KEY)))
    np.testing.assert_allclose(
        policy.encode(params["net"], single.obs, None, hard=False)[1],
        plain.encode(without["net"], single.obs, None, hard=False)[1],
        rtol=1e-5,
    )


def test_names_keep_their_share_and_relations_divide_it():
    same = jnp.array([[[True, True, False], [True, True, False], [False, False, True]]])
    by_name, by_relation = jnp.log(jnp.array([[[0.3, 0.3, 0.7]]])), jnp.log(jnp.array([[[3.0, 1.0, 50.0]]]))
    found = jax.nn.softmax(relations.among_equals(by_name, by_relation, same), axis=-1)
    np.testing.assert_allclose(found[0, 0], [0.3 * 0.75, 0.3 * 0.25, 0.7], rtol=1e-5)


def test_same_name_asks_for_present_tokens_of_one_embedding():
    text = embed(["black bowl", "black bowl", "black bowl", "white bowl"])[None]
    same = relations.same_name(jnp.asarray(text), jnp.array([[True, True, False, True]]))
    expected = np.eye(4, dtype=bool)
    expected[0, 1] = expected[1, 0] = True
    np.testing.assert_array_equal(same[0], expected)
    chosen = jnp.eye(4, dtype=bool)
    doubled = [bool(relations.doubled(jnp.asarray(text), jnp.array([[True, True, False, True]]), chosen[i : i + 1])[0]) for i in range(4)]
    assert doubled == [True, True, False, False]


def test_nothing_is_hidden_where_the_target_has_a_double(bowls, single):
    """With almost every distractor hidden the velocities stay those of the whole scene if a name is there twice, and move if not."""
    few = rows(bowls, jnp.arange(8))

    def velocity(batch, dropout):
        policy = toy.policy(**SETTINGS, distractor_dropout=dropout)
        return policy.velocities(policy.init(KEY), batch, KEY)[0]

    np.testing.assert_array_equal(velocity(few, 0.99), velocity(few, 0.0))
    assert float(jnp.abs(velocity(single, 0.99) - velocity(single, 0.0)).max()) > 1e-3


def test_the_order_of_tokens_carries_nothing(bowls):
    policy = toy.policy(**SETTINGS)
    obs, params = rows(bowls, jnp.arange(8)).obs, policy.init(KEY)
    order = np.random.default_rng(0).permutation(TOKENS)
    fields = ("pos", "quat", "linvel", "angvel", "half_extent", "articulation", "articulation_range", "present", "text")
    turned = dataclasses.replace(obs, **{f: getattr(obs, f)[:, order] for f in fields})
    expected = policy.encode(params["net"], obs, None, hard=False)[1][:, :, order]
    np.testing.assert_allclose(policy.encode(params["net"], turned, None, hard=False)[1], expected, atol=1e-4)


def test_the_critic_reads_the_same_attention(bowls):
    policy = toy.policy(**SETTINGS, goals=2, heads=6)
    obs, params = rows(bowls, jnp.arange(8)).obs, policy.init(KEY)
    critic = dataclasses.replace(small.critic(), text_dim=384, key_dim=16, grounding_heads=6, goals=2)
    tokens = features.token_features(obs, features.heading(obs, critic.yaw_frame), critic.multi_scale)
    _, scores = policy.encode(params["net"], obs, None, hard=False)
    found = named_attention(critic, params["net"]["grounding"], obs, tokens)
    np.testing.assert_allclose(found, jax.nn.softmax(scores[:, :2], axis=-1), atol=1e-5)


@pytest.mark.parametrize("on", [True, False])
def test_the_bowl_beside_the_named_thing_is_found(bowls, on):
    """Of scenes that were not learned from: nearly always with relations, by chance without."""
    policy = toy.policy(**{**SETTINGS, "relations": on})
    params = policy.init(KEY)["net"]
    optimiser = optax.adam(3e-3)

    def loss(net, batch):
        _, scores = policy.encode(net, batch.obs, None, hard=False)
        return grounding.cross_entropy(scores[:, :2], batch.roles).mean()

    @jax.jit
    def step(carry, key):
        net, state = carry
        batch = rows(bowls, jax.random.randint(key, (64,), 0, 512))
        updates, state = optimiser.update(jax.grad(loss)(net, batch), state)
        return (optax.apply_updates(net, updates), state), None

    (params, _), _ = jax.lax.scan(step, (params, optimiser.init(params)), jax.random.split(KEY, 400))
    held_out = rows(bowls, jnp.arange(512, 768))
    _, scores = policy.encode(params, held_out.obs, None, hard=True)
    found = float((scores[:, 0].argmax(-1) == held_out.roles[:, 0]).mean())
    assert found > 0.9 if on else 0.35 < found < 0.65, found
