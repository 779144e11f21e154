"""Tables of random episodes, by the project's own builders: the shapes are those of a run, and no time depends on the numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from coda_jax.learning import dataset, experience
from coda_jax.learning.critic.batch import CriticBatch
from coda_jax.learning.dataset import Dataset, Demonstration
from coda_jax.learning.experience import Experience
from coda_jax.learning.policies.grounding import LanguageSet, Phrase, language_set
from coda_jax.learning.records import EpisodeRecord, decisions, sparse_labels
from coda_jax.sim.recording import FIELD_SHAPES, moments, observed
from coda_jax.types import FIXED_FIELDS, MOVING_FIELDS, TOKENS, WorldView

COLOURS = ("red", "green", "blue", "white", "black")
NOUNS = ("mug", "can", "bottle", "bowl", "plate", "tray", "apple", "sponge")
PAIRS = tuple(f"{colour} {noun}" for colour in COLOURS for noun in NOUNS)
STEPS = 80  # of an episode
PHRASES = 1024


@dataclasses.dataclass(frozen=True)
class Draw:
    """Transitions of a table for the critic, the same number from demonstrations and from the policy's own decisions."""

    batch: int

    def __call__(self, data: Experience, key: jax.Array) -> CriticBatch:
        rows = experience.rows_of(data, key, jnp.array((self.batch // 2, self.batch - self.batch // 2, 0, 0)), self.batch)
        return experience.critic_batch(data, rows)


def embedder(text_dim: int):
    """A fixed random unit vector for each string."""

    def embed(strings: Sequence[str]) -> np.ndarray:
        rows = [np.random.default_rng(list(s.encode())).normal(size=text_dim) for s in strings]
        return np.stack([row / np.linalg.norm(row) for row in rows]).astype(np.float32)

    return embed


def episode(rng: np.random.Generator) -> tuple[WorldView, tuple[str | None, ...], str, tuple[int, int]]:
    """Moments, names, instruction and roles of one random episode with four objects and two fixtures."""
    present = np.array([True] * 4 + [False] * 2 + [True] * 2)
    chosen = iter(rng.choice(len(PAIRS), 6, replace=False))
    names = tuple(PAIRS[next(chosen)] if on else None for on in present)
    moving = {name: 0.1 * rng.normal(size=(STEPS + 1, *FIELD_SHAPES[name])).astype(np.float32) for name in MOVING_FIELDS}
    moving |= {name: moving[name] > 0.1 for name in ("finger_contact", "contact")}
    for name in ("quat", "ee_quat"):
        moving[name] /= np.linalg.norm(moving[name], axis=-1, keepdims=True)
    fixed = {name: rng.random((TOKENS, 4 if "quat" in name else 3)).astype(np.float32) for name in FIXED_FIELDS}
    fixed |= {"present": present, "articulation_range": np.zeros((TOKENS, 2), np.float32)}
    return moments(moving, fixed), names, f"put the {names[0]} on the {names[6]}", (0, 6)


def tables(episodes: int, chunk: int, executed: int, candidates: int, text_dim: int) -> tuple[Dataset, Experience]:
    """Demonstrations, and decisions of as many episodes of the policy itself beside them."""
    rng, embed = np.random.default_rng(0), embedder(text_dim)
    demos, records = [], []
    for number in range(2 * episodes):
        views, names, instruction, roles = episode(rng)
        actions, shown = rng.uniform(-1, 1, (STEPS, 7)).astype(np.float32), number < episodes
        if shown:
            demos.append(Demonstration(observed(views), actions, np.ones(STEPS, bool), names, instruction, roles))
        source = "demonstration" if shown else "targeted"
        starts, success = decisions(STEPS, executed), shown or number % 2 == 0
        records.append(EpisodeRecord(views, actions, starts, 0, success, source, names, instruction, roles, 1.0))
    table = experience.build(records, [sparse_labels(r) for r in records], embed, chunk, candidates)
    drawn = jax.random.uniform(jax.random.key(0), table.candidates.shape, minval=-1.0)
    stage = jax.random.randint(jax.random.key(1), table.stage.shape, 0, 4)
    table = dataclasses.replace(table, candidates=drawn, stage=stage, phi=stage.astype(jnp.float32))
    return dataset.build(demos, embed), table


def sentences(text_dim: int) -> LanguageSet:
    """Instructions without scenes."""
    rng = np.random.default_rng(1)
    pairs = [rng.choice(len(PAIRS), 2, replace=False) for _ in range(PHRASES)]
    phrases = [Phrase(f"move the {PAIRS[t]} to the {PAIRS[r]}, {i}", PAIRS[t], PAIRS[r]) for i, (t, r) in enumerate(pairs)]
    return language_set(phrases, PAIRS, embedder(text_dim), 256)
