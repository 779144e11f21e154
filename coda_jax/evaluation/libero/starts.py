"""How the suites' initial states begin in this MuJoCo: stepped without a command, and asked whether the goal holds or nearly does.

Predicates are computed here once more, from names in the model alone, for every task of the twenty suites: the expression machine knows the
things of the three benchmarks only.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Mapping, Sequence

import mujoco
import numpy as np
from jaxtyping import Bool, Float

from coda_jax.evaluation.libero.lint import Starts
from coda_jax.runtime import InputError
from coda_jax.scenes.libero import tasks
from coda_jax.scenes.libero.bddl import Atom, Problem
from coda_jax.sim.libero import models
from coda_jax.sim.libero.models import TaskModel
from coda_jax.sim.libero.worlds import Worlds

SETTLE_STEPS = 40  # policy steps, 2 s
SUNK_M, SLID_M, FALLEN_RAD, RESTLESS_M_S = 0.01, 0.03, 0.35, 0.02
NUDGE = 0.01  # m or rad
ROOT = "_main"
WORKSPACE_X_M = {"libero_study_tabletop_manipulation": -0.2}  # middle of a workspace in the world, where it is not 0


class Goal:
    """A task's goal on MuJoCo's own arrays. LIBERO's formulas: see METHOD, and programs for the same on the expression machine."""

    def __init__(self, model: mujoco.MjModel, problem: Problem):
        self._model, self._atoms = model, problem.goal
        self._things = [t.name for t in (*problem.objects, *problem.fixtures)]
        self._sites = {model.site(i).name: i for i in range(model.nsite)}
        self._roots = {n: model.body(n + ROOT).id for n in self._things if _has_body(model, n + ROOT)}

    def holds(self, data: mujoco.MjData) -> bool:
        """Whether every atom does, with ``data`` forwarded."""
        return all(self._atom(data, atom) for atom in self._atoms)

    def _atom(self, data: mujoco.MjData, atom: Atom) -> bool:
        first = atom.names[0]
        if atom.predicate in ("open", "close"):
            values = self._joints(data, first)
            return any(v < -0.14 for v in values) if atom.predicate == "open" else all(v > 0 for v in values)
        if atom.predicate in ("turnon", "turnoff"):
            values = self._joints(data, first)
            return any(v >= 0.5 for v in values) if atom.predicate == "turnon" else all(v < 0 for v in values)
        if atom.predicate not in ("on", "in"):
            raise InputError(f"{atom} is asked by no task of these suites")
        point, other = data.xpos[self._roots[first]], atom.names[1]
        if other in self._roots:
            apart = point - data.xpos[self._roots[other]]
            return bool(apart[2] >= 0 and math.hypot(apart[0], apart[1]) < 0.03 and self._touch(data, first, other))
        site = self._sites[other]
        offset, rotation = point - data.site_xpos[site], data.site_xmat[site].reshape(3, 3)
        size = self._model.site_size[site]
        if atom.predicate == "in":
            half = abs(rotation @ size)
            return bool((offset < half).all() and (offset > -half - [0, 0, 0.01]).all())
        x, y, z = rotation @ offset
        over = size[2] - 0.005 < z < size[2] + 0.10 and abs(x) < size[0] and abs(y) < size[1]
        parent = next((n for n in self._things if other.startswith(n + "_")), None)
        return bool(over and (parent not in self._roots or parent is None or self._touch(data, first, parent)))

    def _joints(self, data: mujoco.MjData, name: str) -> list[float]:
        """Values of the joints that a region, or a thing, moves with."""
        model = self._model
        if name in self._sites:
            bodies = [model.site_bodyid[self._sites[name]]]
        else:
            bodies = [b for b in range(model.nbody) if model.body_rootid[b] == self._roots[name]]
        return [float(data.qpos[model.jnt_qposadr[j]]) for j in range(model.njnt) if model.jnt_bodyid[j] in bodies]

    def _touch(self, data: mujoco.MjData, a: str, b: str) -> bool:
        roots = {self._roots[a], self._roots[b]}
        bodies = self._model.body_rootid[self._model.geom_bodyid]
        return any({int(bodies[c.geom1]), int(bodies[c.geom2])} == roots for c in data.contact[: data.ncon])

    def nudges(self) -> list[tuple[int, bool]]:
        """Coordinates that a nudge shifts, and whether their joint has limits: all single joints of fixtures, and where the goal's free
        things stand."""
        model, found = self._model, []
        for j in range(model.njnt):
            body, at = model.jnt_bodyid[j], int(model.jnt_qposadr[j])
            name = model.body(model.body_rootid[body]).name.removesuffix(ROOT)
            if name in self._roots and model.jnt_type[j] != mujoco.mjtJoint.mjJNT_FREE:
                found.append((at, True))
            elif any(name in a.names for a in self._atoms):
                found += [(at, False), (at + 1, False)]
        return found


def _has_body(model: mujoco.MjModel, name: str) -> bool:
    return mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name) >= 0


@functools.lru_cache(maxsize=8)
def _worlds(task: TaskModel, count: int) -> Worlds:
    return Worlds([task] * count, threads=1)


def placed_fixtures(task: TaskModel, problem: Problem) -> mujoco.MjModel:
    """The task's model with every fixture in the middle of its region: states do not say where fixtures stand."""
    model, middle = copy.copy(task.model), WORKSPACE_X_M.get(problem.name, 0.0)
    kinds = {t.name for t in problem.fixtures}
    for atom in problem.init:
        name = atom.names[0]
        if atom.predicate != "on" or name not in kinds or atom.names[1] not in problem.region_names:
            continue
        region = problem.region(atom.names[1])
        if not region.ranges:
            continue
        x0, y0, x1, y1 = region.ranges[0]
        yaw = sum(region.yaw_rad) / 2
        body = model.body(name + ROOT)
        body.pos = (middle + (x0 + x1) / 2, (y0 + y1) / 2, body.pos[2])
        body.quat = (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))
    return model


def shared_models(suites: Sequence[str]) -> dict[str, str]:
    """Tasks that need no compiled model of their own: a source task has the same things, and fixtures are placed anyway."""
    found = {}
    for suite in suites:
        for task in tasks.tasks(suite):
            try:
                source = tasks.task(f"{tasks.family_of(suite)}/{task.name}")
                mine, other = task.problem(), source.problem()
            except InputError:  # the lint tells it
                continue
            if (mine.name, mine.objects, mine.fixtures) == (other.name, other.objects, other.fixtures):
                found[task.key] = source.key
    return found


def deepest(data: mujoco.MjData) -> float:
    """How deep anything is inside anything else, m."""
    return max((-float(c.dist) for c in data.contact[: data.ncon]), default=0.0)


def examine(model_of: Mapping[str, str] | None = None, every: int = 5, settle_steps: int = SETTLE_STEPS):
    """What asks the simulator, for ``lint.lint``: every ``every``-th state of a task, stepped for ``settle_steps`` policy steps.

    Args:
      model_of: key of the task whose compiled model serves instead of the task's own: one with the same things. None for its own.
    """

    def physics(task: tasks.Task, problem: Problem, rows: Float[np.ndarray, "n q"]) -> Starts:
        try:
            key = (model_of or {}).get(task.key, task.key)
            own = models.load(tasks.task(key))
            return _examined(own, problem, rows[::every], settle_steps)
        except InputError as error:
            return Starts(error=str(error))

    return physics


def _examined(task: TaskModel, problem: Problem, rows: Float[np.ndarray, "n q"], settle_steps: int) -> Starts:
    model = placed_fixtures(task, problem)
    if rows.shape[1] != 1 + model.nq + model.nv:
        raise InputError(f"its states have {rows.shape[1]} numbers, its model {1 + model.nq + model.nv}")
    goal, data = Goal(model, problem), mujoco.MjData(model)
    begun = np.array([_forward(model, data, row[1 : 1 + model.nq]) and deepest(data) > SUNK_M for row in rows])
    worlds = _worlds(task, len(rows))
    worlds.set_tasks([task] * len(rows), [model] * len(rows))
    worlds.place(rows)
    still = np.zeros((len(rows), 7))
    still[:, 6] = -1.0
    for _ in range(tasks.SETTLE_STEPS):
        worlds.step(still)
    ready = np.array(worlds.qpos)
    solved, nudged = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    for i, qpos in enumerate(ready):
        solved[i] = _forward(model, data, qpos) and goal.holds(data)
        nudged[i] = not solved[i] and _nudged(model, data, goal, qpos)
    for _ in range(settle_steps - tasks.SETTLE_STEPS):
        worlds.step(still)
    fallen, moved, restless = _settled(model, rows[:, 1 : 1 + model.nq], np.array(worlds.qpos), np.array(worlds.qvel))
    return Starts(
        tried=len(rows),
        solved=int(solved.sum()),
        nudged=int(nudged.sum()),
        sunk=int(begun.sum()),
        fallen=int(fallen.sum()),
        moved=int(moved.sum()),
        restless=int(restless.sum()),
    )


def _forward(model: mujoco.MjModel, data: mujoco.MjData, qpos: np.ndarray) -> bool:
    data.qpos[:], data.qvel[:] = qpos, 0.0
    mujoco.mj_forward(model, data)
    return True


def _nudged(model: mujoco.MjModel, data: mujoco.MjData, goal: Goal, qpos: np.ndarray) -> bool:
    for at, limited in goal.nudges():
        for way in (-NUDGE, NUDGE):
            shifted = qpos.copy()
            shifted[at] += way
            if limited:
                joint = int(np.flatnonzero(model.jnt_qposadr == at)[0])
                shifted[at] = np.clip(shifted[at], *model.jnt_range[joint])
            if _forward(model, data, shifted) and goal.holds(data):
                return True
    return False


def _settled(
    model: mujoco.MjModel, first: Float[np.ndarray, "n q"], last: Float[np.ndarray, "n q"], speeds: Float[np.ndarray, "n v"]
) -> tuple[Bool[np.ndarray, " n"], Bool[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Of every state: whether a free thing turned over, went sideways, or still moves."""
    fallen, moved, restless = (np.zeros(len(first), bool) for _ in range(3))
    for j in np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE):
        at, v = model.jnt_qposadr[j], model.jnt_dofadr[j]
        up = [_up(q[:, at + 3 : at + 7], first[:, at + 3 : at + 7]) for q in (first, last)]
        fallen |= np.arccos(np.clip((up[0] * up[1]).sum(1), -1, 1)) > FALLEN_RAD
        moved |= np.hypot(*(last[:, at : at + 2] - first[:, at : at + 2]).T) > SLID_M
        restless |= np.linalg.norm(speeds[:, v : v + 3], axis=1) > RESTLESS_M_S
    return fallen, moved, restless


def _up(quat: Float[np.ndarray, "n 4"], start: Float[np.ndarray, "n 4"]) -> Float[np.ndarray, "n 3"]:
    """Where what pointed up at the start points now: yaw does not count."""
    found = np.zeros((len(quat), 3))
    local, back = np.zeros(3), np.zeros(4)
    for i, (q, s) in enumerate(zip(quat, start, strict=True)):
        mujoco.mju_negQuat(back, s / np.linalg.norm(s))
        mujoco.mju_rotVecQuat(local, np.array([0.0, 0.0, 1.0]), back)
        mujoco.mju_rotVecQuat(found[i], local, q / np.linalg.norm(q))
    return found
