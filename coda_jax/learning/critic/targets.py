"""Regression targets of the chunk critic, exactly METHOD 2; numpy in float64 and jax alike.

    R_k = sum_{i<h_k} gamma^i r_{t+i}
    F_k = beta [(1-d) gamma^{h_k} Phi(x') - Phi(x)]
    y_k = R_k + F_k + (1-d) gamma^{h_k} B[Q_ema](x')

Potential-based shaping: Ng, Harada and Russell 1999; a potential of 0 at every true terminal: Grzes 2017. A time-out is no terminal.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import DTypeLike

from coda_jax.learning.critic.arrays import namespace
from coda_jax.types import Array

GAMMA_UNITS = ("step", "chunk")


@dataclasses.dataclass(frozen=True)
class Rule:
    """gamma: discount per ``gamma_unit``, "step" (control step) or "chunk" (decision). beta: weight of the potential."""

    gamma: float
    gamma_unit: str
    beta: float

    def __post_init__(self):
        if not 0 < self.gamma <= 1:
            raise ValueError(f"critic.gamma is {self.gamma}; it must be above 0 and at most 1")
        if self.gamma_unit not in GAMMA_UNITS:
            raise ValueError(f'critic.gamma_unit is "{self.gamma_unit}"; use one of: {", ".join(GAMMA_UNITS)}')
        if not 0 <= self.beta < float("inf"):
            raise ValueError(f"critic.beta is {self.beta}; it must be at least 0")


def discount(steps: Int[Array, "*b"], gamma: float, unit: str, dtype: DTypeLike = np.float32) -> Float[Array, "*b"]:
    """Discount from x to x' after ``steps`` = h_k control steps: gamma^{h_k}, or gamma where it counts per chunk."""
    exponent = steps.astype(dtype)
    return gamma**exponent if unit == "step" else gamma ** namespace(steps).minimum(exponent, 1)


def chunk_return(rewards: Float[Array, "*b h"], mask: Bool[Array, "*b h"], gamma: float, unit: str) -> Float[Array, "*b"]:
    """R_k: rewards of the executed control steps, discounted inside the chunk (not where gamma counts per chunk)."""
    powers = np.arange(rewards.shape[-1]) if unit == "step" else np.zeros(rewards.shape[-1])
    weights = (gamma**powers).astype(rewards.dtype)
    return (namespace(rewards).where(mask, rewards, 0) * weights).sum(-1)


def continues(terminal: Bool[Array, "*b"], value: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """(1 - d) value; what stands at a terminal is not read, not even NaN."""
    return namespace(terminal, value).where(terminal, 0, value)


def shaping(
    phi: Float[Array, "*b"], next_phi: Float[Array, "*b"], terminal: Bool[Array, "*b"], factor: Float[Array, "*b"], beta: float
) -> Float[Array, "*b"]:
    """F_k with ``factor`` = discount of the chunk."""
    return beta * (continues(terminal, factor * next_phi) - phi)


def targets(
    rule: Rule,
    rewards: Float[Array, "*b h"],
    mask: Bool[Array, "*b h"],
    terminal: Bool[Array, "*b"],
    phi: Float[Array, "*b"],
    next_phi: Float[Array, "*b"],
    bootstrap: Float[Array, "*b"],
) -> Float[Array, "*b"]:
    """y_k in the dtype of ``rewards``; bootstrap: B[Q_ema](x')."""
    factor = discount(mask.sum(-1), rule.gamma, rule.gamma_unit, rewards.dtype)
    reward = chunk_return(rewards, mask, rule.gamma, rule.gamma_unit)
    return reward + shaping(phi, next_phi, terminal, factor, rule.beta) + continues(terminal, factor * bootstrap)
