"""Demonstrations as one flat table on the device, from which jitted code draws training chunks.

Every control step starts a chunk of h labels. What is constant over an episode (boxes, words, roles) is stored once per episode, a text
embedding once per distinct string: 1,000 demonstrations of 100 steps take about 60 MB.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from coda_jax.learning.policies.base import ChunkBatch, WordTable
from coda_jax.learning.policies.grounding import filled_roles
from coda_jax.sim.recording import FIELD_SHAPES
from coda_jax.types import ACTION_DIM, EPISODE_FIELDS, STEP_FIELDS, TOKENS, Array, Observation, _pytree

MIN_ROWS, MIN_EPISODES = 32768, 512  # 400 demonstrations of 80 steps and fewer share one shape
MIN_NAMES = 1024  # the catalogue has 70 categories in eight colours, and users add their own
SHAPES = {name: FIELD_SHAPES[name] for name in (*STEP_FIELDS, *EPISODE_FIELDS)}


@dataclasses.dataclass(frozen=True)
class Demonstration:
    """One episode of ``t`` control steps as numpy arrays.

    obs: fields of Observation by name, [t, ...] for what moves and without the axis for half_extent, articulation_range, present.
    actions: [t, 7] labels in [-1, 1] for the state before each step. mask: [t] bool, the label counts. names: words of each of the 8 tokens
    ("red mug"), None for an absent one. instruction: the sentence. roles: tokens of target and reference of one goal or
    each of two, -1 for none.
    """

    obs: dict[str, np.ndarray]
    actions: np.ndarray
    mask: np.ndarray
    names: tuple[str | None, ...]
    instruction: str
    roles: tuple[int, ...]


@_pytree
class Dataset:
    """``n`` rows (control steps, the first ``size`` real), ``m`` episodes, ``s`` distinct names, ``l`` distinct instructions.

    steps: fields [n, ...]. episodes: fields [m, ...]. actions: [n, 7]. mask: [n]. episode: [n] int32 row of ``episodes``.
    end: [n] int32, one past the last row of the episode. names: [m, o] int32 rows of ``name_text`` [s, d].
    instruction: [m] int32 rows of ``instruction_text`` [l, d].
    roles: [m, ROLES] int32 (``grounding.filled_roles``). size: [] int32.
    """

    steps: dict[str, Array]
    episodes: dict[str, Array]
    actions: Array
    mask: Array
    episode: Array
    end: Array
    names: Array
    instruction: Array
    roles: Array
    name_text: Array
    instruction_text: Array
    size: Array


def check_demonstration(number: int, demo: Demonstration) -> None:
    """Refuse a malformed demonstration.

    Raises:
      ValueError: it names the demonstration by number, the field and what is wrong.
    """
    t = len(demo.actions)
    where = f"demonstration {number} ({demo.instruction!r})"
    if t == 0:
        raise ValueError(f"{where} has no control steps: leave it out")
    for name, shape in SHAPES.items():
        expected = (t, *shape) if name in STEP_FIELDS else shape
        if name not in demo.obs:
            raise ValueError(f"{where}: obs lacks {name!r}; give an array {expected}")
        if np.shape(demo.obs[name]) != expected:
            raise ValueError(f"{where}: obs[{name!r}] has shape {np.shape(demo.obs[name])}; it must be {expected}")
        if not np.isfinite(demo.obs[name]).all():
            raise ValueError(f"{where}: obs[{name!r}] holds NaN or infinity; drop the episode")
    if demo.actions.shape != (t, ACTION_DIM) or demo.mask.shape != (t,):
        raise ValueError(f"{where}: actions {demo.actions.shape} and mask {demo.mask.shape} must be ({t}, 7) and ({t},)")
    if not np.abs(demo.actions[demo.mask]).max(initial=0.0) <= 1.0 + 1e-6:  # written so that NaN fails too
        raise ValueError(f"{where}: a counted label lies outside [-1, 1]; clip the planner's actions")
    if len(demo.names) != TOKENS:
        raise ValueError(f"{where}: {len(demo.names)} names for {TOKENS} tokens; use None for absent ones")
    for token, (name, present) in enumerate(zip(demo.names, demo.obs["present"], strict=True)):
        if bool(present) != (name is not None):
            raise ValueError(f"{where}: token {token} has present={bool(present)} and name {name!r}; only present tokens have names")
    try:
        filled_roles(demo.roles)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    for token in demo.roles:
        if token != -1 and not (0 <= token < TOKENS and demo.obs["present"][token]):
            raise ValueError(f"{where}: role token {token} is absent; use the token of a present object, or -1")


def capacity_for(n: int, least: int) -> int:
    """The next power of two, at least ``least``: growing data then meets few shapes, hence few executables."""
    return max(least, 1 << (n - 1).bit_length())


def text_table(strings: Sequence[str], least: int, embed: Callable[[Sequence[str]], np.ndarray]) -> tuple[dict[str, int], Array]:
    """Rows of the distinct strings, and their embeddings [s, d] on the device, padded to a power of two."""
    distinct = list(dict.fromkeys(strings))
    vectors = embed(distinct)
    table = np.zeros((capacity_for(len(distinct), least), vectors.shape[1]), np.float32)
    table[: len(distinct)] = vectors
    return {s: i for i, s in enumerate(distinct)}, jnp.asarray(table)


def build(
    demos: Sequence[Demonstration], embed: Callable[[Sequence[str]], np.ndarray], least_rows: int = 0, least_episodes: int = 0
) -> Dataset:
    """Check and pack demonstrations; ``embed`` maps strings to float32 [n, d].

    least_rows, least_episodes: room for more control steps and episodes than these, so that a table that will grow keeps its shapes.

    Raises:
      ValueError: no demonstrations, or one is malformed; the message names it and the field.
    """
    if not demos:
        raise ValueError("cannot train on 0 demonstrations: collect some first")
    for number, demo in enumerate(demos):
        check_demonstration(number, demo)
    lengths = np.array([len(d.actions) for d in demos])
    n, m = int(lengths.sum()), len(demos)
    rows, episodes = capacity_for(max(n, least_rows), MIN_ROWS), capacity_for(max(m, least_episodes), MIN_EPISODES)
    name_row, name_text = text_table([s for d in demos for s in d.names if s is not None], MIN_NAMES, embed)
    instruction_row, instruction_text = text_table([d.instruction for d in demos], episodes, embed)
    ends = np.cumsum(lengths)

    def pack(arrays: Sequence[np.ndarray], length: int, dtype: type) -> Array:
        packed = np.zeros((length, *arrays[0].shape[1:]), dtype)
        np.concatenate(arrays, out=packed[: sum(len(a) for a in arrays)], casting="unsafe")
        return jnp.asarray(packed)

    def each(values: Sequence, dtype: type) -> Array:
        return pack([np.asarray(values)], episodes, dtype)

    return Dataset(
        steps={f: pack([np.asarray(d.obs[f]) for d in demos], rows, np.float32) for f in STEP_FIELDS},
        episodes={f: each([d.obs[f] for d in demos], bool if f == "present" else np.float32) for f in EPISODE_FIELDS},
        actions=pack([d.actions for d in demos], rows, np.float32),
        mask=pack([d.mask for d in demos], rows, bool),
        episode=pack([np.repeat(np.arange(m), lengths)], rows, np.int32),
        end=pack([np.repeat(ends, lengths)], rows, np.int32),
        names=each([[0 if s is None else name_row[s] for s in d.names] for d in demos], np.int32),
        instruction=each([instruction_row[d.instruction] for d in demos], np.int32),
        roles=each([filled_roles(d.roles) for d in demos], np.int32),
        name_text=name_text,
        instruction_text=instruction_text,
        size=jnp.asarray(n, jnp.int32),
    )


def gather(dataset: Dataset, rows: Array, h: int) -> ChunkBatch:
    """The chunks of ``h`` labels that start at ``rows`` [b]; past the episode's end labels hold still (mask False) and keep the gripper."""
    episode = dataset.episode[rows]
    index = rows[:, None] + jnp.arange(h)
    inside = index < dataset.end[rows][:, None]
    index = jnp.minimum(index, dataset.end[rows][:, None] - 1)
    actions = dataset.actions[index]
    actions = actions.at[..., :6].multiply(inside[..., None])
    present = dataset.episodes["present"][episode]
    obs = Observation(
        **{f: dataset.steps[f][rows] for f in STEP_FIELDS},
        **{f: dataset.episodes[f][episode] for f in EPISODE_FIELDS},
        text=jnp.where(present[..., None], dataset.name_text[dataset.names[episode]], 0.0),
        instruction=dataset.instruction_text[dataset.instruction[episode]],
    )
    table = WordTable(text=dataset.name_text, names=dataset.names[episode])
    return ChunkBatch(obs=obs, actions=actions, mask=inside & dataset.mask[index], roles=dataset.roles[episode], table=table)


def draw(dataset: Dataset, key: jax.Array, b: int, h: int) -> ChunkBatch:
    """``b`` chunks that start at uniformly drawn control steps, with replacement."""
    return gather(dataset, jax.random.randint(key, (b,), 0, dataset.size), h)
