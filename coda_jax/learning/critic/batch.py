"""What one critic update reads: ``b`` transitions between decisions."""

from __future__ import annotations

from coda_jax.types import Array, Observation, _pytree


@_pytree
class ProgramInput:
    """Where a training program stands at a decision; zeros without one.

    stage: [b] int32 completed subgoals, 0..MAX_STAGES. progress: [b] inside the present one, in [0, 1). code: [b, CODE_DIM] descriptor of
    the program, so that two programs on one scene never alias.
    """

    stage: Array
    progress: Array
    code: Array


@_pytree
class CriticBatch:
    """``b`` transitions (x, chunk) -> x' of METHOD 2.

    actions: [b, h, 7] in LIBERO's convention, mask: [b, h] bool, the control steps that were carried out (a prefix; h_k is its sum).
    rewards: [b, h] of each control step. terminal: [b] bool, d; x' of a terminal transition is never read. phi, next_phi: [b] potential at
    x and x'. candidates, next_candidates: [b, j, h, 7] chunks of the present policy at x (advantages and monitors) and at x' (the backup).
    """

    obs: Observation
    program: ProgramInput
    actions: Array
    mask: Array
    rewards: Array
    terminal: Array
    phi: Array
    candidates: Array
    next_obs: Observation
    next_program: ProgramInput
    next_phi: Array
    next_candidates: Array
