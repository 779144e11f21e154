"""Cloning a problem with a known answer, resume, and what the words give."""

from __future__ import annotations

import contextlib
import dataclasses
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning import clone, dataset
from coda_jax.learning.encoders.minilm import TextEncoder
from coda_jax.learning.policies import features, grounding
from coda_jax.loop.checkpoint import Checkpoints
from tests.learning import toy

HELD_NOUNS = ("bottle", "sponge")
PAIRS = toy.names(toy.COLOURS, [n for n in toy.OBJECTS if n not in HELD_NOUNS])
HELD_PAIRS, SEEN_PAIRS = PAIRS[::5], [p for i, p in enumerate(PAIRS) if i % 5]
SUPPORTS = toy.names(toy.COLOURS, toy.SUPPORTS)


@pytest.fixture(scope="module")
def encode(tmp_path_factory):
    return TextEncoder(tmp_path_factory.mktemp("text")).encode


@pytest.fixture(scope="module")
def problem(encode):
    rng = np.random.default_rng(0)
    data = dataset.build([toy.demonstration(rng, SEEN_PAIRS, SUPPORTS) for _ in range(200)], encode)
    phrases = toy.phrases(rng, SEEN_PAIRS, SUPPORTS, 500)
    return data, grounding.language_set(phrases, SEEN_PAIRS + SUPPORTS, encode, 256)


def equal(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_kill_and_resume_is_bit_for_bit(problem, tmp_path):
    data, language = problem
    policy, training = toy.policy(width=32), toy.training(steps=4, warmup=1, batch=16, language_batch=16)
    whole = clone.clone(policy, training, data, language, seed=5)
    again = clone.clone(policy, training, data, language, seed=5)
    assert equal(whole, again)

    class Killed(Exception):
        pass

    with Checkpoints(tmp_path, keep=2) as store:

        def save(state):
            store.save(int(state.step), state)
            raise Killed

        with pytest.raises(Killed):
            clone.clone(policy, training, data, language, seed=5, save=save, save_every=2)
    with Checkpoints(tmp_path, keep=2) as store:
        restored = store.restore(clone.start(policy, training, data, seed=99))
    assert restored.step == 2
    assert equal(clone.clone(policy, training, data, language, seed=5, state=restored.tree), whole)
    assert not equal(clone.clone(policy, training, data, language, seed=6), whole)


def test_progress_saves_and_one_executable(problem, tmp_path):
    data, _ = problem
    policy, training = toy.policy(width=32), toy.training(steps=130, batch=8)
    more = dataset.build([toy.demonstration(np.random.default_rng(1), SEEN_PAIRS, SUPPORTS)], lambda s: np.ones((len(s), 384), np.float32))
    assert jax.tree.map(jnp.shape, more) == jax.tree.map(jnp.shape, data)
    seen, saved = [], []
    with Checkpoints(tmp_path, keep=2) as store, jax.log_compiles(), _messages("jax._src.dispatch") as messages:

        def save(state):
            saved.append(int(state.step))
            if state.step == 60:
                store.save(60, state)

        clone.clone(policy, training, data, None, seed=0, progress=seen.append, save=save, save_every=60)
        restored = store.restore(clone.start(policy, training, data, 0)).tree
        clone.clone(policy, training, more, None, seed=0, state=restored)
    assert [p.step for p in seen] == [50, 60, 110, 120, 130] and saved == [60, 120, 130]
    assert seen[-1].left_s == 0 and all(p.rate > 0 for p in seen)
    # one executable for every number of steps, for other demonstrations, and for a state from the disk
    assert sum("XLA compilation of jit(train_steps)" in m for m in messages) == 1


@contextlib.contextmanager
def _messages(name):
    """Log messages of a logger while inside."""
    found = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())
    logging.getLogger(name).addHandler(handler)
    try:
        yield found
    finally:
        logging.getLogger(name).removeHandler(handler)


def test_divergence_and_bad_settings_are_named(problem):
    data, _ = problem
    policy, training = toy.policy(width=32), toy.training(steps=130, batch=8)
    state = clone.start(policy, training, data, 0)
    broken = dataclasses.replace(state, params=jax.tree.map(lambda x: x * jnp.nan, state.params))
    with pytest.raises(clone.DivergedError, match="learning_rate"):
        clone.clone(policy, training, data, None, seed=0, state=broken)
    with pytest.raises(ValueError, match=r"training\.warmup is 5"):
        toy.training(steps=5, warmup=5)


def test_statistics_stay_and_average_follows(problem):
    data, language = problem
    policy, training = toy.policy(width=32), toy.training(steps=20, weight_decay=0.5, batch=8)
    begun = jax.tree.map(np.asarray, clone.start(policy, training, data, 0))
    state = clone.clone(policy, training, data, language, seed=0)
    assert equal(state.params["statistics"], begun.params["statistics"])
    assert not equal(state.params["net"], begun.params["net"])
    head = [tree["net"]["head"][0]["w"] for tree in (begun.params, state.ema, state.params)]
    distance = [float(jnp.abs(w - head[0]).sum()) for w in head[1:]]
    assert 0 < distance[0] < distance[1]


def _named(params, obs):
    """Tokens [b, 2] that the named heads take for target and reference."""
    net = params["net"]["grounding"]
    keys = grounding.name_keys(net, obs.text)
    scores = grounding.token_scores(net, obs.instruction, keys, features.shape_features(obs), obs.present)
    return scores[:, : grounding.NAMED_HEADS].argmax(-1)


def accuracy(policy, params, encode, pairs, supports, target_pairs=None):
    """Share of right [target, reference], and the error of the first action's direction (in action units)."""
    rng = np.random.default_rng(7)
    demos = []
    for _ in range(200):
        demo = toy.demonstration(rng, pairs, supports)
        if target_pairs is not None:
            old, new = demo.names[demo.roles[0]], target_pairs[rng.integers(len(target_pairs))]
            names = tuple(new if i == demo.roles[0] else n for i, n in enumerate(demo.names))
            demo = dataclasses.replace(demo, names=names, instruction=demo.instruction.replace(f"the {old}", f"the {new}", 1))
        demos.append(demo)
    batch = dataset.gather(dataset.build(demos, encode), jnp.arange(200) * 12, 8)
    right = np.asarray(_named(params, batch.obs) == batch.roles[:, : grounding.NAMED_HEADS]).mean(0)
    chunk = policy.sample(params, batch.obs, jax.random.key(0), 1)[:, 0]
    return right, float(jnp.abs(chunk[:, 0, :3] - batch.actions[:, 0, :3]).mean())


def test_learns_the_toy_and_grounds_unseen_pairs(problem, encode):
    data, language = problem
    policy = toy.policy()
    training = toy.training(language_batch=64)
    state = clone.clone(policy, training, data, language, seed=0)
    right, error = accuracy(policy, state.ema, encode, SEEN_PAIRS, SUPPORTS)
    untrained = accuracy(policy, clone.start(policy, training, data, 0).params, encode, SEEN_PAIRS, SUPPORTS)
    assert right.min() > 0.97 and untrained[0].max() < 0.6
    assert error < 0.35 and error < 0.5 * untrained[1]
    unseen, error = accuracy(policy, state.ema, encode, SEEN_PAIRS, SUPPORTS, HELD_PAIRS)
    assert unseen[0] > 0.9 and error < 0.4
    held, _ = accuracy(policy, state.ema, encode, SEEN_PAIRS, SUPPORTS, toy.names(toy.COLOURS, HELD_NOUNS))
    assert held[0] > 0.45  # words never trained, among 2-5 objects; a wider vocabulary raises it (docs/policy.md)
