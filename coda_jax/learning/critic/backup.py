"""B: the value of a state from its candidates. Every kind commutes with adding a constant to all candidates of a state (METHOD 2)."""

from __future__ import annotations

import dataclasses

from jaxtyping import Float

from coda_jax.learning.critic.arrays import namespace
from coda_jax.types import Array

BACKUPS = ("max", "mean", "softmax", "log_mean_exp")


@dataclasses.dataclass(frozen=True)
class Backup:
    """How candidates become one value.

    kind: ``max``, ``mean``, ``softmax`` (mean weighted by softmax(Q / temperature)), ``log_mean_exp`` (temperature * log mean
    exp(Q / temperature)). temperature: in units of value; the first two do not read it.
    """

    kind: str
    temperature: float

    def __post_init__(self):
        if self.kind not in BACKUPS:
            raise ValueError(f'critic.backup is "{self.kind}"; use one of: {", ".join(BACKUPS)}')
        if not self.temperature > 0:
            raise ValueError(f"critic.backup_temperature is {self.temperature}; it must be above 0")

    def __call__(self, q: Float[Array, "*b j"]) -> Float[Array, "*b"]:
        if self.kind == "mean":
            return q.mean(-1)
        best = q.max(-1)
        if self.kind == "max":
            return best
        xp = namespace(q)
        exp = xp.exp((q - best[..., None]) / self.temperature)
        if self.kind == "softmax":
            return (exp * q).sum(-1) / exp.sum(-1)
        return best + self.temperature * xp.log(exp.mean(-1))
