"""Which object do the words mean? Instruction queries attend over the tokens' text embeddings.

Two heads of each goal are named: they look for its target and for its reference, see words alone (never geometry), and are trained by
their own loss, on scenes and on language without scenes. Further heads are free and also see boxes and articulation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from coda_jax.learning.policies.layers import dense, init_dense, part
from coda_jax.scenes.families.steps import MOST_GOALS
from coda_jax.types import Array, _pytree

NAMED_HEADS = 2  # of each goal
ROLES = NAMED_HEADS * MOST_GOALS
ABSENT = -1e9


@_pytree
class LanguageSet:
    """Instructions with the names they mean, without any scene; rows beyond ``size`` are padding.

    names: [n, d] embeddings of distinct object names. named: [n] bool, False for padding. instructions: [l, d]. roles: [l, ROLES] int32
    rows of ``names`` (``filled_roles``). size: [] int32, the number of instructions.
    """

    names: Array
    named: Array
    instructions: Array
    roles: Array
    size: Array


@dataclasses.dataclass(frozen=True)
class Phrase:
    """An instruction and the names ("red mug") of its target and reference, and of its second goal's where it has one."""

    instruction: str
    target: str
    reference: str | None
    second: tuple[str, str | None] | None = None

    @property
    def names(self) -> tuple[str | None, ...]:
        return (self.target, self.reference, *(self.second or ()))


def filled_roles(roles: Sequence[int]) -> tuple[int, ...]:
    """Target and reference of each of MOST_GOALS goals (-1: none); a goal that is not there is the last one again.

    Raises:
      ValueError: they are no pairs, or too many.
    """
    if len(roles) not in range(NAMED_HEADS, ROLES + 1, NAMED_HEADS):
        raise ValueError(f"{len(roles)} roles: give target and reference of 1 to {MOST_GOALS} goals")
    return (*roles, *tuple(roles[-NAMED_HEADS:]) * ((ROLES - len(roles)) // NAMED_HEADS))


def language_set(
    phrases: Sequence[Phrase], names: Sequence[str], embed: Callable[[Sequence[str]], np.ndarray], multiple: int
) -> LanguageSet:
    """Embed phrases and the names to tell apart; both are padded to a multiple of ``multiple`` so that few shapes occur.

    Raises:
      ValueError: no phrases, or a phrase's name is not among ``names``.
    """
    if not phrases:
        raise ValueError("a language set needs at least one phrase")
    row = {name: i for i, name in enumerate(dict.fromkeys(names))}
    for phrase in phrases:
        for name in phrase.names:
            if name is not None and name not in row:
                raise ValueError(f"{phrase.instruction!r} means {name!r}, which is not among the {len(row)} names: add it to names")
    roles = [filled_roles([-1 if name is None else row[name] for name in p.names]) for p in phrases]
    n, m = len(row), len(phrases)
    names_padded, phrases_padded = -(-n // multiple) * multiple, -(-m // multiple) * multiple

    def pad(rows: np.ndarray, length: int) -> Array:
        return jnp.asarray(np.concatenate([rows, np.zeros((length - len(rows), *rows.shape[1:]), rows.dtype)]))

    return LanguageSet(
        names=pad(embed(list(row)), names_padded),
        named=jnp.arange(names_padded) < n,
        instructions=pad(embed([p.instruction for p in phrases]), phrases_padded),
        roles=pad(np.asarray(roles, np.int32), phrases_padded),
        size=jnp.asarray(m, jnp.int32),
    )


def init(key: jax.Array, text_dim: int, shape_dim: int, heads: int, named: int, key_dim: int) -> dict:
    """Parameters of ``heads`` heads, the first ``named`` of them named."""
    keys = jax.random.split(key, 4)
    return {
        "query": init_dense(keys[0], text_dim, heads * key_dim),
        "name": init_dense(keys[1], text_dim, heads * key_dim),
        "shape": init_dense(keys[2], shape_dim, (heads - named) * key_dim, scale=0.1),
        "sharpness": jnp.full((heads,), np.log(10.0), jnp.float32),
    }


def _unit(x: Array) -> Array:
    return x * jax.lax.rsqrt(jnp.sum(x * x, axis=-1, keepdims=True) + 1e-6)


def _split(x: Array, heads: int) -> Array:
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)


def unit_heads(keys: Array, heads: int) -> Array:
    """Keys [..., heads * key_dim] as unit vectors [..., heads, key_dim] of each head, as scores compare them."""
    return _unit(_split(keys, heads))


def _named_heads(params: dict) -> int:
    heads = params["sharpness"].shape[0]
    return heads - params["shape"]["w"].shape[1] * heads // params["query"]["w"].shape[1]


def name_keys(params: dict, text: Array) -> Array:
    """Keys [..., heads * key_dim] of embedded names [..., d]."""
    return dense(params["name"], text)


def token_scores(params: dict, instruction: Array, keys: Array, shape: Array, present: Array) -> Array:
    """Attention logits [b, heads, o] of tokens with ``keys`` [b, o, heads * key_dim]; absent tokens get ABSENT."""
    heads, named_heads = params["sharpness"].shape[0], _named_heads(params)
    query = _unit(_split(dense(params["query"], instruction), heads))
    name = _split(keys, heads)
    extra = _split(dense(params["shape"], shape), heads - named_heads)
    named = name + jnp.pad(extra, [(0, 0)] * (extra.ndim - 2) + [(named_heads, 0), (0, 0)])  # the named heads see words alone
    scores = jnp.einsum("bhd,bohd->bho", query, _unit(named)) * jnp.exp(params["sharpness"])[:, None]
    return jnp.where(present[:, None], scores, ABSENT)


def named_scores(params: dict, instruction: Array, keys: Array, present: Array) -> Array:
    """Logits [b, heads, o] of target and reference from ``params`` of the named heads alone; keys: [b, o, heads * key_dim]."""
    heads = params["sharpness"].shape[0]
    query, key = _unit(_split(dense(params["query"], instruction), heads)), _unit(_split(keys, heads))
    scores = (query[:, None] * key).sum(-1) * jnp.exp(params["sharpness"])
    return jnp.where(present[:, None], jnp.swapaxes(scores, 1, 2), ABSENT)


def name_scores(params: dict, instruction: Array, names: Array, named: Array) -> Array:
    """Logits [b, named heads, n] of the roles over a list of names [n, d], by words alone."""
    heads, found = params["sharpness"].shape[0], _named_heads(params)

    def project(layer: str, x: Array) -> Array:
        width = found * (params[layer]["w"].shape[1] // heads)
        return _unit(_split(dense(part(params[layer], outputs=slice(width)), x), found))

    scores = jnp.einsum("bhd,nhd->bhn", project("query", instruction), project("name", names))
    return jnp.where(named, scores * jnp.exp(params["sharpness"][:found])[:, None], ABSENT)


def cross_entropy(scores: Array, roles: Array) -> Array:
    """Mean over the known roles of -log softmax(scores)[role], [b]. scores: [b, r, n]; roles: [b, r or more], -1 for unknown."""
    roles = roles[:, : scores.shape[1]]
    known = roles >= 0
    picked = jnp.take_along_axis(jax.nn.log_softmax(scores, axis=-1), jnp.maximum(roles, 0)[..., None], axis=-1)[..., 0]
    return -jnp.where(known, picked, 0.0).sum(-1) / jnp.maximum(known.sum(-1), 1)


def language_loss(params: dict, language: LanguageSet, rows: Array) -> Array:
    """Cross-entropy [r] of the instructions in ``rows`` [r] over every name of the set."""
    scores = name_scores(params, language.instructions[rows], language.names, language.named)
    return cross_entropy(scores, language.roles[rows])
