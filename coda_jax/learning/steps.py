"""Jitted training steps of the policy: pure functions of (settings, state, data)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import optax

from coda_jax.learning import dataset as dataset_lib
from coda_jax.learning import lora
from coda_jax.learning.pictures import Seen
from coda_jax.learning.policies import grounding
from coda_jax.learning.policies.base import Params
from coda_jax.learning.policies.flow import FlowPolicy
from coda_jax.types import Array, _pytree

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Training:
    """Settings of cloning (defaults in config.py); hashable, a static argument of jit.

    steps: updates in all, over which the rate falls by a cosine. batch: chunks. learning_rate: peak, after ``warmup`` steps.
    ema: decay of the averaged parameters that act. language_batch: instructions without a scene in each step (0: none).
    language_weight: of their loss.
    """

    steps: int
    batch: int
    learning_rate: float
    warmup: int
    weight_decay: float
    clip_norm: float
    ema: float
    language_batch: int
    language_weight: float

    def __post_init__(self):
        if self.steps < 1 or self.batch < 1:
            raise ValueError(f"training.steps is {self.steps} and training.batch {self.batch}; both must be at least 1")
        if not 0 <= self.ema < 1:
            raise ValueError(f"training.ema is {self.ema}; it must be in [0, 1)")
        if self.warmup >= self.steps:
            raise ValueError(f"training.warmup is {self.warmup}; it must be below training.steps ({self.steps})")


@_pytree
class TrainState:
    """params: learned. ema: their running average, what acts. opt: the optimiser's state. step: [] int32."""

    params: Params
    ema: Params
    opt: Any
    step: Array


def learned(policy: FlowPolicy, params: Params) -> Any:
    """A tree like ``params`` of bools: what updates change. Adapters alone where there are any, else what the policy calls trainable."""
    return lora.trainable(params) if lora.targeted(params) else policy.trainable(params)


def optimiser(policy: FlowPolicy, training: Training, params: Params) -> optax.GradientTransformation:
    """AdamW with warm-up and cosine on what is ``learned``; the rest does not move and has no state."""
    rate = optax.warmup_cosine_decay_schedule(0.0, training.learning_rate, training.warmup, training.steps, 0.02 * training.learning_rate)
    learn = optax.chain(optax.clip_by_global_norm(training.clip_norm), optax.adamw(rate, weight_decay=training.weight_decay))
    labels = jax.tree.map(lambda on: "learn" if on else "keep", learned(policy, params))
    learn = optax.flatten(learn)  # one vector instead of dozens of matrices: a twentieth of a CPU's step
    return optax.partition({"learn": learn, "keep": optax.set_to_zero()}, labels)


def init_state(policy: FlowPolicy, training: Training, params: Params) -> TrainState:
    """State before the first update; parameters become strongly typed, or the second call would compile again."""
    params = jax.tree.map(lambda x: jnp.asarray(x, x.dtype), params)
    return TrainState(
        params=params,
        ema=jax.tree.map(jnp.copy, params),  # copies: both are donated to the update
        opt=optimiser(policy, training, params).init(params),
        step=jnp.zeros((), jnp.int32),
    )


def descend(
    policy: FlowPolicy, training: Training, state: TrainState, objective: Callable[[Params], tuple[Array, T]]
) -> tuple[TrainState, T, Params]:
    """One update along the gradient of ``objective`` (parameters to a loss and what it measured): new state, measured, gradient."""
    on = learned(policy, state.params)

    def of_learned(params):
        return objective(jax.tree.map(lambda p, on: p if on else jax.lax.stop_gradient(p), params, on))

    gradient, measured = jax.grad(of_learned, has_aux=True)(state.params)
    updates, opt = optimiser(policy, training, state.params).update(gradient, state.opt, state.params)
    params = optax.apply_updates(state.params, updates)
    decay = jnp.minimum(training.ema, (1.0 + state.step) / (10.0 + state.step))  # a short run must not average in its start
    ema = jax.tree.map(lambda e, p: e + (1 - decay) * (p - e), state.ema, params)
    return TrainState(params=params, ema=ema, opt=opt, step=state.step + 1), measured, gradient


def language_loss(training: Training, params: Params, language: grounding.LanguageSet | None, key: jax.Array) -> Array:
    """Grounding loss [] of ``language_batch`` drawn instructions without a scene; 0 without any."""
    if language is None or not training.language_batch:
        return jnp.zeros(())
    rows = jax.random.randint(key, (training.language_batch,), 0, language.size)
    return grounding.language_loss(params["net"]["grounding"], language, rows).mean()


def train_step(
    policy: FlowPolicy,
    training: Training,
    state: TrainState,
    data: dataset_lib.Dataset,
    language: grounding.LanguageSet | None,
    key: jax.Array,
    seen: Seen | None = None,
) -> tuple[TrainState, Array]:
    """One update with ``key`` folded with the step; returns the state and [motor, grounding, language] losses.

    seen: rows [b] to learn from and their pictures [b, ...]; None draws any rows, without pictures.
    """
    draw_key, loss_key, language_key = jax.random.split(jax.random.fold_in(key, state.step), 3)
    if seen is None:
        batch = dataset_lib.draw(data, draw_key, training.batch, policy.chunk)
    else:
        batch = dataset_lib.gather(data, seen.rows, policy.chunk)
        batch = dataclasses.replace(batch, obs=dataclasses.replace(batch.obs, pixels=seen.pixels))

    def objective(params):
        motor, words = policy.losses(params, batch, loss_key)
        sentences = language_loss(training, params, language, language_key)
        total = motor.mean() + policy.grounding_weight * words.mean() + training.language_weight * sentences
        return total, jnp.stack([motor.mean(), words.mean(), sentences])

    state, losses, _ = descend(policy, training, state, objective)
    return state, losses


@functools.partial(jax.jit, static_argnames=("policy", "training"), donate_argnames=("state",))
def train_steps(
    policy: FlowPolicy,
    training: Training,
    state: TrainState,
    data: dataset_lib.Dataset,
    language: grounding.LanguageSet | None,
    key: jax.Array,
    count: Array,
    seen: Seen | None = None,
) -> tuple[TrainState, Array]:
    """``count`` (traced: any number, one executable) updates without leaving the device; returns the mean losses [3].

    seen: rows and pictures of each update, at least ``count`` of them; None for a policy of states.
    """

    def body(i, carry):
        inner, total = carry
        own = None if seen is None else jax.tree.map(lambda leaf: leaf[i], seen)
        inner, losses = train_step(policy, training, inner, data, language, key, own)
        return inner, total + losses

    state, total = jax.lax.fori_loop(0, count, body, (state, jnp.zeros(3)))
    return state, total / count


@functools.partial(jax.jit, static_argnames=("policy",))
def set_statistics(policy: FlowPolicy, params: Params, data: dataset_lib.Dataset, rows: Array) -> Params:
    """``params`` with action statistics of the chunks that start at ``rows`` [n]."""
    batch = dataset_lib.gather(data, rows, policy.chunk)
    return policy.with_statistics(params, batch.obs, batch.actions, batch.mask)
