"""Chunked probe environments with known values, all in one table: the program's code names the state, the first action the candidate.

e = 4 executed of h = 8 actions, gamma 0.9 a control step, beta 0.5. Candidate 0 moves forward, candidate 1 backward.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

from coda_jax.learning.critic.backup import Backup
from coda_jax.learning.critic.batch import ProgramInput
from coda_jax.programs.training.limits import CODE_DIM
from tests.learning.critic import small
from tests.learning.critic.small import CHUNK, EXECUTED, J, Table

GAMMA, BETA = 0.9, 0.5
FORWARD, BACKWARD = 0, 1
PHI = {"started": 0.25, "half way": 1.5}


@dataclasses.dataclass(frozen=True)
class Step:
    """state, candidate -> successor (None: terminal) after ``steps`` control steps, with the reward at the end, and its known value."""

    probe: str
    state: str
    candidate: int
    steps: int
    reward: float
    successor: str | None
    value: float


def known(backup: Backup) -> list[Step]:
    """Every transition and its value under ``backup``, worked out by hand."""
    whole = GAMMA**3  # success in the fourth step of a chunk

    def best(forward: float, backward: float) -> float:
        return float(backup(np.array([forward, backward])))

    both = best(whole, whole)
    choice = best(whole, 0.0)
    # two subgoals: Q - beta Phi; from half way a chunk of three steps succeeds, going back loses the first subgoal
    succeed = GAMMA**2 - BETA * PHI["half way"]
    # plain values: half = {gamma^2, gamma^4 start}, start = {gamma^4 half, 0}; solved by iteration of the two numbers
    half, start = 0.0, 0.0
    for _ in range(500):
        half, start = best(GAMMA**2, GAMMA**4 * start), best(GAMMA**4 * half, 0.0)
    return [
        Step("constant", "constant", FORWARD, 4, 1.0, None, whole),
        Step("constant", "constant", BACKWARD, 4, 1.0, None, whole),
        Step("observation", "good", FORWARD, 4, 1.0, None, whole),
        Step("observation", "good", BACKWARD, 4, 1.0, None, whole),
        Step("observation", "bad", FORWARD, 4, 0.0, None, 0.0),
        Step("observation", "bad", BACKWARD, 4, 0.0, None, 0.0),
        Step("action", "choice", FORWARD, 4, 1.0, None, whole),
        Step("action", "choice", BACKWARD, 4, 0.0, None, 0.0),
        Step("delay", "before", FORWARD, 4, 0.0, "choice", GAMMA**4 * choice),
        Step("delay", "before", BACKWARD, 4, 0.0, "bad", 0.0),
        Step("inside", "early", FORWARD, 2, 1.0, None, GAMMA),
        Step("inside", "early", BACKWARD, 1, 1.0, None, 1.0),
        Step("time", "late", FORWARD, 2, 0.0, "constant", GAMMA**2 * both),  # a time-out: bootstraps, after two steps
        Step("time", "late", BACKWARD, 2, 0.0, None, 0.0),  # a terminal: does not
        Step("subgoals", "started", FORWARD, 4, 0.0, "half way", GAMMA**4 * half - BETA * PHI["started"]),
        Step("subgoals", "started", BACKWARD, 4, 0.0, None, -BETA * PHI["started"]),
        Step("subgoals", "half way", FORWARD, 3, 1.0, None, succeed),
        Step("subgoals", "half way", BACKWARD, 4, 0.0, "started", GAMMA**4 * start - BETA * PHI["half way"]),
    ]


def table(steps: list[Step]) -> Table:
    """The transitions as a table; one observation apart from "good" and "bad", which differ in it alone."""
    states = list(dict.fromkeys(s.state for s in steps))
    n, row = len(states), {name: i for i, name in enumerate(states)}
    rng = np.random.default_rng(0)
    obs = small.observation(rng, 1)
    obs = small.repeat(obs, n)
    obs = dataclasses.replace(obs, ee_pos=obs.ee_pos.at[row["bad"], 0].add(0.1))
    code = np.zeros((n, CODE_DIM), np.float32)
    code[np.arange(n), np.arange(n)] = 1.0
    code[row["bad"]] = code[row["good"]]
    phi = np.array([PHI.get(name, 0.0) for name in states], np.float32)
    chunks = np.zeros((J, CHUNK, 7), np.float32)
    chunks[FORWARD, :, 0], chunks[BACKWARD, :, 0] = 0.5, -0.5
    length = np.array([s.steps for s in steps])
    assert length.max() <= EXECUTED
    return Table(
        obs=obs,
        program=ProgramInput(jnp.asarray(phi, jnp.int32), jnp.asarray(phi % 1), jnp.asarray(code)),
        phi=jnp.asarray(phi),
        candidates=jnp.asarray(np.tile(chunks, (n, 1, 1, 1))),
        state=jnp.asarray([row[s.state] for s in steps]),
        successor=jnp.asarray([row[s.successor] if s.successor else 0 for s in steps]),
        actions=jnp.asarray(chunks[[s.candidate for s in steps]]),
        mask=jnp.asarray(np.arange(CHUNK) < length[:, None]),
        rewards=jnp.asarray((np.arange(CHUNK) == length[:, None] - 1) * np.array([[s.reward] for s in steps]), jnp.float32),
        terminal=jnp.asarray([s.successor is None for s in steps]),
        size=jnp.asarray(len(steps), jnp.int32),
    )
