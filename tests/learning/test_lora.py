"""Adapters: where they are, that each one counts, that merging changes nothing, and that nothing else is trained."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning import clone, dataset, lora
from coda_jax.learning.policies import grounding, layers
from coda_jax.learning.steps import init_state, train_step
from tests.learning import toy

KEY = jax.random.key(3)
POLICY = toy.policy(width=32, euler_steps=2)
ALL = ("net/.*",)
NAMES = [
    *(f"net/clutter/{i}" for i in range(2)),
    *(f"net/grounding/{name}" for name in ("name", "query", "shape")),
    *(f"net/head/{i}" for i in range(3)),
    *(f"net/trunk/{i}" for i in range(2)),
    "net/words",
]


def embed(strings):
    return np.stack([np.random.default_rng(sum(map(ord, s))).normal(size=384) * 384**-0.5 for s in strings]).astype(np.float32)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(1)
    pairs, supports = toy.names(("red", "blue"), ("mug", "can", "apple")), toy.names(("white",), ("plate", "tray"))
    data = dataset.build([toy.demonstration(rng, pairs, supports) for _ in range(4)], embed)
    language = grounding.language_set(toy.phrases(rng, pairs, supports, 20), pairs + supports, embed, 32)
    return data, language, dataset.gather(data, jnp.arange(0, 48, 6), 8)


@pytest.fixture(scope="module")
def params():
    return POLICY.init(jax.random.key(0))


@pytest.fixture(scope="module")
def attached(params):
    return lora.attach(params, 4, 8.0, ALL, KEY)


def moved(params, name=None):
    """``params`` whose adapter of one Dense (of all without a name) no longer adds zero."""

    def change(path, leaf):
        *dense, factor = jax.tree_util.keystr(path, simple=True, separator="/").split("/")
        if factor == "lora_b" and name in (None, "/".join(dense)):
            return 0.3 * jax.random.normal(KEY, leaf.shape)
        return leaf

    return jax.tree_util.tree_map_with_path(change, params)


@jax.jit
def uses(params, batch, language):
    """Everything that reads the parameters: flow loss, grounding on scenes, grounding without scenes, the chunk."""
    motor, words = POLICY.losses(params, batch, KEY)
    sentences = grounding.language_loss(params["net"]["grounding"], language, jnp.arange(20))
    return motor, words, sentences, POLICY.sample(params, batch.obs, KEY, 2)


def equal(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_every_matrix_of_the_policy_is_found_by_name(params, attached):
    assert lora.names(params) == NAMES and lora.targeted(params) == []
    assert lora.targeted(attached) == NAMES
    matrices = [p for p, x in jax.tree_util.tree_leaves_with_path(params["net"]) if x.ndim == 2]
    assert len(matrices) == len(NAMES)  # no matrix is outside of a Dense
    some = lora.attach(params, 4, 8.0, ("net/head/[01]", "net/words"), KEY)
    assert lora.targeted(some) == ["net/head/0", "net/head/1", "net/words"]


def test_attaching_changes_nothing(problem, params, attached):
    _, language, batch = problem
    for a, b in zip(uses(attached, batch, language), uses(params, batch, language), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert equal(lora.merged(attached), params)
    a = attached["net"]["trunk"][1]["lora_a"]
    assert a.shape == (32, 4) and float(jnp.std(a)) == pytest.approx(32**-0.5, rel=0.3)


@pytest.mark.parametrize("name", NAMES)
def test_each_dense_uses_its_adapter(name, problem, attached):
    """Wherever its w counts, its adapter counts, and as much."""
    _, language, batch = problem
    one = moved(attached, name)
    before, after, folded = (uses(p, batch, language) for p in (attached, one, pad(lora.merged(one), attached)))
    assert any(float(jnp.abs(a - b).max()) > 1e-4 for a, b in zip(after, before, strict=True))
    for a, b in zip(after, folded, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


def pad(params, attached):
    """``params`` with the adapters of ``attached``, which add zero: one executable for both."""
    return lora.attach(params, 4, 8.0, ALL, KEY) if lora.targeted(attached) else params


def test_merged_acts_as_unmerged(problem, attached):
    _, language, batch = problem
    every = moved(attached)
    merged = lora.merged(every)
    assert lora.targeted(merged) == [] and lora.merged(merged) is merged
    assert not equal(merged, lora.merged(attached))
    for a, b in zip(uses(every, batch, language), uses(merged, batch, language), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_alpha_and_rank_scale_the_product(params):
    w = params["net"]["head"][1]["w"]
    for rank, alpha in ((2, 2.0), (4, 2.0)):
        one = moved(lora.attach(params, rank, alpha, ("net/head/1",), KEY))["net"]["head"][1]
        expected = w + alpha / rank * one["lora_a"] @ one["lora_b"]
        np.testing.assert_allclose(layers.kernel(one), expected, rtol=1e-5, atol=1e-6)


def test_parts_of_a_dense_add_up():
    one = layers.init_dense(KEY, 6, 5)
    one = moved(lora.attach({"x": one}, 2, 1.0, ("x",), KEY))["x"]
    x = jax.random.normal(KEY, (3, 6))
    whole = layers.dense(one, x)
    halves = [layers.linear(layers.part(one, inputs=s), x[:, s]) for s in (slice(4), slice(4, None))]
    np.testing.assert_allclose(sum(halves) + one["b"], whole, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layers.dense(layers.part(one, outputs=slice(2, None)), x), whole[:, 2:], rtol=1e-5, atol=1e-6)


def test_stacked_layers_get_an_adapter_each():
    stack = {
        "layer": jax.vmap(lambda k: layers.init_dense(k, 6, 6))(jax.random.split(KEY, 3)),
        "norm": {"w": jnp.ones(6), "b": jnp.ones(6)},
    }
    assert lora.names(stack) == ["layer"]
    attached = moved(lora.attach(stack, 2, 1.0, ("layer",), KEY))
    x = jax.random.normal(KEY, (4, 6))

    def through(params):
        return jax.lax.scan(lambda y, layer: (layers.dense(layer, y), None), x, params["layer"])[0]

    np.testing.assert_allclose(through(attached), through(lora.merged(attached)), rtol=1e-4, atol=1e-5)
    assert float(jnp.abs(through(attached) - through(stack)).max()) > 1e-2


def test_an_adapter_depends_on_its_name_alone(params, attached):
    alone = lora.attach(params, 4, 8.0, ("net/words",), KEY)["net"]["words"]["lora_a"]
    np.testing.assert_array_equal(alone, attached["net"]["words"]["lora_a"])
    assert float(jnp.abs(attached["net"]["head"][1]["lora_a"] - attached["net"]["trunk"][1]["lora_a"]).max()) > 0.1


@pytest.mark.parametrize("target", ["net/tail", "head", "net/head", "net/(head", "statistics/.*"])
def test_a_target_that_matches_nothing_is_named_with_what_there_is(target, params):
    with pytest.raises(lora.TargetError) as error:
        lora.attach(params, 4, 8.0, ("net/words", target), KEY)
    assert repr(target) in str(error.value) and all(name in str(error.value) for name in NAMES)


def test_other_bad_requests_are_refused(params, attached):
    with pytest.raises(lora.TargetError, match="empty.*net/words"):
        lora.attach(params, 4, 8.0, (), KEY)
    with pytest.raises(ValueError, match="have adapters already"):
        lora.attach(attached, 4, 8.0, ALL, KEY)
    with pytest.raises(ValueError, match=r"lora\.rank is 0"):
        lora.attach(params, 0, 8.0, ALL, KEY)
    with pytest.raises(TypeError, match="policy/hidden is a Hidden"):
        lora.names({"policy": {"hidden": Hidden(params)}})


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Hidden:
    tree: dict


def test_training_moves_adapters_alone_and_they_learn(problem, attached):
    data, language, batch = problem
    training = toy.training(steps=60, warmup=1, batch=16, weight_decay=0.1, language_batch=8, learning_rate=1e-2)
    state = init_state(POLICY, training, jax.tree.map(jnp.copy, attached))
    moments = [x.size for x in jax.tree.leaves(state.opt) if x.ndim]
    learned = [x.size for path, x in jax.tree_util.tree_leaves_with_path(attached) if factor(path)]
    assert len(learned) == 2 * len(NAMES) and sum(moments) == 2 * sum(learned)  # two moments of what is trained, nothing of the rest
    trained = clone.clone(POLICY, training, data, language, seed=0, state=state)
    pairs = zip(jax.tree_util.tree_leaves_with_path(attached), jax.tree.leaves(trained.params), strict=True)
    for (path, before), after in pairs:
        assert np.array_equal(before, after) != factor(path), jax.tree_util.keystr(path)
    losses = [float(POLICY.loss(lora.merged(p), batch, KEY).mean()) for p in (attached, trained.ema)]
    assert losses[1] < 0.8 * losses[0]


def factor(path) -> bool:
    return getattr(path[-1], "key", None) in lora.FACTORS


def test_nothing_is_computed_for_gradients_of_frozen_matrices(problem, params):
    """With one adapter, in the last layer, the backward pass has only the products of that layer."""
    data, _, _ = problem
    training = toy.training(steps=12)

    def products(tree) -> int:
        step = jax.make_jaxpr(lambda state: train_step(POLICY, training, state, data, None, KEY))
        return str(step(jax.eval_shape(lambda: init_state(POLICY, training, tree)))).count("dot_general")

    forward = str(jax.make_jaxpr(lambda p: POLICY.losses(p, problem[2], KEY))(params)).count("dot_general")
    assert products(lora.attach(params, 2, 2.0, ("net/head/2",), KEY)) <= forward + 2 + 3 < products(params)
