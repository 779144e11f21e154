"""Every predicate of a scene, step by step, native beside official: random episodes, placed starts, and a hand that picks and places."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator

import jax
import mujoco
import numpy as np

from benchmarks.libero.official import Official, atoms, random_actions
from coda_jax.programs import expressions
from coda_jax.scenes.libero import states, tasks
from coda_jax.scenes.libero.bddl import Atom
from coda_jax.scenes.libero.goals import to_expression
from coda_jax.sim.libero import layout, models
from coda_jax.sim.libero.control import ARM, FINGERS
from coda_jax.sim.libero.layout import Layout
from coda_jax.sim.libero.models import TaskModel
from coda_jax.sim.libero.view import Reader
from coda_jax.sim.libero.worlds import Worlds
from coda_jax.types import TOKENS

TASKS = (("libero_goal", 3), ("libero_goal", 6), ("libero_spatial", 0), ("libero_spatial", 5), ("libero_object", 0))
STEPS = 40
RIM_M = np.array([0.0, 0.048, 0.038])  # of a bowl, from its origin: where the fingers straddle it
BOWL_STEPS = 150
_STILL = np.array([0.0, 0, 0, 0, 0, 0, -1])


@dataclasses.dataclass
class Tally:
    """episodes, steps: compared. checks: single predicates. unequal: of them, each step from the official state before it; worst_m: largest
    difference of a coordinate then. free_unequal: of them where both ran freely from the start, apart_m: and how far apart the states were
    at least then. held, changed: by kind, how often one held, and how often one began or ceased to hold between two steps. kinds: kind to
    episodes in which one of it held at some step."""

    episodes: int = 0
    steps: int = 0
    checks: int = 0
    unequal: int = 0
    worst_m: float = 0.0
    free_unequal: int = 0
    apart_m: float = np.inf
    held: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    changed: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    kinds: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    wrong: list[str] = dataclasses.field(default_factory=list)


class Native:
    """One world of a task with all its predicates."""

    def __init__(self, task: TaskModel, judged: list[Atom]):
        self.worlds, self.layout = Worlds([task], threads=1), layout.of(task)
        self.reader = Reader([(self.worlds, np.arange(1))], [self.layout], np.ones((1, TOKENS)))
        exprs = [to_expression(a) for a in judged]
        size = expressions.MAX_PREDICATES
        groups = [exprs[i : i + size] for i in range(0, len(exprs), size)]
        self._table = expressions.stack([expressions.encode(g, self.layout.index) for g in groups])  # as many worlds, all with one view
        self._count = len(exprs)

    def holds(self) -> np.ndarray:
        """[atoms] bool of the present moment."""
        view = self.reader.read(np.zeros(1, np.int32))
        repeated = jax.tree.map(lambda leaf: np.repeat(leaf, len(self._table.rows), 0), view)
        return np.asarray(expressions.evaluate(self._table, repeated)).reshape(-1)[: self._count] > 0.5


def kind(atom: Atom, found: Layout) -> str:
    """What a predicate is counted as."""
    if atom.predicate == "on":
        return "On(site)" if found.index[atom.names[1]] >= TOKENS else "On"
    return {"in": "In", "open": "Open", "close": "Close", "turnon": "TurnOn", "turnoff": "TurnOff"}[atom.predicate]


def placed(task: TaskModel, state: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A start at which predicates are about to change: a thing let go over another or over a region, drawers and knobs in motion."""
    found, model = layout.of(task), task.model
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = state[1 : 1 + model.nq], state[1 + model.nq :]
    for j in range(ARM + FINGERS, model.njnt):
        if model.jnt_type[j] != mujoco.mjtJoint.mjJNT_FREE:
            q, v = model.jnt_qposadr[j], model.jnt_dofadr[j]
            low, high = model.jnt_range[j]
            data.qpos[q] = rng.choice([0.0, -0.001, 0.004, rng.uniform(low, high), -0.139 if low < -0.1 else 0.49])
            data.qvel[v] = rng.normal(0.0, 3.0)
    mujoco.mj_kinematics(model, data)
    free = np.flatnonzero(found.free)
    used = np.flatnonzero(found.region)
    for o in rng.permutation(free)[: rng.integers(1, 3)]:
        at = found.free_q[o]
        drop = np.array([*rng.uniform(-0.02, 0.02, 2), rng.uniform(0.0, 0.08)])
        if rng.uniform() < 0.5:
            target = data.site_xpos[found.site[rng.choice(used)]]
        else:
            other = rng.choice([i for i in free if i != o])
            target = data.xpos[found.body[other]]
        data.qpos[at : at + 3] = target + drop
    return np.concatenate([state[:1], data.qpos, data.qvel])


def scripted(native: Native, target: str, goal: str, over_m: float, rim: bool) -> Iterator[np.ndarray]:
    """Actions of a hand that sees everything: over the thing, down, close, up, over the goal, open. One at a time."""
    worlds, found = native.worlds, native.layout
    thing, place = found.body[found.index[target]], found.body[found.index[goal]]
    grasp = RIM_M if rim else np.zeros(3)

    def towards(point: np.ndarray, grip: float) -> np.ndarray:
        return np.array([*np.clip(20 * (point - worlds.grip_pos[0]), -1, 1), 0, 0, 0, grip])

    for _ in range(10):
        yield _STILL
    for height, steps, grip in ((0.12, 25, -1.0), (0.0, 20, -1.0), (0.0, 15, 1.0)):
        for _ in range(steps):
            yield towards(worlds.xpos[0, thing] + grasp + [0, 0, height], grip)
    top = worlds.grip_pos[0] + [0, 0, 0.2]
    for _ in range(20):
        yield towards(top, 1.0)
    held = worlds.grip_pos[0] - worlds.xpos[0, thing]
    for height, steps, grip in ((0.2, 30, 1.0), (over_m, 15, 1.0), (over_m, 15, -1.0)):
        for _ in range(steps):
            yield towards(worlds.xpos[0, place] + held + [0, 0, height], grip)


def episode(
    official: Official,
    native: Native,
    lent: Native,
    judged: list[Atom],
    start: np.ndarray,
    actions: Iterable[np.ndarray],
    tally: Tally,
) -> None:
    """Run one episode in both and count."""
    task = native.worlds.tasks[0]
    official.start(start, task.model)
    native.worlds.place(start[None])
    lent.worlds.place(start[None])
    before = None
    seen: set[str] = set()
    tally.episodes += 1
    for i, action in enumerate(actions):
        if i:
            official.lend(lent.worlds)
        official.step(action)
        native.worlds.step(action[None])
        lent.worlds.step(action[None])
        theirs, ours = official.holds(judged), lent.holds()
        qpos = official.data.qpos
        tally.steps += 1
        tally.checks += len(judged)
        tally.worst_m = max(tally.worst_m, float(np.abs(qpos - lent.worlds.qpos[0]).max()))
        for a in np.flatnonzero(theirs != ours):
            tally.unequal += 1
            tally.wrong.append(f"{task.key} step {i}: {judged[a]} is {bool(theirs[a])} officially")
        if apart := int((theirs != native.holds()).sum()):
            tally.free_unequal += apart
            tally.apart_m = min(tally.apart_m, float(np.abs(qpos - native.worlds.qpos[0]).max()))
        for a, atom in enumerate(judged):
            name = kind(atom, native.layout)
            tally.held[name] += int(theirs[a])
            if theirs[a]:
                seen.add(name)
            if before is not None:
                tally.changed[name] += int(theirs[a] != before[a])
        before = theirs
    tally.kinds.update(seen)


def compare(suite: str, number: int, episodes: int, seed: int, tally: Tally) -> None:
    """Episodes of one task: a hand that picks and places, then by turns placed starts and random motion from the suite's states."""
    task = tasks.tasks(suite)[number]
    model = models.load(task)
    rows = states.read(task.init, 1 + model.model.nq + model.model.nv)
    official = Official(task)
    try:
        judged = atoms(official, model)
        native, lent = Native(model, judged), Native(model, judged)
        rng = np.random.default_rng([seed, number])
        goal = task.problem().goal[0]
        for i in range(episodes):
            start = rows[int(rng.integers(len(rows)))]
            if i % 10 == 0:
                soup = suite == "libero_object"
                target, to = (goal.names[0], "basket_1") if soup else ("akita_black_bowl_1", "plate_1")
                actions = scripted(native, target, to, 0.12 if soup else 0.02, rim=not soup)
                episode(official, native, lent, judged, start, actions, tally)
            elif i % 3:
                acted = np.tile(_STILL, (STEPS, 1)) if i % 2 else 0.5 * random_actions(rng, STEPS)
                episode(official, native, lent, judged, placed(model, start, rng), acted, tally)
            else:
                episode(official, native, lent, judged, start, random_actions(rng, STEPS), tally)
    finally:
        official.close()
