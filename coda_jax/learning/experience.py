"""Episodes as one table of decisions on the device: what the critic and advantage-weighted updates draw their batches from.

A row is the moment of a decision; an episode that ran out of time has one closing row more, its last moment. The row after that of a
transition that is not terminal is therefore its successor x'. The table is a function of records and labels alone, and a batch one of the
table and a key: a training state's step and the seed are all that a restart needs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from coda_jax.learning.critic.batch import CriticBatch, ProgramInput
from coda_jax.learning.dataset import MIN_NAMES, capacity_for, text_table
from coda_jax.learning.policies.base import ChunkBatch, Params, WordTable
from coda_jax.learning.policies.grounding import filled_roles
from coda_jax.learning.records import SOURCES, EpisodeRecord, Labels, acted_rows, check_record, labelled_rows, observed_rows
from coda_jax.types import EPISODE_FIELDS, STEP_FIELDS, Array, Observation, _pytree

MIN_ROWS, MIN_EPISODES = 4096, 256
BLOCK = 512  # rows whose candidates are drawn together


@_pytree
class Experience:
    """``n`` rows (the first ``size`` real) of ``m`` episodes, ``s`` distinct names, ``l`` distinct instructions; powers of two.

    steps: STEP_FIELDS [n, ...]. episodes: EPISODE_FIELDS [m, ...]. episode: [n] int32 row of ``episodes``.
    names: [m, o] int32 rows of ``name_text`` [s, d]. instruction: [m] int32 rows of ``instruction_text`` [l, d].
    roles: [m, ROLES] int32 tokens (``grounding.filled_roles``). code: [m, CODE_DIM] of the episode's training program, 0 without one.
    actions: [n, h, 7] what was carried out (clipped), then what the policy meant to do further; of demonstrations how they went on, past
    their end hold-still.
    mask: [n, h] bool, carried out in this decision: h_k of METHOD 2 is its sum. rewards: [n, h] of each control step, 0 past h_k.
    terminal: [n] bool, d: the transition ends in nu and has no successor.
    stage: [n] int32, progress and phi: [n] of the episode's program at the row's moment.
    candidates: [n, j, h, 7] chunks of the present policy, zeros before ``refresh_candidates``.
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


def build(
    records: Sequence[EpisodeRecord],
    labels: Sequence[Labels],
    embed: Callable[[Sequence[str]], np.ndarray],
    h: int,
    j: int,
    least_rows: int = 0,
    least_episodes: int = 0,
) -> Experience:
    """Check and pack records with their labels; ``embed`` maps strings to float32 [n, d].

    least_rows, least_episodes: room for more rows and episodes than these, so that a table that will grow keeps its shapes.

    Raises:
      ValueError: no records, or one is malformed; the message names it and the field.
    """
    if not records:
        raise ValueError("cannot learn from 0 recorded episodes: roll out with a record first")
    for number, (record, own) in enumerate(zip(records, labels, strict=True)):
        check_record(number, record, own, h)
    counts = np.array([len(r.moments) for r in records])
    n = capacity_for(max(int(counts.sum()), least_rows), MIN_ROWS)
    m = capacity_for(max(len(records), least_episodes), MIN_EPISODES)
    name_row, name_text = text_table([s for r in records for s in r.names if s is not None], MIN_NAMES, embed)
    instruction_row, instruction_text = text_table([r.instruction for r in records], m, embed)
    actions, mask, terminal = acted_rows(records, h)
    order, cumulative, offsets = _sampling(records, counts)
    label = labelled_rows(records, labels, h)
    return Experience(
        steps={name: _padded(values, n, np.float32) for name, values in observed_rows(records).items()},
        episodes={
            f: _padded(np.stack([getattr(r.views, f)[0] for r in records]), m, bool if f == "present" else np.float32)
            for f in EPISODE_FIELDS
        },
        episode=_padded(np.repeat(np.arange(len(records)), counts), n, np.int32),
        names=_padded([[0 if s is None else name_row[s] for s in r.names] for r in records], m, np.int32),
        instruction=_padded([instruction_row[r.instruction] for r in records], m, np.int32),
        roles=_padded([filled_roles(r.roles) for r in records], m, np.int32),
        name_text=name_text,
        instruction_text=instruction_text,
        code=_padded(label["code"], m, np.float32),
        actions=_padded(actions, n, np.float32),
        mask=_padded(mask, n, bool),
        rewards=_padded(label["rewards"], n, np.float32),
        terminal=_padded(terminal, n, bool),
        stage=_padded(label["stage"], n, np.int32),
        progress=_padded(label["progress"], n, np.float32),
        phi=_padded(label["phi"], n, np.float32),
        candidates=jnp.zeros((n, j, *actions.shape[1:]), jnp.float32),
        order=_padded(order, n, np.int32),
        cumulative=_padded(cumulative, n, np.float32),
        offsets=jnp.asarray(offsets, jnp.int32),
        size=jnp.asarray(counts.sum(), jnp.int32),
    )


def _padded(values: Any, length: int, dtype: type) -> Array:
    values = np.asarray(values)
    packed = np.zeros((length, *values.shape[1:]), dtype)
    packed[: len(values)] = values
    return jnp.asarray(packed)


def _sampling(records: Sequence[EpisodeRecord], counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """order, cumulative and offsets of the table; see ``Experience``."""
    first = np.cumsum(counts) - counts
    order, cumulative, offsets = [], [], [0]
    for source in SOURCES:
        own = [i for i, r in enumerate(records) if r.source == source]
        rows = [first[i] + np.arange(len(records[i].starts)) for i in own]
        weights = [np.full(len(records[i].starts), records[i].weight) for i in own]
        if own:
            order.append(np.concatenate(rows))
            total = np.cumsum(np.concatenate(weights))
            cumulative.append(total / total[-1])
        offsets.append(offsets[-1] + sum(map(len, rows)))
    return np.concatenate(order), np.concatenate(cumulative), np.array(offsets)


def relabelled(experience: Experience, stage: Any, progress: Any, phi: Any, rewards: Any, code: Any) -> Experience:
    """The table under other programs, at both ends of every transition: rows as ``records.labelled_rows`` makes them.

    The shapes stay, so nothing compiles again.

    Raises:
      ValueError: there are not as many rows as the table has.
    """
    new = {"stage": stage, "progress": progress, "phi": phi, "rewards": rewards, "code": code}
    if len(stage) != int(experience.size):
        raise ValueError(
            f"labels of {len(stage)} rows for a table of {int(experience.size)}: label the records that the table was built of"
        )
    old = {name: getattr(experience, name) for name in new}
    return dataclasses.replace(experience, **{name: _padded(values, len(old[name]), old[name].dtype) for name, values in new.items()})


def rows_of(experience: Experience, key: jax.Array, counts: Array, b: int) -> Array:
    """Rows [b] that begin transitions, ``counts[i]`` of SOURCES[i] in this order, drawn with replacement by their weights.

    What a source without rows was to give comes from the others in proportion to their counts; where none of those has rows, from every
    source in proportion to its rows.

    Args:
      counts: [len(SOURCES)] int32 with sum b; traced, so that learning tools may change them without another executable.
    """
    counts = jnp.asarray(counts)
    slot, ends = jnp.arange(b), jnp.cumsum(counts)
    source = jnp.minimum(jnp.searchsorted(ends, slot, side="right"), len(SOURCES) - 1)
    place = (slot - (ends - counts)[source] + 0.5) / jnp.maximum(counts[source], 1)  # within the source's part of the batch
    sizes = jnp.diff(experience.offsets)
    share = jnp.where(sizes > 0, counts, 0)
    share = jnp.cumsum(jnp.where(share.sum() > 0, share, sizes))
    donor = jnp.searchsorted(share / share[-1], place, side="right")
    source = jnp.where(sizes[source] > 0, source, donor)
    first, last = experience.offsets[source], experience.offsets[source + 1] - 1
    u = jax.random.uniform(key, source.shape)

    def halve(_, bounds):  # the first place whose cumulative weight is above u
        low, high = bounds
        middle = (low + high) // 2
        above = experience.cumulative[middle] > u
        return jnp.where(above, low, jnp.minimum(middle + 1, last)), jnp.where(above, middle, high)

    low, _ = jax.lax.fori_loop(0, experience.order.shape[0].bit_length(), halve, (first, last))
    return experience.order[low]


def observation(experience: Experience, rows: Array) -> Observation:
    """What the policy saw at ``rows`` [b]."""
    episode = experience.episode[rows]
    present = experience.episodes["present"][episode]
    return Observation(
        **{f: experience.steps[f][rows] for f in STEP_FIELDS},
        **{f: experience.episodes[f][episode] for f in EPISODE_FIELDS},
        text=jnp.where(present[..., None], experience.name_text[experience.names[episode]], 0.0),
        instruction=experience.instruction_text[experience.instruction[episode]],
    )


def program_input(experience: Experience, rows: Array) -> ProgramInput:
    """Where the episodes' programs stand at ``rows`` [b]."""
    return ProgramInput(experience.stage[rows], experience.progress[rows], experience.code[experience.episode[rows]])


def critic_batch(experience: Experience, rows: Array) -> CriticBatch:
    """The transitions that begin at ``rows`` [b]. A terminal one has no successor: its own moment stands there, a state like any other."""
    terminal = experience.terminal[rows]
    after = jnp.where(terminal, rows, rows + 1)
    return CriticBatch(
        obs=observation(experience, rows),
        program=program_input(experience, rows),
        actions=experience.actions[rows],
        mask=experience.mask[rows],
        rewards=experience.rewards[rows],
        terminal=terminal,
        phi=experience.phi[rows],
        candidates=experience.candidates[rows],
        next_obs=observation(experience, after),
        next_program=program_input(experience, after),
        next_phi=experience.phi[after],
        next_candidates=experience.candidates[after],
    )


@dataclasses.dataclass(frozen=True)
class Draw:
    """``b`` transitions of (table, counts [len(SOURCES)]), see ``rows_of``: a Source of critic/steps.py."""

    b: int

    def __call__(self, data: tuple[Experience, Array], key: jax.Array) -> CriticBatch:
        experience, counts = data
        return critic_batch(experience, rows_of(experience, key, counts, self.b))


@dataclasses.dataclass(frozen=True)
class DrawValued:
    """``Draw`` of ((table, counts), values [n]) with the values of its rows: a ValuedSource of critic/relabel.py."""

    b: int

    def __call__(self, data: tuple[tuple[Experience, Array], Array], key: jax.Array) -> tuple[CriticBatch, Array]:
        (experience, counts), values = data
        rows = rows_of(experience, key, counts, self.b)
        return critic_batch(experience, rows), values[rows]


def chunk_batch(experience: Experience, rows: Array) -> ChunkBatch:
    """The chunks that were carried out from ``rows`` [b] on, as labels for the policy; only executed steps count."""
    episode = experience.episode[rows]
    return ChunkBatch(
        obs=observation(experience, rows),
        actions=experience.actions[rows],
        mask=experience.mask[rows],
        roles=experience.roles[episode],
        table=WordTable(text=experience.name_text, names=experience.names[episode]),
    )


class Sampler(Protocol):
    """What of a policy (policies/base.py) draws candidates; hashable, a static argument of jit."""

    def sample(self, params: Params, obs: Observation, key: jax.Array, j: int, roles: Array | None = None) -> Array: ...


def refresh_candidates(policy: Sampler, params: Params, experience: Experience, key: jax.Array) -> Experience:
    """The table with candidates of ``params`` at every row, clipped to [-1, 1] as the simulator clips them.

    A row's chunks depend on key and row alone. One executable for each shape of the table; the old candidates are consumed.
    """
    rest = dataclasses.replace(experience, candidates=None)
    return dataclasses.replace(experience, candidates=_draw(policy, params, rest, experience.candidates, key))


@functools.partial(jax.jit, static_argnames=("policy",), donate_argnames=("candidates",))
def _draw(policy: Sampler, params: Params, experience: Experience, candidates: Array, key: jax.Array) -> Array:
    def block(i, candidates):
        rows = i * BLOCK + jnp.arange(BLOCK)
        keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(rows)
        roles = experience.roles[experience.episode[rows]]
        chunks = policy.sample(params, observation(experience, rows), keys, candidates.shape[1], roles)
        real = (rows < experience.size)[:, None, None, None]  # padding shows no scene, and what a policy makes of it may not be finite
        return jax.lax.dynamic_update_slice_in_dim(candidates, jnp.where(real, jnp.clip(chunks, -1.0, 1.0), 0.0), i * BLOCK, 0)

    return jax.lax.fori_loop(0, (experience.size + BLOCK - 1) // BLOCK, block, candidates)
