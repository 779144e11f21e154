"""What a rollout gives, whatever loop it ran in."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from coda_jax.sim.simulator import Episode
from coda_jax.types import Array, WorldView


@dataclasses.dataclass(frozen=True)
class Result:
    """One finished episode of ``t`` control steps and ``k`` decisions.

    predicates: [t, p] after each step, column 0 is nu. qpos: [t, q] after each step. actions: [t, 7] as the policy gave them (the
    simulator clips to [-1, 1]). executed: [k] steps of each chunk. prefix: how many of the ``t`` steps were the prefix's.
    views: the t + 1 moments (sim/recording.py), chunks: [k, h, 7] as the policy gave them, whole; None without a record.
    clipped: action entries outside [-1, 1]. health: bit flags; a flagged episode is no success: evaluation
    counts it as a failure, and how many there were is reported apart.
    """

    episode: Episode
    success: bool
    predicates: np.ndarray
    qpos: np.ndarray
    actions: np.ndarray
    executed: np.ndarray
    clipped: int
    health: int
    prefix: int
    views: WorldView | None
    chunks: np.ndarray | None

    @property
    def steps(self) -> int:
        return len(self.predicates)


@dataclasses.dataclass
class Timings:
    """Where the wall time of rollouts goes, s."""

    physics_s: float = 0.0
    policy_s: float = 0.0
    refill_s: float = 0.0
    total_s: float = 0.0


@jax.jit
def decision_keys(key: Array, pairs: Array, decision: Array) -> Array:
    """Keys [b] folded from (scene, repeat) pairs [b, 2] and the decision's number [b]."""

    def one(pair, k):
        return jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(key, pair[0]), pair[1]), k)

    return jax.vmap(one)(pairs, decision)


def whole_chunks(episode: Episode, executed: int) -> int:
    """Chunks of the episode's prefix; actions that do not fill one are left to the policy."""
    return 0 if episode.prefix is None else len(episode.prefix) // executed


@dataclasses.dataclass
class Pieces:
    """What was seen so far of one running episode, a piece for each chunk."""

    predicates: list[np.ndarray] = dataclasses.field(default_factory=list)
    qpos: list[np.ndarray] = dataclasses.field(default_factory=list)
    actions: list[np.ndarray] = dataclasses.field(default_factory=list)
    whole: list[np.ndarray] = dataclasses.field(default_factory=list)
    clipped: int = 0

    def add(self, predicates: np.ndarray, qpos: np.ndarray, actions: np.ndarray, clipped: int, whole: np.ndarray) -> None:
        """The n control steps [n, ...] of a chunk, action entries outside [-1, 1], and the chunk [h, 7] that the policy gave."""
        self.predicates.append(predicates)
        self.qpos.append(qpos)
        self.actions.append(actions)
        self.whole.append(whole)
        self.clipped += clipped

    def result(self, episode: Episode, success: bool, health: int, executed: int, views: WorldView | None) -> Result:
        """The episode, which ends here. executed: control steps carried out of each whole chunk."""
        lengths = np.array([len(a) for a in self.actions], np.int32)
        return Result(
            episode=episode,
            success=success,
            predicates=np.concatenate(self.predicates),
            qpos=np.concatenate(self.qpos),
            actions=np.concatenate(self.actions),
            executed=lengths,
            clipped=self.clipped,
            health=health,
            prefix=min(whole_chunks(episode, executed) * executed, int(lengths.sum())),
            views=views,
            chunks=None if views is None else np.stack(self.whole).astype(np.float32),
        )
