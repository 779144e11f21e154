"""Which of several things of one name do the words mean? "The bowl next to the ramekin": relations to other tokens tell.

Named heads compare words (grounding.py), so that tokens of one name score alike. Here anchors, heads of their own over the names, look
for the things that the instruction also speaks of; a token is described by where they lie from it and by itself, and queries of the
instruction compare these descriptions among the tokens of one name alone. Where a name is there once nothing changes, so that geometry
can never stand in for a name.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coda_jax.learning.policies import features, grounding
from coda_jax.learning.policies.layers import dense, init_dense, init_mlp, mlp, part
from coda_jax.types import Array, Observation

ANCHORS = 4
_WIDTH = 64
_SAME_NAME = 1e-4  # squared distance of unit embeddings; "red mug" and "blue mug" are 0.3 apart
_BASE_PER_M = 4.0  # positions in the base frame ("in the middle of the table")


def init(key: jax.Array, text_dim: int, multi_scale: bool, key_dim: int, named: int) -> dict:
    """Parameters for ``named`` heads. Anchors begin where names resemble the instruction: their two projections start equal."""
    keys = jax.random.split(key, 3)
    described = features.TOKEN_DIM[multi_scale] + 3 + ANCHORS * (9 if multi_scale else 3)
    anchors = init_dense(keys[0], text_dim, ANCHORS * key_dim)
    return {
        "mention": anchors,
        "name": jax.tree.map(jnp.copy, anchors),
        "sharpness": jnp.full((ANCHORS,), np.log(10.0), jnp.float32),
        "query": init_dense(keys[1], text_dim, named * key_dim),
        "token": init_mlp(keys[2], (described, _WIDTH, key_dim)),
    }


def of_heads(params: dict, heads: int) -> dict:
    """The parameters of the first ``heads`` named heads."""
    width = heads * params["token"][-1]["b"].shape[-1]
    return {**params, "query": part(params["query"], outputs=slice(width))}


def same_name(text: Array, present: Array) -> Array:
    """[b, o, o] bool: two present tokens carry one name, or they are one token. text: [b, o, d] unit embeddings."""
    length = jnp.square(text).sum(-1)
    apart = length[:, :, None] + length[:, None] - 2.0 * jnp.einsum("bod,bpd->bop", text, text)
    both = present[:, :, None] & present[:, None]
    return jnp.eye(text.shape[1], dtype=bool) | (both & (apart < _SAME_NAME))


def doubled(text: Array, present: Array, chosen: Array) -> Array:
    """[b] bool: another token carries the name of one of the ``chosen`` [b, o]."""
    return ((same_name(text, present).sum(-1) > 1) & chosen).any(-1)


def anchor_attention(params: dict, obs: Observation) -> Array:
    """Attention [b, ANCHORS, o] of the anchors over the present tokens, by words."""

    mention, names = (
        grounding.unit_heads(dense(params[layer], text), ANCHORS) for layer, text in (("mention", obs.instruction), ("name", obs.text))
    )
    scores = jnp.einsum("bak,boak->bao", mention, names)
    scores = jnp.where(obs.present[:, None], scores * jnp.exp(params["sharpness"])[:, None], grounding.ABSENT)
    return jax.nn.softmax(scores, axis=-1)


def scores(params: dict, obs: Observation, tokens: Array, multi_scale: bool) -> Array:
    """Logits [b, named, o] of every token by its relations. tokens: [b, o, f] ``features.token_features``."""
    anchors = anchor_attention(params, obs)
    apart = features.multi_scale(obs.pos[:, None] - obs.pos[:, :, None], multi_scale)  # [b, o, p, 9], in the base frame, as words are
    around = jnp.einsum("bap,bopf->boaf", anchors, apart).reshape(*tokens.shape[:2], -1)
    keys = mlp(params["token"], jnp.concatenate([tokens, _BASE_PER_M * obs.pos, around], axis=-1))
    queries = dense(params["query"], obs.instruction).reshape(tokens.shape[0], -1, keys.shape[-1])
    return jnp.einsum("bhk,bok->bho", queries, keys) * keys.shape[-1] ** -0.5


def among_equals(by_name: Array, by_relation: Array, same: Array) -> Array:
    """Logits [b, named, o] whose softmax gives each name what ``by_name`` does, divided by ``by_relation`` among the tokens of that name.

    same: [b, o, o] (``same_name``).
    """
    rivals = jnp.where(same[:, None], by_relation[:, :, None], grounding.ABSENT)
    return by_name + by_relation - jax.nn.logsumexp(rivals, axis=-1)


def named_scores(params: Any, by_name: Array, obs: Observation, tokens: Array, multi_scale: bool) -> Array:
    """``by_name`` [b, named, o], decided by relations where several tokens carry one name."""
    return among_equals(by_name, scores(params, obs, tokens, multi_scale), same_name(obs.text, obs.present))
