"""Acting by the critic: of J chunks that the policy proposes, carry out one, or their average (METHOD 3).

Chunks are compared by w_j = softmax_j(Q_j / T). ``average`` is the paper's actor; its value is that of the average, which none of the
candidates has.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp

from coda_jax.learning.policies.averaging import average_chunks
from coda_jax.learning.critic.batch import ProgramInput
from coda_jax.learning.critic.network import Critic
from coda_jax.learning.policies.base import Params
from coda_jax.learning.policies.flow import FlowPolicy
from coda_jax.types import Array, Observation, _pytree

MODES = ("sample", "argmax", "average", "policy")
UNITS = ("std", "raw")
_SELECTION = 7  # what a decision's key is folded with for the choice; the proposals use the key itself


@dataclasses.dataclass(frozen=True)
class Actor:
    """Settings of the actor (defaults in config.py); hashable, a static argument of jit.

    mode: ``sample`` one candidate by its weight, ``argmax`` the best, ``average`` all of them, ``policy`` the first without a critic.
    candidates: J. temperature: T, in units of Q (``raw``) or of Q's standard deviation over the candidates of a state (``std``).
    least_sd: floor of that standard deviation, so that a flat critic's noise decides nothing.
    executed: e, the steps of a chunk that are carried out and that the critic therefore judges.
    """

    mode: str
    candidates: int
    temperature: float
    temperature_unit: str
    least_sd: float
    executed: int

    def __post_init__(self):
        if self.mode not in MODES:
            raise ValueError(f"actor.mode is {self.mode!r}; use one of: {', '.join(MODES)}")
        if self.temperature_unit not in UNITS:
            raise ValueError(f"actor.temperature_unit is {self.temperature_unit!r}; use one of: {', '.join(UNITS)}")
        for name in ("candidates", "executed"):
            if getattr(self, name) < 1:
                raise ValueError(f"actor.{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("temperature", "least_sd"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"actor.{name} is {getattr(self, name)}; it must be above 0")


@_pytree
class Selection:
    """How ``b`` decisions were taken.

    q: [b, j] values of the candidates. weights: [b, j]. chosen: [b] int32 candidate, -1 for their average. value: [b] Q of what is
    carried out. effective: [b] 1 / sum w^2, how many candidates take part. spread: [b] root mean square distance of the candidates'
    carried-out motion from its mean over them, action units. departure: [b] the same distance of what is carried out. Over many decisions
    root mean square departure / spread is about 1 where candidates are sampled, and 0 where averaging has emptied the exploration.
    """

    q: Array
    weights: Array
    chosen: Array
    value: Array
    effective: Array
    spread: Array
    departure: Array


def selection_logits(actor: Actor, q: Array) -> Array:
    """Q / T [b, j] in the unit of the settings."""
    if actor.temperature_unit == "raw":
        return q / actor.temperature
    return q / (actor.temperature * jnp.maximum(q.std(-1, keepdims=True), actor.least_sd))


def effective_candidates(weights: Array) -> Array:
    """1 / sum w^2 [b]: J where all weigh alike, 1 where one has all."""
    return 1.0 / jnp.square(weights).sum(-1)


def choose(actor: Actor, q: Array, chunks: Array, keys: Array) -> tuple[Array, Array, Array]:
    """The chunk to carry out [b, h, 7], its number [b] (-1: the average) and the weights [b, j]. q: [b, j]. keys: [b]."""
    logits = selection_logits(actor, q)
    weights = jax.nn.softmax(logits, axis=-1)
    if actor.mode == "average":
        return average_chunks(chunks, weights), jnp.full(q.shape[:1], -1, jnp.int32), weights
    if actor.mode == "sample":
        draw = jax.vmap(lambda key, row: jax.random.categorical(jax.random.fold_in(key, _SELECTION), row))
        chosen = draw(keys, logits)
    elif actor.mode == "argmax":
        chosen = q.argmax(-1)
    else:
        chosen = jnp.zeros(q.shape[:1], jnp.int32)
    return jnp.take_along_axis(chunks, chosen[:, None, None, None], axis=1)[:, 0], chosen.astype(jnp.int32), weights


def motion_spread(chunks: Array, carried_out: Array, executed: int) -> tuple[Array, Array]:
    """``spread`` and ``departure`` [b] of Selection, over the first ``executed`` steps. chunks: [b, j, h, 7]; carried_out: [b, h, 7]."""
    motion = chunks[:, :, :executed, :6]
    mean = motion.mean(1)
    spread = jnp.sqrt(jnp.square(motion - mean[:, None]).sum((-2, -1)).mean(1))
    return spread, jnp.sqrt(jnp.square(carried_out[:, :executed, :6] - mean).sum((-2, -1)))
