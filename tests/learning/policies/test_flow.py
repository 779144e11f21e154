import dataclasses
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning import dataset
from coda_jax.learning.policies import rotations
from coda_jax.types import TOKENS
from tests.learning import toy

KEY = jax.random.key(3)


def embed(strings):
    return np.stack([np.random.default_rng(sum(map(ord, s))).normal(size=384) * 384**-0.5 for s in strings]).astype(np.float32)


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(1)
    pairs, supports = toy.names(("red", "blue"), ("mug", "can", "apple")), toy.names(("white",), ("plate", "tray"))
    data = dataset.build([toy.demonstration(rng, pairs, supports) for _ in range(4)], embed)
    return dataset.gather(data, jnp.arange(0, 48, 6), 8)


@pytest.fixture(scope="module")
def params():
    return toy.policy().init(jax.random.key(0))


def test_sample_shape_candidates_and_reproducibility(batch, params):
    chunks = toy.policy().sample(params, batch.obs, KEY, 3)
    assert chunks.shape == (8, 3, 8, 7) and bool(jnp.isfinite(chunks).all())
    assert float(jnp.abs(chunks[:, 0] - chunks[:, 1]).max()) > 1e-3
    np.testing.assert_array_equal(chunks, toy.policy().sample(params, batch.obs, KEY, 3))


def test_one_executable_for_all_scenes_and_parameters(batch, caplog):
    policy = toy.policy(width=32)
    other = dataclasses.replace(batch.obs, pos=batch.obs.pos + 0.1)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        policy.sample(policy.init(KEY), batch.obs, KEY, 1)
        toy.policy(width=32).sample(policy.init(jax.random.key(9)), other, jax.random.key(4), 1)
    assert sum("XLA compilation of jit(sample_chunks)" in m for m in caplog.messages) == 1


def permuted(obs, order):
    fields = ("pos", "quat", "linvel", "angvel", "half_extent", "articulation", "articulation_range", "present", "text")
    return dataclasses.replace(obs, **{f: getattr(obs, f)[:, order] for f in fields})


def test_the_order_of_tokens_carries_nothing(batch, params):
    order = np.random.default_rng(0).permutation(TOKENS)
    expected = toy.policy().sample(params, batch.obs, KEY, 1)
    np.testing.assert_allclose(toy.policy().sample(params, permuted(batch.obs, order), KEY, 1), expected, atol=1e-4)


def test_absent_tokens_are_not_read(batch, params):
    junk = jnp.where(batch.obs.present[..., None], batch.obs.pos, 77.0)
    changed = dataclasses.replace(batch.obs, pos=junk, text=batch.obs.text + jnp.where(batch.obs.present, 0.0, 5.0)[..., None])
    np.testing.assert_allclose(toy.policy().sample(params, changed, KEY, 1), toy.policy().sample(params, batch.obs, KEY, 1), atol=1e-5)


def test_actions_turn_with_the_world_in_the_yaw_frame(batch):
    """Turning gripper, objects and velocities together turns the chunk, except for what the base-frame features say."""
    policy = toy.policy()
    params = policy.init(jax.random.key(0))
    first = params["net"]["trunk"][0]["w"]
    start = 4 * 29 + policy.width // 4  # gripper features: base position x, y and cos, sin of the yaw are not invariant
    first = first.at[jnp.array([start, start + 1, start + 5, start + 6])].set(0.0)
    params["net"]["trunk"][0]["w"] = first
    angle = jnp.full((8,), 0.8)
    spin = rotations.from_rotation_vector(jnp.array([0.0, 0.0, 0.8]))
    turned = dataclasses.replace(
        batch.obs,
        ee_pos=rotations.about_z(batch.obs.ee_pos, angle),
        ee_quat=rotations.multiply(jnp.broadcast_to(spin, (8, 4)), batch.obs.ee_quat),
        pos=rotations.about_z(batch.obs.pos, angle[:, None]),
        quat=rotations.multiply(jnp.broadcast_to(spin, (8, 8, 4)), batch.obs.quat),
    )
    chunk, after = policy.sample(params, batch.obs, KEY, 1), policy.sample(params, turned, KEY, 1)
    np.testing.assert_allclose(after[..., :3], rotations.about_z(chunk[..., :3], jnp.array(0.8)), atol=1e-3)
    np.testing.assert_allclose(after[..., 6], chunk[..., 6], atol=1e-3)


def test_given_roles_replace_attention_and_are_required(batch, params):
    policy = toy.policy(given_roles=True)
    with pytest.raises(ValueError, match="pass roles"):
        policy.sample(params, batch.obs, KEY, 1)
    free = [i for i in range(TOKENS) if bool(batch.obs.present[0, i])]
    one, two = (jnp.tile(jnp.array([[i, 6]]), (8, 1)) for i in free[:2])
    moved = dataclasses.replace(batch.obs, text=batch.obs.text * 0)  # words no longer matter for the named heads
    first, second = policy.sample(params, moved, KEY, 1, one), policy.sample(params, moved, KEY, 1, two)
    assert float(jnp.abs(first[0] - second[0]).max()) > 1e-4
    off = toy.policy()
    np.testing.assert_array_equal(off.sample(params, batch.obs, KEY, 1, one), off.sample(params, batch.obs, KEY, 1))


def test_a_policy_for_two_goals_reads_the_second_ones_roles(batch):
    policy = toy.policy(goals=2, heads=6, distractor_dropout=0.9)
    params = policy.init(jax.random.key(0))
    present = np.asarray(batch.obs.present)
    others = [next(i for i in range(6) if present[row, i] and i != int(batch.roles[row, 0])) for row in range(8)]
    then = dataclasses.replace(batch, roles=batch.roles.at[:, 2].set(jnp.array(others)))
    once, twice = (policy.losses(params, b, KEY) for b in (batch, then))
    assert (jnp.abs(once[1] - twice[1]) > 1e-6).all()  # its own named heads look for it
    assert (jnp.abs(once[0] - twice[0]) > 1e-9).any()  # and it is not hidden as a distractor
    one = toy.policy()
    np.testing.assert_array_equal(one.loss(one.init(KEY), batch, KEY), one.loss(one.init(KEY), then, KEY))
    for goals, heads, said in ((0, 6, "for 0 goals"), (3, 9, "for 3 goals"), (2, 4, "heads is 4; it must be above 4")):
        with pytest.raises(ValueError, match=said):
            toy.policy(goals=goals, heads=heads)


def test_masked_labels_do_not_count(batch, params):
    policy = toy.policy()
    changed = dataclasses.replace(batch, actions=jnp.where(batch.mask[..., None], batch.actions, 0.9))
    assert not bool(batch.mask.all())
    plain = toy.policy(cumulative=False)
    np.testing.assert_allclose(plain.losses(params, changed, KEY)[0].shape, (8,))
    before, after = policy.loss(params, batch, KEY), policy.loss(params, changed, KEY)
    full = np.asarray(batch.mask.all(-1))
    np.testing.assert_allclose(after[full], before[full], rtol=1e-5)
    none = dataclasses.replace(batch, mask=batch.mask & False)
    np.testing.assert_array_equal(policy.losses(params, none, KEY)[0], np.zeros(8))


def test_table_and_text_give_the_same_loss(batch, params):
    policy = toy.policy()
    np.testing.assert_allclose(policy.loss(params, dataclasses.replace(batch, table=None), KEY), policy.loss(params, batch, KEY), rtol=1e-4)


@pytest.mark.parametrize(
    "change",
    [
        {"yaw_frame": False},
        {"multi_scale": False},
        {"cumulative": False},
        {"distractor_dropout": 0.0},
        {"grounding_weight": 0.0},
        {"given_roles": True},
        {"heads": 3},
        {"key_dim": 16},
        {"width": 32},
    ],
)
def test_every_training_setting_changes_the_loss(batch, change):
    def loss(policy):
        return policy.loss(policy.init(jax.random.key(0)), batch, KEY)

    assert float(jnp.abs(loss(toy.policy(**change)) - loss(toy.policy())).max()) > 1e-5


@pytest.mark.parametrize("change", [{"hard_attention": False}, {"euler_steps": 2}])
def test_every_sampling_setting_changes_the_sample(batch, params, change):
    chunks = [policy.sample(params, batch.obs, KEY, 1) for policy in (toy.policy(**change), toy.policy())]
    assert float(jnp.abs(chunks[0] - chunks[1]).max()) > 1e-5


@pytest.mark.parametrize("change", [{"heads": 2}, {"width": 0}, {"distractor_dropout": 1.0}])
def test_bad_settings_are_refused(change):
    with pytest.raises(ValueError, match=f"policy.{next(iter(change))}"):
        toy.policy(**change)
