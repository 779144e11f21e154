"""What becomes of a trained critic when its potential is refined and the table relabelled (METHOD 2): shifted, or its head reset.

Q - beta Phi_old turns into Q - beta Phi_new, so every decoded value has to move by beta (Phi_old - Phi_new). The network reads the
program's stage, so its inputs change too; a shift is therefore fitted: for some steps the targets are the old values, moved, not backups.
"""

from __future__ import annotations

import functools
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from coda_jax.learning.critic import steps
from coda_jax.learning.critic.batch import CriticBatch
from coda_jax.learning.critic.network import Critic
from coda_jax.learning.critic.steps import CriticState, CriticTraining
from coda_jax.types import Array

RELABELLINGS = ("shift", "reset")


class ValuedSource(Protocol):
    """Transitions with the values that their executed chunks should have: ``draw((table, values [n]), key) -> (batch, values [b])``."""

    def __call__(self, data: Any, key: jax.Array) -> tuple[CriticBatch, Array]: ...


def shifted(q: Array, phi: Array, new_phi: Array, beta: float) -> Array:
    """Values [n] of chunks under the new potential, from those under the old one."""
    return q + beta * (phi - new_phi)


@functools.partial(jax.jit, static_argnames=("critic", "training", "draw"), donate_argnames=("state",))
def shift_steps(
    critic: Critic, training: CriticTraining, draw: ValuedSource, state: CriticState, data: Any, key: jax.Array, count: Array
) -> tuple[CriticState, Array]:
    """``count`` (traced) updates towards given values, on the relabelled table; returns the mean loss. The target network follows at once.

    Steps are counted, so that keys stay apart from those of the training that follows.
    """

    def body(_, carry):
        inner, total = carry
        draw_key, fill_key = jax.random.split(jax.random.fold_in(key, inner.step))
        batch, values = draw(data, draw_key)
        y, _ = critic.support.clip(values)
        given = steps.inputs(critic, inner.params, batch, fill_key)
        (loss, _), gradient = jax.value_and_grad(lambda p: steps.fit(critic, p, given, y), has_aux=True)(inner.params)
        return steps.updated(critic, training, inner, gradient), total + loss

    state, total = jax.lax.fori_loop(0, count, body, (state, jnp.zeros(())))
    return CriticState(state.params, jax.tree.map(jnp.copy, state.params["net"]), state.opt, state.step), total / count


def reset(critic: Critic, training: CriticTraining, state: CriticState) -> CriticState:
    """A fresh head that decodes to 0 over the learned body, with a fresh optimiser (and warm-up); the step goes on counting."""
    params = {**state.params, "net": {**state.params["net"], "head": critic.start_head()}}
    fresh = steps.init_state(critic, training, params)
    return CriticState(fresh.params, fresh.target, fresh.opt, jnp.array(state.step))
