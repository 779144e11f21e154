"""What the updates in PyTorch start from: the features and the drawn noise of one update of the project, as arrays by name."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from coda_jax.learning import dataset
from coda_jax.learning.awr import Awr, drawn
from coda_jax.learning.critic import steps
from coda_jax.learning.critic.network import Critic
from coda_jax.learning.dataset import Dataset
from coda_jax.learning.experience import Experience
from coda_jax.learning.policies import features, normalise
from coda_jax.learning.policies.base import ChunkBatch, Params
from coda_jax.learning.policies.flow import FlowPolicy
from coda_jax.learning.policies.grounding import NAMED_HEADS, LanguageSet
from coda_jax.learning.steps import Training
from coda_jax.types import TOKENS, Array


def critic_inputs(critic: Critic, draw: steps.Source, params: Params, table: Any, key: jax.Array, step: int) -> dict[str, Any]:
    """Of update ``step`` of ``critic_steps``."""
    draw_key, fill_key = jax.random.split(jax.random.fold_in(key, step))
    batch = draw(table, draw_key)
    given = steps.inputs(critic, params, batch, fill_key)
    found = {name: getattr(batch, name) for name in ("mask", "rewards", "terminal", "phi", "next_phi")}
    found |= {"state": given.state, "chunk": given.chunk, "read": given.mask}
    return found | {"next_state": given.next_state, "next_chunks": given.next_chunks}


def cloning_inputs(
    policy: FlowPolicy, training: Training, params: Params, demos: Dataset, language: LanguageSet, key: jax.Array, step: int
) -> dict[str, Any]:
    """Of update ``step`` of ``train_steps``."""
    draw_key, loss_key, language_key = jax.random.split(jax.random.fold_in(key, step), 3)
    batch = dataset.draw(demos, draw_key, training.batch, policy.chunk)
    found = _flow(policy, params, batch, loss_key) | _language(training, language, language_key)
    return found | {"weight": jnp.ones(training.batch)}


def awr_inputs(
    policy: FlowPolicy,
    training: Training,
    awr: Awr,
    params: Params,
    demos: Dataset,
    table: Experience,
    weights: Array,
    language: LanguageSet,
    key: jax.Array,
    step: int,
) -> dict[str, Any]:
    """Of update ``step`` of ``policy_steps``."""
    demo_key, rows_key, loss_key, language_key = jax.random.split(jax.random.fold_in(key, step), 4)
    counts = jnp.asarray(awr.counts(training.batch), jnp.int32)
    batch, weight, _ = drawn(demos, table, counts, weights, demo_key, rows_key, training.batch, policy.chunk)
    found = _flow(policy, params, batch, loss_key) | _language(training, language, language_key)
    return found | {"weight": weight}


def _language(training: Training, language: LanguageSet, key: jax.Array) -> dict[str, Array]:
    rows = jax.random.randint(key, (training.language_batch,), 0, language.size)
    return {
        "sentences": language.instructions[rows],
        "meant": language.roles[rows][:, :NAMED_HEADS].astype(jnp.int32),
        "vocabulary": language.names,
        "known": language.named,
    }


def _flow(policy: FlowPolicy, params: Params, batch: ChunkBatch, key: jax.Array) -> dict[str, Array]:
    dropout_key, noise_key, time_key = jax.random.split(key, 3)
    obs, b, tokens = batch.obs, len(batch.actions), jnp.arange(TOKENS)
    has_role = (tokens == batch.roles[:, :1]) | (tokens == batch.roles[:, 1:NAMED_HEADS])
    dropped = jax.random.bernoulli(dropout_key, policy.distractor_dropout, (b, TOKENS)) & ~has_role
    angle = features.heading(obs, policy.yaw_frame)
    targets = normalise.standardise(params["statistics"], normalise.encode_chunk(batch.actions, angle, policy.cumulative)).reshape(b, -1)
    assert batch.table is not None
    return {
        "tokens": features.token_features(obs, angle, policy.multi_scale),
        "shape": features.shape_features(obs),
        "gripper": features.gripper_features(obs, angle, policy.multi_scale),
        "angle": angle,
        "pos": obs.pos,
        "present": obs.present & ~dropped,
        "instruction": obs.instruction,
        "table": batch.table.text,
        "names": batch.table.names,
        "roles": batch.roles[:, :NAMED_HEADS],
        "targets": targets,
        "noise": jax.random.normal(noise_key, targets.shape),
        "u": jax.random.uniform(time_key, (b, 1)),
        "mask": batch.mask,
    }
