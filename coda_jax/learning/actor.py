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
import numpy as np

from coda_jax.learning.critic.arrays import namespace
from coda_jax.learning.critic.batch import ProgramInput
from coda_jax.learning.critic.network import Critic
from coda_jax.learning.experience import Experience
from coda_jax.learning.policies.averaging import average_chunks
from coda_jax.learning.policies.base import Params
from coda_jax.learning.policies.flow import FlowPolicy
from coda_jax.types import Array, Observation, _pytree

MODES = ("sample", "argmax", "average", "policy")
UNITS = ("std", "raw")
_SELECTION = 7  # what a decision's key is folded with for the choice; the proposals use the key itself


@dataclasses.dataclass(frozen=True)
class Actor:
    """Settings of the actor (defaults in config.py); hashable, a static argument of jit.

    mode: ``sample`` one candidate by its weight, ``argmax`` the best, ``average`` all of them, ``policy`` one chunk without a critic.
    candidates: J. temperature: T, in units of Q (``raw``) or of Q's standard deviation over the candidates of a state (``std``).
    least_sd: floor of that standard deviation, so that a flat critic's noise decides nothing.
    """

    mode: str
    candidates: int
    temperature: float
    temperature_unit: str
    least_sd: float

    def __post_init__(self):
        if self.mode not in MODES:
            raise ValueError(f"actor.mode is {self.mode!r}; use one of: {', '.join(MODES)}")
        if self.temperature_unit not in UNITS:
            raise ValueError(f"actor.temperature_unit is {self.temperature_unit!r}; use one of: {', '.join(UNITS)}")
        if self.candidates < 1:
            raise ValueError(f"actor.candidates is {self.candidates}; it must be at least 1")
        for name in ("temperature", "least_sd"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"actor.{name} is {getattr(self, name)}; it must be above 0")


@_pytree
class Selection:
    """How ``b`` decisions were taken.

    q: [b, j] values of the candidates. weights: [b, j] of the temperature. chosen: [b] int32 candidate, -1 for their average.
    value: [b] Q of what is carried out. effective: [b] 1 / sum w^2, how many candidates the temperature leaves.
    spread: [b] root mean square distance of the candidates' motion, in the steps carried out, from its mean over them, action units.
    departure: [b] the same distance of what is carried out: as far over many decisions where candidates are sampled, near 0 where averaging
    has emptied the exploration.
    """

    q: Array
    weights: Array
    chosen: Array
    value: Array
    effective: Array
    spread: Array
    departure: Array


def selection_logits(actor: Actor, q: Array, temperatures: Array | None = None) -> Array:
    """Q / T [b, j] in the unit of the settings; numpy or jax. temperatures: [b], T of each decision, that of the settings where None."""
    t = actor.temperature if temperatures is None else temperatures[:, None]
    if actor.temperature_unit == "raw":
        return q / t
    return q / (t * namespace(q).maximum(q.std(-1, keepdims=True), actor.least_sd))


def effective_candidates(weights: Array) -> Array:
    """1 / sum w^2 [b]: J where all weigh alike, 1 where one has all."""
    return 1.0 / jnp.square(weights).sum(-1)


def choose(actor: Actor, q: Array, chunks: Array, keys: Array, temperatures: Array | None = None) -> tuple[Array, Array, Array]:
    """The chunk to carry out [b, h, 7], its number [b] (-1: the average) and the weights [b, j]. q: [b, j]. keys, temperatures: [b].

    Clipped chunks come back: those that the simulator would carry out and that the critic was asked about.
    """
    logits = selection_logits(actor, q, temperatures)
    weights = jax.nn.softmax(logits, axis=-1)
    chunks = jnp.clip(chunks, -1.0, 1.0)
    if actor.mode == "average":
        return jnp.clip(average_chunks(chunks, weights), -1.0, 1.0), jnp.full(q.shape[:1], -1, jnp.int32), weights
    if actor.mode == "argmax":
        chosen = q.argmax(-1)
    else:
        draw = jax.vmap(lambda key, row: jax.random.categorical(jax.random.fold_in(key, _SELECTION), row))
        chosen = draw(keys, logits)
    return jnp.take_along_axis(chunks, chosen[:, None, None, None], axis=1)[:, 0], chosen.astype(jnp.int32), weights


def motion_spread(chunks: Array, carried_out: Array, executed: int) -> tuple[Array, Array]:
    """``spread`` and ``departure`` [b] of Selection, over the first ``executed`` steps. chunks: [b, j, h, 7]; carried_out: [b, h, 7]."""
    motion = chunks[:, :, :executed, :6]
    mean = motion.mean(1)
    spread = jnp.sqrt(jnp.square(motion - mean[:, None]).sum((-2, -1)).mean(1))
    return spread, jnp.sqrt(jnp.square(carried_out[:, :executed, :6] - mean).sum((-2, -1)))


@functools.partial(jax.jit, static_argnames=("actor", "policy", "critic"))
def act(
    actor: Actor,
    policy: FlowPolicy,
    params: Params,
    critic: Critic,
    critic_params: Params,
    obs: Observation,
    program: ProgramInput,
    keys: Array,
    temperatures: Array | None = None,
    roles: Array | None = None,
) -> tuple[Array, Selection]:
    """One chunk [b, h, 7] for each of ``b`` worlds, and how it was chosen; one executable for b and J.

    A world's chunk depends on its own observation, program and key alone. The critic judges as many steps as it was trained to
    (``critic.executed``), of clipped chunks, as in its training.

    Args:
      program: where the worlds' training programs stand: a program that the critic has met in training, success alone being one of them
        only where some of its episodes had none (:func:`check_met`). keys: [b] of this decision. temperatures: [b], T of each world where
        it is not that of the settings (the learning tool ``candidate_temperature``). roles: [b, ROLES], see FlowPolicy.sample.

    Raises:
      ValueError: the mode is "policy", which needs no critic: sample the policy itself.
    """
    if actor.mode == "policy":
        raise ValueError("actor.mode is 'policy', which asks no critic: use policy.sample with one candidate")
    chunks = policy.sample(params, obs, keys, actor.candidates, roles)
    mask = critic.candidate_mask()
    q = critic.q(critic_params, obs, program, jnp.clip(chunks, -1.0, 1.0), mask)
    chunk, chosen, weights = choose(actor, q, chunks, keys, temperatures)
    if actor.mode == "average":
        value = critic.q(critic_params, obs, program, chunk[:, None], mask)[:, 0]  # XLA encodes the state once for both
    else:
        value = jnp.take_along_axis(q, chosen[:, None], axis=1)[:, 0]
    spread, departure = motion_spread(jnp.clip(chunks, -1.0, 1.0), chunk, critic.executed)
    return chunk, Selection(q, weights, chosen, value, effective_candidates(weights), spread, departure)


def check_met(experience: Experience, code: Array) -> None:
    """Refuse to act under a program that no episode of the critic's training had: its values there are guesses.

    code: [CODE_DIM] of the program (zeros: success alone).

    Raises:
      ValueError: it says which codes there are and what to change.
    """
    codes = np.asarray(experience.code)[np.unique(np.asarray(experience.episode)[: int(experience.size)])]
    if not (codes == np.asarray(code)).all(-1).any():
        met = len(np.unique(codes, axis=0))
        raise ValueError(
            f"the critic has met {met} programs in training, and not this one: act under one of those, or add episodes labelled by it"
            + (" (it is success alone: label some episodes, demonstrations say, without a program)" if not np.any(code) else "")
        )
