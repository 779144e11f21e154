"""Episodes as one table of decisions on the device: what the critic and advantage-weighted updates draw their batches from.

A row is the moment of a decision; an episode that ran out of time has one closing row more, its last moment. The row after that of a
transition that is not terminal is therefore its successor x'.
"""

from __future__ import annotations

from coda_jax.types import Array, _pytree

SOURCES = ("demonstration", "targeted", "control", "replay")


@_pytree
class Experience:
    """``n`` rows (the first ``size`` real) of ``m`` episodes, ``s`` distinct names, ``l`` distinct instructions; powers of two.

    steps: STEP_FIELDS [n, ...]. episodes: EPISODE_FIELDS [m, ...]. episode: [n] int32 row of ``episodes``.
    names: [m, o] int32 rows of ``name_text`` [s, d]. instruction: [m] int32 rows of ``instruction_text`` [l, d].
    roles: [m, 2] int32 tokens of target and reference, -1 for none. code: [m, CODE_DIM] of the episode's training program, 0 without one.
    actions: [n, h, 7] what was carried out (clipped) and how the episode went on from there; past its end hold-still.
    mask: [n, h] bool, carried out in this decision: h_k of METHOD 2 is its sum. rewards: [n, h] of each control step, 0 past h_k.
    terminal: [n] bool, d: the transition ends in nu and has no successor.
    stage: [n] int32, progress and phi: [n] of the episode's program at the row's moment.
    candidates: [n, j, h, 7] chunks of the present policy.
    order: [n] int32 rows that begin a transition, grouped by source. cumulative: [n] sampling weights of ``order``, summed up within each
    source and divided by the source's sum. offsets: [len(SOURCES) + 1] int32, where each source begins in ``order``. size: [] int32.
    """

    steps: dict[str, Array]
    episodes: dict[str, Array]
    episode: Array
    names: Array
    instruction: Array
    roles: Array
    name_text: Array
    instruction_text: Array
    code: Array
    actions: Array
    mask: Array
    rewards: Array
    terminal: Array
    stage: Array
    progress: Array
    phi: Array
    candidates: Array
    order: Array
    cumulative: Array
    offsets: Array
    size: Array
