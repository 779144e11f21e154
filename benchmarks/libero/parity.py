"""States of the native simulator beside the official environment's, under the same actions."""

from __future__ import annotations

import dataclasses

import numpy as np

from benchmarks.libero.official import Official, random_actions
from coda_jax.scenes.libero import states, tasks
from coda_jax.sim.libero import models
from coda_jax.sim.libero.worlds import Worlds

TASKS = (
    *(("libero_object", k) for k in (0, 4, 8)),
    *(("libero_goal", k) for k in (1, 3, 6, 9)),
    *(("libero_spatial", k) for k in (0, 5, 8)),
)
STEPS = 100
NUDGE_RAD = 1e-15  # of one joint at the start


@dataclasses.dataclass(frozen=True)
class Parity:
    """Largest differences of a coordinate over an episode. worst: after the same actions from the same start. own: of the official
    environment against itself, begun with one joint NUDGE_RAD further. step: after one policy step from the official state before it.
    contacts: steps in which the robot touched something."""

    task: str
    worst: float
    own: float
    step: float
    contacts: int


def compare(suite: str, number: int, seed: int, steps: int = STEPS, motion: float = 1.0) -> Parity:
    """One of a task's initial states under random actions, of which ``motion`` is the largest."""
    task = tasks.tasks(suite)[number]
    model = models.load(task)
    state = states.read(task.init, 1 + model.model.nq + model.model.nv)[seed % 50]
    actions = motion * random_actions(np.random.default_rng(seed), steps)
    official, worlds, lent = Official(task), Worlds([model], threads=1), Worlds([model], threads=1)
    try:
        official.start(state, model.model)
        worlds.place(state[None])
        lent.place(state[None])
        worst, single, visited, contacts = 0.0, 0.0, [], 0
        for i, action in enumerate(actions):
            if i:
                official.lend(lent)
            official.step(action)
            worlds.step(action[None])
            lent.step(action[None])
            visited.append(np.array(official.data.qpos))
            worst = max(worst, float(np.abs(visited[-1] - worlds.qpos[0]).max()))
            single = max(single, float(np.abs(visited[-1] - lent.qpos[0]).max()))
            contacts += official.robot_touches()
        nudged = state.copy()
        nudged[1] += NUDGE_RAD
        official.start(nudged, model.model)
        own = 0.0
        for action, before in zip(actions, visited, strict=True):
            official.step(action)
            own = max(own, float(np.abs(before - official.data.qpos).max()))
    finally:
        official.close()
    return Parity(task.key, worst, own, single, contacts)
