"""The categorical support of the critic: bins, projection of scalar targets, decoding.

HL-Gauss as in "Stop Regressing" (Farebrother et al. 2024, arXiv 2403.03950), with edges beyond the range so that its ends decode without
bias (METHOD 3); two-hot (Bellemare et al. 2017, for a scalar target) as the other option.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from coda_jax.types import Array

PROJECTIONS = ("hl_gauss", "two_hot")
_START_SPREAD = 0.5  # standard deviation of the distribution an untrained head predicts, before it is tilted to mean 0


@dataclasses.dataclass(frozen=True)
class Support:
    """``bins`` bins of one width over [low - margin, high + margin] (defaults in config.py); hashable, a static argument of jit.

    projection: one of PROJECTIONS. low, high: of the targets, [-beta m, 1]. margin: in widths; 2.25 let a target of 1 decode to 0.9999.
    smoothing: standard deviation of HL-Gauss, in widths.
    """

    projection: str
    low: float
    high: float
    bins: int
    margin: float
    smoothing: float

    def __post_init__(self):
        if self.projection not in PROJECTIONS:
            raise ValueError(f'critic.projection is "{self.projection}"; use one of: {", ".join(PROJECTIONS)}')
        if not self.low < self.high:
            raise ValueError(f"the support runs from {self.low} to {self.high}; its lower end must come first")
        if not self.bins > 2 * self.margin + 1:
            raise ValueError(f"{self.bins} bins with {self.margin} widths of margin at each end leave none inside; use more bins")
        if not self.smoothing > 0:
            raise ValueError(f"the smoothing of HL-Gauss is {self.smoothing} widths; it must be above 0")

    @property
    def width(self) -> float:
        return (self.high - self.low) / (self.bins - 2 * self.margin)

    def edges(self) -> np.ndarray:
        """The ``bins + 1`` edges, float64."""
        return self.low + self.width * (np.arange(self.bins + 1) - self.margin)

    def centres(self) -> np.ndarray:
        """The values v_b that bins stand for, float64."""
        return self.low + self.width * (np.arange(self.bins) + 0.5 - self.margin)

    def clip(self, y: Float[Array, "*n"]) -> tuple[Float[Array, "*n"], Bool[Array, "*n"]]:
        """Targets cut to [low, high], and which of them were outside (beyond rounding)."""
        slack = 1e-5 * (self.high - self.low)
        return jnp.clip(y, self.low, self.high), (y < self.low - slack) | (y > self.high + slack)

    def project(self, y: Float[Array, "*n"]) -> Float[Array, "*n v"]:
        """Probabilities of the bins for targets inside [low, high]; clip first."""
        return _hl_gauss(self, y) if self.projection == "hl_gauss" else _two_hot(self, y)

    def decode(self, logits: Float[Array, "*n v"]) -> Float[Array, "*n"]:
        """Q = sum_b softmax(logits)_b v_b."""
        shifted = jnp.exp(logits - jax.lax.stop_gradient(logits.max(-1, keepdims=True)))
        return (shifted @ self.centres().astype(np.float32)) / shifted.sum(-1)

    def start_bias(self) -> np.ndarray:
        """Logits [v] that decode to 0 (to the nearest value inside [low, high]): a broad Gaussian, tilted until its mean is exact."""
        v, goal = self.centres(), min(max(0.0, self.low), self.high)
        base = -0.5 * np.square((v - goal) / _START_SPREAD)
        below, above = -1e3, 1e3
        for _ in range(200):  # the mean rises with the tilt: bisection
            tilt = 0.5 * (below + above)
            weights = np.exp(base + tilt * v - (base + tilt * v).max())
            below, above = (tilt, above) if weights @ v < goal * weights.sum() else (below, tilt)
        logits = base + 0.5 * (below + above) * v
        return (logits - logits.max()).astype(np.float32)


def _hl_gauss(support: Support, y: Array) -> Array:
    sd = support.smoothing * support.width
    z = (support.edges().astype(np.float32) - y[..., None]) * np.float32(1 / sd)
    cumulative = 0.5 * jax.lax.erf(z * np.float32(np.sqrt(0.5)))
    inside = jnp.maximum(jnp.diff(cumulative, axis=-1), 0.0)  # far out, float32's erf may fall by its last digit
    return inside / (cumulative[..., -1:] - cumulative[..., :1])


def _two_hot(support: Support, y: Array) -> Array:
    position = (y - np.float32(support.centres()[0])) * np.float32(1 / support.width)
    distance = jnp.abs(position[..., None] - np.arange(support.bins, dtype=np.float32))
    return jnp.maximum(1.0 - distance, 0.0)
