"""Advantages of what happened: how much better an episode went on from a decision than its state was worth.

    delta_k = R_k + (1-d) gamma^{h_k} V(x') - V(x);   A_k = delta_k + (1-d) gamma^{h_k} trace A_{k+1}

Generalised advantage estimates (Schulman et al. 2016, arXiv 1506.02438) over decisions of h_k control steps. A trace of 1 is the realised
return less the state's value, as in AWR (Peng et al. 2019, which uses TD(0.95)); 0 asks the critic one decision later. Q(o, a) - V(o) of
METHOD 4 needs a critic that tells the chunks of one state apart; these need one that tells states apart.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from coda_jax.learning.critic import targets
from coda_jax.learning.critic.targets import Rule
from coda_jax.learning.experience import Experience
from coda_jax.types import Array


@functools.partial(jax.jit, static_argnames=("rule",))
def trajectory_advantages(rule: Rule, trace: Array, experience: Experience, v: Array) -> Array:
    """A [n] of the table's rows; 0 where a row begins no transition, and beyond the table's size.

    An episode that ran out of time is worth V of its last moment there: a time-out is no terminal.

    Args:
      trace: [] in [0, 1]. v: [n] values of the shaped problem (values.Values); the potential is added back, so that A does not depend on
        it.
    """
    worth = v + rule.beta * experience.phi
    rows = jnp.arange(v.shape[0])
    begins = experience.mask.any(-1) & (rows < experience.size)
    following = jnp.minimum(rows + 1, v.shape[0] - 1)
    goes_on = begins & ~experience.terminal & (experience.episode[following] == experience.episode) & (following < experience.size)
    factor = jnp.where(goes_on, targets.discount(experience.mask.sum(-1), rule.gamma, rule.gamma_unit), 0.0)
    earned = targets.chunk_return(experience.rewards, experience.mask, rule.gamma, rule.gamma_unit)
    delta = jnp.where(begins, earned + factor * worth[following] - worth, 0.0)

    def joined(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
        """Two stretches of A = delta + c A': first the later one, as the scan runs from the end."""
        return earlier[0] * later[0], earlier[1] + earlier[0] * later[1]

    return jax.lax.associative_scan(joined, (trace * factor, delta), reverse=True)[1]
