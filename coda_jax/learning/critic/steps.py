"""Jitted training steps of the critic: pure functions of (settings, state, data)."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import optax

from coda_jax.learning.critic import targets
from coda_jax.learning.critic.backup import Backup
from coda_jax.learning.critic.batch import CriticBatch
from coda_jax.learning.critic.network import Critic, StateInput
from coda_jax.learning.policies.base import Params
from coda_jax.types import Array, _pytree

METRICS = (
    "loss",  # cross-entropy, nats
    "clip_share",  # of the targets, outside the support's range
    "entropy",  # of the predicted distribution, nats
    "bias",  # decoded value minus target, mean
    "candidate_spread",  # standard deviation over the candidates of x', mean
    "effective_candidates",  # mean 1 / sum w_j^2, w = softmax(Q / T) at the actor's temperature
    "gradient_norm",  # before clipping
    "at_ends",  # share of the clipped targets within half a bin of the range's ends
    "edge_mass",  # predicted probability in the first and the last bin, mean
    "bins_used",  # share of the bins with at least a tenth of a uniform bin's probability, averaged over the batch
)


@dataclasses.dataclass(frozen=True)
class CriticTraining:
    """Settings of training (defaults in config.py); hashable, a static argument of jit.

    rule: of the targets. backup: B. learning_rate: after ``warmup`` steps. tau: of the target network's moving average.
    temperature: the actor's, for the metric of effective candidates, and temperature_unit: "raw" or "std" (of a state's candidates).
    """

    rule: targets.Rule
    backup: Backup
    learning_rate: float
    warmup: int
    weight_decay: float
    clip_norm: float
    tau: float
    temperature: float
    temperature_unit: str

    def __post_init__(self):
        if self.warmup < 0:
            raise ValueError(f"critic.warmup is {self.warmup}; it must be at least 0")
        if not 0 < self.tau <= 1:
            raise ValueError(f"critic.tau is {self.tau}; it must be above 0 and at most 1")
        if not self.temperature > 0 or self.temperature_unit not in ("raw", "std"):
            raise ValueError(f'actor.temperature is {self.temperature} "{self.temperature_unit}"; above 0, in units of "raw" or "std"')


@_pytree
class CriticState:
    """params: learned. target: moving average of ``params["net"]``. opt: the optimiser's state. step: [] int32."""

    params: Params
    target: Params
    opt: Any
    step: Array


class Source(Protocol):
    """Where batches come from: ``draw(data, key)`` gives ``b`` transitions. Hashable, a static argument of jit."""

    def __call__(self, data: Any, key: jax.Array) -> CriticBatch: ...


def optimiser(critic: Critic, training: CriticTraining, params: Params) -> optax.GradientTransformation:
    """AdamW with warm-up on what the critic calls trainable; the rest does not move."""
    rate = optax.linear_schedule(0.0, training.learning_rate, training.warmup) if training.warmup else training.learning_rate
    chain = optax.chain(optax.clip_by_global_norm(training.clip_norm), optax.adamw(rate, weight_decay=training.weight_decay))
    learn = optax.flatten(chain)  # one vector instead of 70 small arrays: a tenth of a CPU's step
    labels = jax.tree.map(lambda on: "learn" if on else "keep", critic.trainable(params))
    return optax.partition({"learn": learn, "keep": optax.set_to_zero()}, labels)


def init_state(critic: Critic, training: CriticTraining, params: Params) -> CriticState:
    """State before the first update; parameters become strongly typed, or the second call would compile again."""
    params = jax.tree.map(lambda x: jnp.array(x, x.dtype), params)
    return CriticState(
        params=params,
        target=jax.tree.map(jnp.copy, params["net"]),  # copies: both are donated to the update
        opt=optimiser(critic, training, params).init(params),
        step=jnp.zeros((), jnp.int32),
    )


@_pytree
class Inputs:
    """A batch before any weight that learns: both states, the executed chunk [b, 1, e, 7] with its mask [b, 1, h], the candidates of x'
    [b, j, e, 7]."""

    state: StateInput
    chunk: Array
    mask: Array
    next_state: StateInput
    next_chunks: Array


def inputs(critic: Critic, params: Params, batch: CriticBatch, key: jax.Array) -> Inputs:
    """Features of both ends of the transitions in one pass; ``key`` draws the stand-ins of chunks that success cut short."""
    b = len(batch.phi)
    here, there = (batch.obs, batch.program), (batch.next_obs, batch.next_program)
    both = critic.read(params, *jax.tree.map(lambda x, y: jnp.concatenate([x, y]), here, there))
    state, next_state = jax.tree.map(lambda x: x[:b], both), jax.tree.map(lambda x: x[b:], both)
    executed, mask = critic.read_chunk(batch, jax.random.randint(key, (b,), 0, batch.candidates.shape[1]))
    actions = jnp.concatenate([executed[:, None], batch.next_candidates], axis=1)
    heading = jnp.broadcast_to(next_state.heading[:, None], actions.shape[:2]).at[:, 0].set(state.heading)
    chunks: Array = critic.chunk_input(params, heading, actions)
    return Inputs(state=state, chunk=chunks[:, :1], mask=mask[:, None], next_state=next_state, next_chunks=chunks[:, 1:])


def candidate_values(critic: Critic, params: Params, target: Params, given: Inputs) -> Array:
    """Q_ema [b, j] of the candidates of x'."""
    averaged = {**params, "net": target}
    mask = jnp.broadcast_to(critic.candidate_mask(), (*given.next_chunks.shape[:2], critic.chunk))
    return critic.support.decode(critic.logits(averaged, critic.encode(averaged, given.next_state), given.next_chunks, mask))


def fit(critic: Critic, params: Params, given: Inputs, y: Array) -> tuple[Array, Array]:
    """Cross-entropy [] of the executed chunks' values with the projected targets y [b], and the logits [b, v]."""
    logits = critic.logits(params, critic.encode(params, given.state), given.chunk, given.mask)[:, 0]
    return -(critic.support.project(y) * jax.nn.log_softmax(logits)).sum(-1).mean(), logits


def critic_step(
    critic: Critic, training: CriticTraining, draw: Source, state: CriticState, data: Any, key: jax.Array
) -> tuple[CriticState, Array]:
    """One update with ``key`` folded with the step; returns the state and METRICS."""
    draw_key, fill_key = jax.random.split(jax.random.fold_in(key, state.step))
    batch = draw(data, draw_key)
    given = inputs(critic, state.params, batch, fill_key)
    candidates = candidate_values(critic, state.params, state.target, given)
    y = targets.targets(training.rule, batch.rewards, batch.mask, batch.terminal, batch.phi, batch.next_phi, training.backup(candidates))
    y, clipped = critic.support.clip(y)
    (loss, logits), gradient = jax.value_and_grad(lambda p: fit(critic, p, given, y), has_aux=True)(state.params)
    state = updated(critic, training, state, gradient)
    return state, metrics(critic, training, loss, logits, y, clipped, candidates, optax.tree.norm(gradient["net"]))


def updated(critic: Critic, training: CriticTraining, state: CriticState, gradient: Params) -> CriticState:
    """The state after one update of the parameters and of their moving average."""
    updates, opt = optimiser(critic, training, state.params).update(gradient, state.opt, state.params)
    params = jax.tree.map(jnp.add, state.params, updates)
    target = jax.tree.map(lambda t, p: t + training.tau * (p - t), state.target, params["net"])
    return CriticState(params=params, target=target, opt=opt, step=state.step + 1)


def metrics(
    critic: Critic,
    training: CriticTraining,
    loss: Array,
    logits: Array,
    y: Array,
    clipped: Array,
    candidates: Array,
    gradient_norm: Array,
) -> Array:
    """METRICS of one update, [len(METRICS)]."""
    logp = jax.nn.log_softmax(logits)
    p = jnp.exp(logp)
    spread = candidates.std(-1)
    scale = training.temperature * (spread[:, None] + 1e-6 if training.temperature_unit == "std" else 1.0)
    effective = 1.0 / jnp.square(jax.nn.softmax(candidates / scale)).sum(-1)
    values = {
        "loss": loss,
        "clip_share": clipped.mean(),
        "entropy": -(p * logp).sum(-1).mean(),
        "bias": (critic.support.decode(logits) - y).mean(),
        "candidate_spread": spread.mean(),
        "effective_candidates": effective.mean(),
        "gradient_norm": gradient_norm,
        "at_ends": (jnp.minimum(y - critic.support.low, critic.support.high - y) < critic.support.width / 2).mean(),
        "edge_mass": (p[:, 0] + p[:, -1]).mean(),
        "bins_used": (p.mean(0) > 0.1 / critic.support.bins).mean(),
    }
    return jnp.stack([values[name] for name in METRICS])


@functools.partial(jax.jit, static_argnames=("critic", "training", "draw"), donate_argnames=("state",))
def critic_steps(
    critic: Critic, training: CriticTraining, draw: Source, state: CriticState, data: Any, key: jax.Array, count: Array
) -> tuple[CriticState, Array]:
    """``count`` (traced: any number, one executable) updates without leaving the device; returns the mean METRICS."""

    def body(_, carry):
        inner, total = carry
        inner, row = critic_step(critic, training, draw, inner, data, key)
        return inner, total + row

    state, total = jax.lax.fori_loop(0, count, body, (state, jnp.zeros(len(METRICS))))
    return state, total / count
