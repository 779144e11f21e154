"""Advantage-weighted updates of the policy (METHOD 4; AWR: Peng et al. 2019, arXiv 1910.00177).

Weights of decisions are computed once for the whole table; updates then draw demonstrations at weight 1 beside the policy's own decisions.
The loss is E[w * mask * ||v - (a - eps)||^2] as it stands, not divided by the mean weight: the weights of one batch would then decide how
much its demonstrations count, and a weight would no longer say what a decision counts beside a demonstration. The mean weight is a metric.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import optax

from coda_jax.learning import dataset as dataset_lib
from coda_jax.learning.experience import SOURCES, Experience, chunk_batch, rows_of
from coda_jax.learning.policies import grounding
from coda_jax.learning.policies.base import ChunkBatch, Params, mixed
from coda_jax.learning.policies.flow import FlowPolicy, flow_matching
from coda_jax.learning.shares import rounded
from coda_jax.learning.steps import Training, TrainState, descend, language_loss
from coda_jax.types import Array, _pytree

IMPROVE = ("awr", "filtered", "frozen")
ADVANTAGES = ("critic", "trajectory")
UNITS = ("std", "raw")
LEAST_DEMONSTRATIONS = 0.25  # of a batch (METHOD 4)
WEIGHT_METRICS = ("ess", "weight_share", "clipped", "mean_weight", "advantage_sd", "advantage_sd_ema", "decisions")
METRICS = ("loss", "motor_demonstrations", "motor_decisions", "grounding", "language", "drift", "mean_weight", "gradient_norm")


@dataclasses.dataclass(frozen=True)
class Awr:
    """Settings of policy improvement (defaults in config.py); hashable, a static argument of jit.

    improve: ``awr``; ``filtered``, cloning of decisions of successful episodes; ``frozen``, no update at all, only the actor selects.
    advantage: ``critic`` is Q - V; ``trajectory`` is critic/traces.py with ``trace`` in [0, 1].
    advantage_unit: ``std`` divides advantages by their running standard deviation, ``raw`` leaves them. temperature: lambda.
    most_weight: w_max. least_sd: floor of the standard deviation, without which a flat critic's noise would become weights.
    sd_decay: of the running standard deviation, from one measurement of the table to the next.
    shares: of a batch's chunks, by SOURCES; demonstrations at least a quarter. drift_weight: of the mean squared difference between the
    velocities of policy and clone.
    """

    improve: str
    advantage: str
    trace: float
    advantage_unit: str
    temperature: float
    most_weight: float
    least_sd: float
    sd_decay: float
    shares: tuple[float, float, float, float]
    drift_weight: float

    def __post_init__(self):
        if self.improve not in IMPROVE:
            raise ValueError(f"awr.improve is {self.improve!r}; use one of: {', '.join(IMPROVE)}")
        if self.advantage_unit not in UNITS:
            raise ValueError(f"awr.advantage_unit is {self.advantage_unit!r}; use one of: {', '.join(UNITS)}")
        if self.advantage not in ADVANTAGES:
            raise ValueError(f"awr.advantage is {self.advantage!r}; use one of: {', '.join(ADVANTAGES)}")
        if not 0 <= self.trace <= 1:
            raise ValueError(f"awr.trace is {self.trace}; it must be in [0, 1]")
        for name in ("temperature", "least_sd"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"awr.{name} is {getattr(self, name)}; it must be above 0")
        if not 1 <= self.most_weight < math.inf:
            raise ValueError(f"awr.most_weight is {self.most_weight}; it must be at least 1, the weight of a demonstration")
        if not 0 <= self.sd_decay < 1:
            raise ValueError(f"awr.sd_decay is {self.sd_decay}; it must be in [0, 1)")
        if not 0 <= self.drift_weight < math.inf:
            raise ValueError(f"awr.drift_weight is {self.drift_weight}; it must be at least 0")
        if len(self.shares) != len(SOURCES) or min(self.shares) < 0 or abs(sum(self.shares) - 1) > 1e-6:
            raise ValueError(f"awr.shares is {self.shares}; it must be {len(SOURCES)} shares of {', '.join(SOURCES)} that sum to 1")
        if self.shares[0] < LEAST_DEMONSTRATIONS:
            raise ValueError(f"awr.shares gives demonstrations {self.shares[0]}; they must get at least {LEAST_DEMONSTRATIONS} of a batch")

    def counts(self, batch: int) -> tuple[int, ...]:
        """Chunks of a batch from each of SOURCES; demonstrations get their least share in whole chunks."""
        return rounded(self.shares, batch, LEAST_DEMONSTRATIONS)


@_pytree
class Spread:
    """Running standard deviation of the policy's advantages. sd: []. seen: [] int32, measurements so far (0: sd says nothing)."""

    sd: Array
    seen: Array


def init_spread() -> Spread:
    return Spread(sd=jnp.zeros(()), seen=jnp.zeros((), jnp.int32))


@jax.jit
def own_rows(experience: Experience) -> Array:
    """[n] bool: rows that begin a transition of the policy itself, not of a demonstration."""
    place = jnp.arange(experience.order.shape[0])
    own = (place >= experience.offsets[1]) & (place < experience.offsets[-1])
    return jnp.zeros(experience.order.shape, bool).at[experience.order].max(own)


def successful_rows(experience: Experience) -> Array:
    """[n] bool: rows of episodes that end in nu."""
    ends = jax.ops.segment_max(experience.terminal.astype(jnp.int32), experience.episode, experience.code.shape[0])
    return ends[experience.episode] > 0


def measure_spread(awr: Awr, spread: Spread, advantages: Array, own: Array) -> Spread:
    """The running standard deviation after one more table: of advantages [n] where ``own`` [n]; unchanged without such rows."""
    count = own.sum()
    mean = jnp.where(own, advantages, 0.0).sum() / jnp.maximum(count, 1)
    sd = jnp.sqrt(jnp.where(own, jnp.square(advantages - mean), 0.0).sum() / jnp.maximum(count, 1))
    moved = jnp.where(spread.seen == 0, sd, awr.sd_decay * spread.sd + (1 - awr.sd_decay) * sd)
    return Spread(sd=jnp.where(count > 0, moved, spread.sd), seen=spread.seen + (count > 0))


def exponents(awr: Awr, spread: Spread, advantages: Array) -> Array:
    """A / lambda [n], with A in the unit of the settings."""
    scale = jnp.maximum(spread.sd, awr.least_sd) if awr.advantage_unit == "std" else 1.0
    return advantages / scale / awr.temperature


def advantage_weights(awr: Awr, spread: Spread, advantages: Array) -> Array:
    """min(exp(A / lambda), w_max), [n]; the minimum is taken before exp so that nothing overflows."""
    return jnp.exp(jnp.minimum(exponents(awr, spread, advantages), math.log(awr.most_weight)))


def effective_share(weights: Array, own: Array) -> Array:
    """(sum w)^2 / (n sum w^2), [] in [0, 1]: 1 when all count alike, k/n when k count alike and the rest nothing."""
    w = jnp.where(own, weights, 0.0)
    return jnp.square(w.sum()) / jnp.maximum(own.sum() * jnp.square(w).sum(), 1e-30)


def entropy_share(weights: Array, own: Array) -> Array:
    """exp(entropy of w / sum w) / n, [] in [0, 1]: another count of those that take part, less ruled by the largest weights."""
    w = jnp.where(own, weights, 0.0)
    p = w / jnp.maximum(w.sum(), 1e-30)
    entropy = -jnp.where(p > 0, p * jnp.log(jnp.where(p > 0, p, 1.0)), 0.0).sum()
    return jnp.where(w.sum() > 0, jnp.exp(entropy), 0.0) / jnp.maximum(own.sum(), 1)


@functools.partial(jax.jit, static_argnames=("awr",))
def decision_weights(awr: Awr, spread: Spread, experience: Experience, advantages: Array) -> tuple[Array, Spread, Array]:
    """Weights [n] of the table's rows, the next running standard deviation, and WEIGHT_METRICS over the policy's own decisions.

    Rows of demonstrations and rows that begin no transition get weight 1. advantages: [n] of every row.
    """
    own = own_rows(experience)
    spread = measure_spread(awr, spread, advantages, own)
    count = jnp.maximum(own.sum(), 1)
    if awr.improve == "filtered":
        weights, clipped = successful_rows(experience).astype(jnp.float32), jnp.zeros(())
    else:
        weights = advantage_weights(awr, spread, advantages)
        clipped = (own & (exponents(awr, spread, advantages) > math.log(awr.most_weight))).sum() / count
    weights = jnp.where(own, weights, 1.0)
    mean = jnp.where(own, weights, 0.0).sum() / count
    now = measure_spread(awr, init_spread(), advantages, own)
    values = (effective_share(weights, own), entropy_share(weights, own), clipped, mean, now.sd, spread.sd, own.sum())
    return weights, spread, jnp.stack([jnp.asarray(v, jnp.float32) for v in values])


def drawn(
    demos: dataset_lib.Dataset,
    experience: Experience,
    counts: Array,
    weights: Array,
    demo_key: jax.Array,
    rows_key: jax.Array,
    n: int,
    h: int,
) -> tuple[ChunkBatch, Array, Array]:
    """``n`` chunks of ``h`` steps, their weights [n], and which of them are demonstrations [n]: the first counts[0] (traced)."""
    shown = jnp.arange(n) < counts[0]
    rows = jnp.roll(rows_of(experience, rows_key, counts.at[0].set(0), n), counts[0])  # those of the first slots are not used
    batch = mixed(shown, dataset_lib.draw(demos, demo_key, n, h), chunk_batch(experience, rows))
    return batch, jnp.where(shown, 1.0, weights[rows]), shown


def policy_step(
    policy: FlowPolicy,
    training: Training,
    awr: Awr,
    state: TrainState,
    demos: dataset_lib.Dataset,
    experience: Experience,
    counts: Array,
    weights: Array,
    clone_params: Params,
    language: grounding.LanguageSet | None,
    key: jax.Array,
) -> tuple[TrainState, Array]:
    """One update with ``key`` folded with the step; returns the state and METRICS. See :func:`policy_steps`."""
    demo_key, rows_key, loss_key, language_key = jax.random.split(jax.random.fold_in(key, state.step), 4)
    batch, w, shown = drawn(demos, experience, counts, weights, demo_key, rows_key, training.batch, policy.chunk)

    def mean(values: Array, where: Array) -> Array:
        return jnp.where(where, values, 0.0).sum() / jnp.maximum(where.sum(), 1)

    def objective(params):
        velocity, wanted, scores = policy.velocities(params, batch, loss_key)
        anchor, _, _ = policy.velocities(clone_params, batch, loss_key)  # the same key: the same x_u, u and hidden tokens
        drift = jnp.square(velocity - jax.lax.stop_gradient(anchor)).mean()
        motor = flow_matching(velocity, wanted, batch.mask)
        words = policy.grounding_loss(scores, batch).mean()
        sentences = language_loss(training, params, language, language_key)
        total = (w * motor).mean() + policy.grounding_weight * words + training.language_weight * sentences
        total = total + awr.drift_weight * drift
        return total, (total, mean(motor, shown), mean(motor, ~shown), words, sentences, drift, mean(w, ~shown))

    state, measured, gradient = descend(policy, training, state, objective)
    return state, jnp.stack([*measured, optax.tree.norm(gradient)])


@functools.partial(jax.jit, static_argnames=("policy", "training", "awr"), donate_argnames=("state",))
def policy_steps(
    policy: FlowPolicy,
    training: Training,
    awr: Awr,
    state: TrainState,
    demos: dataset_lib.Dataset,
    experience: Experience,
    counts: Array,
    weights: Array,
    clone_params: Params,
    language: grounding.LanguageSet | None,
    key: jax.Array,
    count: Array,
) -> tuple[TrainState, Array]:
    """``count`` (traced: any number, one executable) updates without leaving the device; returns the mean METRICS.

    Demonstrations come from ``demos``, where every control step starts a chunk of clean labels, not from the table's rows, which hold what
    was carried out under noise. Masked steps of a decision were never carried out: only the drift guard sees them. ``drift`` is a square in
    standardised actions, whose spread between decisions is 1: its root has the unit of the scale doctor's.

    Args:
      counts: [len(SOURCES)] int32, chunks of a batch from each source (``Awr.counts``), traced. weights: [n] of the table's rows
        (:func:`decision_weights`). clone_params: of the policy that drift is measured from, with the action statistics of ``state``.

    Raises:
      ValueError: ``awr.improve`` is "frozen".
    """
    if awr.improve == "frozen":
        raise ValueError("awr.improve is 'frozen': such a policy is not trained; leave the updates out, or set awr or filtered")

    def body(_, carry):
        inner, total = carry
        inner, measured = policy_step(policy, training, awr, inner, demos, experience, counts, weights, clone_params, language, key)
        return inner, total + measured

    state, total = jax.lax.fori_loop(0, count, body, (state, jnp.zeros(len(METRICS))))
    return state, total / count
