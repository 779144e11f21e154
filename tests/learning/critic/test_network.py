"""What the network reads and what it must not read; the start; the copy of the policy's grounding."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning.critic.batch import ProgramInput
from coda_jax.learning.critic.network import named_attention
from coda_jax.learning.policies import features, grounding, rotations
from coda_jax.types import TOKENS
from tests.learning import toy
from tests.learning.critic import small

B, J = 3, 4
RNG = np.random.default_rng(0)
OBS, PROGRAM = small.observation(RNG, B), small.program(RNG, B)
ACTIONS = jnp.asarray(RNG.uniform(-1, 1, (B, J, small.CHUNK, 7)), jnp.float32)
MASK = jnp.arange(small.CHUNK) < jnp.array([4, 2, 1])[:, None, None]


def trained_head(critic, seed=0):
    """Parameters whose head is not zero, so that inputs matter."""
    params = critic.init(jax.random.key(seed))
    params["net"]["head"]["w"] = jax.random.normal(jax.random.key(seed + 1), params["net"]["head"]["w"].shape)
    return params


CRITIC = small.critic(layers=2)
PARAMS = trained_head(CRITIC)
q = jax.jit(CRITIC.q)
BASE = q(PARAMS, OBS, PROGRAM, ACTIONS, MASK)


def test_fresh_critic_decodes_to_zero():
    fresh = CRITIC.init(jax.random.key(5))
    np.testing.assert_allclose(q(fresh, OBS, PROGRAM, ACTIONS, MASK), 0.0, atol=1e-5)


def test_masked_actions_are_not_read():
    changed = jnp.where(MASK[..., None], ACTIONS, 0.7)
    np.testing.assert_allclose(q(PARAMS, OBS, PROGRAM, changed, MASK), BASE, atol=1e-5)
    for step in range(4):  # and the others are, every one
        moved = q(PARAMS, OBS, PROGRAM, ACTIONS.at[:, :, step].multiply(-1), MASK)
        read = np.asarray(MASK)[:, 0, step]
        assert (np.abs(moved - BASE).min(-1) > 1e-4).tolist() == read.tolist()


def test_reading_only_the_executed_tokens_is_the_same():
    whole = dataclasses.replace(CRITIC, tokens=small.CHUNK)
    np.testing.assert_allclose(jax.jit(whole.q)(PARAMS, OBS, PROGRAM, ACTIONS, MASK), BASE, atol=2e-5)


def test_candidates_do_not_see_each_other():
    others = q(PARAMS, OBS, PROGRAM, ACTIONS.at[:, 1:].multiply(-1), MASK)
    np.testing.assert_allclose(others[:, 0], BASE[:, 0], atol=1e-5)
    assert float(jnp.abs(others[:, 1:] - BASE[:, 1:]).min()) > 1e-4


def test_order_of_tokens_and_absent_tokens_do_not_matter():
    order = np.array([6, 1, 0, 3, 4, 5, 2, 7])
    fields = ("pos", "quat", "linvel", "angvel", "half_extent", "articulation", "articulation_range", "present", "text")
    permuted = dataclasses.replace(OBS, **{f: getattr(OBS, f)[:, order] for f in fields})
    np.testing.assert_allclose(q(PARAMS, permuted, PROGRAM, ACTIONS, MASK), BASE, atol=1e-5)
    absent = ~OBS.present[..., None]
    ghosts = dataclasses.replace(OBS, pos=OBS.pos + 3.0 * absent, text=OBS.text + absent, linvel=OBS.linvel - absent)
    np.testing.assert_allclose(q(PARAMS, ghosts, PROGRAM, ACTIONS, MASK), BASE, atol=1e-5)


def test_turning_the_world_about_the_gripper_keeps_values():
    # frame of the gripper's yaw: only its own position in the base frame may tell
    still = dataclasses.replace(OBS, ee_pos=jnp.zeros((B, 3)))
    angle = 0.9
    half = jnp.array([np.cos(angle / 2), 0, 0, np.sin(angle / 2)])

    def turn(v):
        return rotations.about_z(v, jnp.asarray(angle))

    turned = dataclasses.replace(
        still,
        ee_quat=rotations.multiply(half, still.ee_quat),
        quat=rotations.multiply(half, still.quat),
        pos=turn(still.pos),
        linvel=turn(still.linvel),
        angvel=turn(still.angvel),
    )
    actions = jnp.concatenate([turn(ACTIONS[..., :3]), turn(ACTIONS[..., 3:6]), ACTIONS[..., 6:]], axis=-1)
    net = {**PARAMS["net"]}
    first = net["gripper"][0]["w"]
    net["gripper"] = [{**net["gripper"][0], "w": first.at[5:7].set(0.0)}, net["gripper"][1]]  # cos and sin of the yaw in the base frame
    blind = {**PARAMS, "net": net}
    np.testing.assert_allclose(q(blind, turned, PROGRAM, actions, MASK), q(blind, still, PROGRAM, ACTIONS, MASK), atol=1e-4)


@pytest.mark.parametrize("field", ["ee_pos", "gripper_opening", "pos", "quat", "linvel", "half_extent", "text", "instruction"])
def test_observation_is_read(field):
    changed = dataclasses.replace(OBS, **{field: getattr(OBS, field) * 0.5 + 0.05})
    assert float(jnp.abs(q(PARAMS, changed, PROGRAM, ACTIONS, MASK) - BASE).max()) > 1e-4


@pytest.mark.parametrize("field", ["stage", "progress", "code"])
def test_the_program_is_read(field):
    other = {"stage": (PROGRAM.stage + 1) % 5, "progress": 1 - PROGRAM.progress, "code": -PROGRAM.code}[field]
    changed = dataclasses.replace(PROGRAM, **{field: other})
    assert float(jnp.abs(q(PARAMS, OBS, changed, ACTIONS, MASK) - BASE).max()) > 1e-4


def test_two_programs_on_one_scene_never_alias():
    none = ProgramInput(stage=jnp.zeros(B, jnp.int32), progress=jnp.zeros(B), code=jnp.zeros_like(PROGRAM.code))
    assert float(jnp.abs(q(PARAMS, OBS, none, ACTIONS, MASK) - BASE).min()) > 1e-4


def test_grounding_and_statistics_are_the_policys_and_do_not_learn():
    policy = toy.policy(text_dim=small.TEXT_DIM, heads=3, key_dim=4).init(jax.random.key(7))
    policy["statistics"]["mean"] = policy["statistics"]["mean"] + 0.3
    params = CRITIC.init(jax.random.key(0), policy)
    for mine, theirs in ((params["grounding"], policy["net"]["grounding"]), (params["statistics"], policy["statistics"])):
        jax.tree.map(np.testing.assert_array_equal, mine, theirs)
        assert all(x is not y for x, y in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True))
    on = CRITIC.trainable(params)
    assert all(jax.tree.leaves(on["net"])) and not any(jax.tree.leaves((on["grounding"], on["statistics"])))
    assert jax.tree.structure(on) == jax.tree.structure(params)


def test_named_attention_is_the_groundings():
    words = PARAMS["grounding"]
    keys = grounding.name_keys(words, OBS.text)
    scores = grounding.token_scores(words, OBS.instruction, keys, features.shape_features(OBS), OBS.present)
    found = named_attention(CRITIC, words, OBS, features.token_features(OBS, features.heading(OBS, True), True))
    assert found.shape == (B, 2, TOKENS)
    np.testing.assert_allclose(found, jax.nn.softmax(scores, axis=-1)[:, :2], atol=1e-6)


def test_every_dense_is_found_by_name():
    names = {jax.tree_util.keystr(path[:-1]) for path, _ in jax.tree_util.tree_leaves_with_path(PARAMS["net"]) if path[-1].key == "w"}
    assert {f"['layers'][{i}]['{part}']" for i in range(2) for part in ("qkv", "self", "query", "cross", "up", "down")} < names
    assert {"['words']", "['instruction']", "['memory']", "['action']", "['head']", "['object'][0]", "['task'][1]"} < names


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"tokens": 3}, "critic.tokens"),
        ({"tokens": 9}, "critic.tokens"),
        ({"heads": 5}, "critic.width"),
        ({"early_ends": "drop"}, "fill, mask"),
    ],
)
def test_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        small.critic(**changes)
