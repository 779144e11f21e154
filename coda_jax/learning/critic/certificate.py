"""Certificate: on a problem solved exactly, shaping moves every value by -beta Phi and changes nothing else (METHOD 2).

The problem is tabular and made of chunks: an agent on a line of cells has to touch its ends in turn, one end for each subgoal. A candidate
is a fixed sequence of moves. A chunk ends early at success, an impatient clock cuts some chunks short without ending the episode, and a
chunk that only moves away from its end jams the agent where it is, for good: there a wrong discount adds up longest. Both value functions
come from the very code that training uses, in float64. Four well-known mistakes are solved beside it: agreement of the best candidates
alone would not tell them apart.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np

from coda_jax.learning.critic import targets
from coda_jax.learning.critic.backup import Backup
from coda_jax.learning.critic.targets import Rule

TOLERANCE = 1e-12
MISTAKE_AT_LEAST = 0.2
_CELLS = 6
_CHUNK = 4


@dataclasses.dataclass(frozen=True)
class Certificate:
    """deviation: max |Q' - (Q - beta Phi)| of the target code. mistakes: the same with each mistake. low, high: range of Q'.

    same_choice: the best candidate of every state is the same with and without the potential.
    """

    deviation: float
    mistakes: dict[str, float]
    low: float
    high: float
    same_choice: bool

    @property
    def holds(self) -> bool:
        return self.deviation < TOLERANCE and self.same_choice

    @property
    def tells_mistakes(self) -> bool:
        """The problem is hard enough: no mistake would have passed."""
        return all(value > MISTAKE_AT_LEAST for value in self.mistakes.values())


@dataclasses.dataclass(frozen=True)
class Table:
    """Transitions of every state and candidate, flattened to n = states * j rows; h steps in a chunk.

    rewards, mask: [n, h]. terminal: [n]. phi: [states]; next_state: [n], a terminal's is any state. success_phi: Phi at success.
    """

    rewards: np.ndarray
    mask: np.ndarray
    terminal: np.ndarray
    phi: np.ndarray
    next_state: np.ndarray
    candidates: int
    success_phi: float


def ordered_subgoals(stages: int) -> Table:
    """The line of cells with ``stages`` ordered subgoals; state = (jammed, completed subgoals, cell).

    Raises:
      ValueError: fewer than one subgoal.
    """
    if stages < 1:
        raise ValueError(f"a problem of {stages} subgoals has nothing to solve; use at least 1")
    plans = np.array(list(itertools.product((-1, 1), repeat=_CHUNK)))
    states = list(itertools.product((False, True), range(stages), range(_CELLS)))
    rewards, mask = (np.zeros((len(states) * len(plans), _CHUNK)) for _ in range(2))
    terminal, next_state = np.zeros(len(rewards), bool), np.zeros(len(rewards), int)
    for row, ((jammed, done, cell), plan) in enumerate(itertools.product(states, plans)):
        patience = _CHUNK - 1 if (done + cell) % 3 == 0 else _CHUNK
        jammed = jammed or bool((plan == -_towards(done)).all())
        mask[row, :patience] = 1
        for i in range(0 if jammed else patience):
            cell = min(max(cell + plan[i], 0), _CELLS - 1)
            done += cell == _end(done)
            if done == stages:
                rewards[row, i], mask[row, i + 1 :], terminal[row] = 1.0, 0, True
                break
        next_state[row] = 0 if terminal[row] else states.index((jammed, done, cell))
    phi = np.array([done + 1 - (abs(cell - _end(done)) + 1) / (_CELLS + 1) for _, done, cell in states])
    return Table(rewards, mask.astype(bool), terminal, phi, next_state, len(plans), float(stages))


def _towards(done: int) -> int:
    return 1 if done % 2 == 0 else -1


def _end(done: int) -> int:
    return _CELLS - 1 if _towards(done) > 0 else 0


def solve(table: Table, update: Callable[[np.ndarray], np.ndarray], backup: Backup, contraction: float) -> np.ndarray:
    """Fixed point Q [states, j] of q = update(B[q](x')), iterated until float64 has nothing left to change."""
    q = np.zeros((len(table.phi), table.candidates))
    for _ in range(int(np.ceil(np.log(1e-17) / np.log(contraction)))):
        before, q = q, update(backup(q)[table.next_state]).reshape(q.shape)
        if np.array_equal(before, q):
            break
    return q


def certificate(rule: Rule, backup: Backup, stages: int = 2) -> Certificate:
    """Solve the problem of ``stages`` ordered subgoals with and without the potential, and with each mistake.

    Raises:
      ValueError: gamma is 1 (no fixed point is found), or fewer than one subgoal.
    """
    if rule.gamma == 1:
        raise ValueError("the certificate needs a gamma below 1: with 1 values have no unique fixed point")
    table = ordered_subgoals(stages)
    phi, next_phi = np.repeat(table.phi, table.candidates), table.phi[table.next_state]
    steps = table.mask.sum(-1)
    factor = targets.discount(steps, rule.gamma, rule.gamma_unit, np.float64)
    contraction = float(factor.max())

    def proper(rule: Rule) -> np.ndarray:
        def update(bootstrap: np.ndarray) -> np.ndarray:
            return targets.targets(rule, table.rewards, table.mask, table.terminal, phi, next_phi, bootstrap)

        return solve(table, update, backup, contraction)

    plain, shaped = proper(dataclasses.replace(rule, beta=0.0)), proper(rule)
    expected = plain - rule.beta * table.phi[:, None]

    def mistaken(shaping: np.ndarray) -> float:
        reward = targets.chunk_return(table.rewards, table.mask, rule.gamma, rule.gamma_unit)
        wrong = solve(table, lambda v: reward + shaping + targets.continues(table.terminal, factor * v), backup, contraction)
        return float(np.abs(wrong - expected).max())

    def shaping(discount: np.ndarray, reached: np.ndarray = next_phi, terminal: np.ndarray = table.terminal) -> np.ndarray:
        return targets.shaping(phi, reached, terminal, discount, rule.beta)

    one = np.ones_like(factor)
    mistakes = {
        "no discount of the potential": mistaken(shaping(one)),
        "a potential at the terminal": mistaken(
            shaping(factor, np.where(table.terminal, table.success_phi, next_phi), np.zeros_like(table.terminal))
        ),
        "clipped at zero": mistaken(np.maximum(shaping(factor), 0.0)),
    }
    if rule.gamma_unit == "step":
        mistakes["gamma instead of gamma^h"] = mistaken(shaping(rule.gamma * one))
    best, margin = np.partition(plain, -2, axis=-1)[:, -2:].T[::-1], TOLERANCE
    clear = best[0] - best[1] > margin  # ties may fall either way
    same = bool((shaped.argmax(-1) == plain.argmax(-1))[clear].all())
    return Certificate(
        deviation=float(np.abs(shaped - expected).max()),
        mistakes=mistakes,
        low=float(shaped.min()),
        high=float(shaped.max()),
        same_choice=same,
    )
