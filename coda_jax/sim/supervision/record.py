"""A failed execution as an inspector reads it: who was held when, how everything stood, what touched what."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import jax
import numpy as np

from coda_jax.programs import expressions
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families import family_of, read_goals
from coda_jax.sim.compile import scene_assets, token_index
from coda_jax.sim.demonstrate import Trajectory
from coda_jax.sim.plan import is_ball, measured_step, rolls
from coda_jax.sim.state import rotation_matrices
from coda_jax.types import ARTICULATED_TOKEN, CONTROL_HZ, FREE_SLOTS, TABLE, WorldView

HANDLING = ("grasp", "carry", "lower", "move", "release", "retreat")
PLACE = 4  # column of the predicates: nu, then the phases approach, grasp, transport, place, release
_BEFORE = 6  # moments before an event in which its maker is looked for
_NEAR_HAND_M = 0.08


def runs_of(skills: np.ndarray) -> list[tuple[str, int, int]]:
    """Skill, first step and the step after the last one of every stretch of skills [t]."""
    edges = [0, *(np.flatnonzero(skills[1:] != skills[:-1]) + 1), len(skills)]
    return [(str(skills[a]), int(a), int(b)) for a, b in itertools.pairwise(edges)]


class Record:
    """Measures of one trajectory of ``t`` control steps, whose moments are numbered 0..t."""

    def __init__(self, trajectory: Trajectory, catalogue: Catalogue):
        self.trajectory, self.catalogue = trajectory, catalogue
        self.spec, self.views, self.skills = trajectory.episode.spec, trajectory.views, trajectory.skills
        self.steps = len(self.skills)
        self.goals = read_goals(self.spec)
        self.index = token_index(self.spec, catalogue)
        self.names = {token: name for name, token in self.index.items()}
        self.assets = dict(zip(self.spec.object_ids, scene_assets(self.spec, catalogue), strict=True))
        self.ee = np.asarray(self.views.ee_pos, float)
        self.pos = np.asarray(self.views.pos, float)
        self.targets = list(dict.fromkeys(g.target for g in self.goals))
        self._leans: dict[str, np.ndarray] = {}  # of this record alone, so that it ends with it

    def skill(self, moment: int) -> str:
        return str(self.skills[min(max(moment, 0), self.steps - 1)])

    def position(self, name: str) -> np.ndarray:
        """[t + 1, 3]."""
        return self.pos[:, self.index[name]]

    def held(self, name: str) -> np.ndarray:
        """[t + 1] bool, both fingers touch it."""
        return np.asarray(self.views.finger_contact[:, self.index[name]].all(1))

    @property
    def free(self) -> list[str]:
        """Ids of everything that may be moved, in the order of the scene."""
        return [n for n, token in self.index.items() if token < FREE_SLOTS]

    @property
    def jointed(self) -> bool:
        """Whether a joint is to be moved."""
        return self.index[self.goals[0].target] == ARTICULATED_TOKEN

    def lean(self, name: str) -> np.ndarray:
        """[t + 1] rad by which a thing is off the way it stands or lies; 0 for balls."""
        if name not in self._leans:
            self._leans[name] = self._lean(name)
        return self._leans[name]

    def _lean(self, name: str) -> np.ndarray:
        asset = self.assets[name]
        if is_ball(asset):
            return np.zeros(self.steps + 1)
        matrix = rotation_matrices(np.asarray(self.views.quat[:, self.index[name]], float))
        if rolls(asset):
            return np.arcsin(np.clip(np.abs(matrix[:, 2, 1]), 0, 1))
        return np.arccos(np.clip(matrix[:, 2, 2], -1, 1))

    def runs(self) -> list[tuple[str, int, int]]:
        """As ``runs_of``."""
        return runs_of(self.skills)

    def target_at(self, moment: int) -> str:
        """What is worked on: held last, or before that and while approaching the one that is held next, else the nearest target."""
        if len(self.targets) == 1:
            return self.targets[0]
        before = {n: np.flatnonzero(self.held(n)[: moment + 1]) for n in self.targets}
        after = {n: np.flatnonzero(self.held(n)[moment:]) for n in self.targets}
        coming = {n: int(found[0]) for n, found in after.items() if len(found)}
        past = {n: int(found[-1]) for n, found in before.items() if len(found)}
        if self.skill(moment) in HANDLING and past:
            return max(past, key=lambda n: past[n])
        if coming:
            return min(coming, key=lambda n: coming[n])
        away = {n: float(np.linalg.norm(self.position(n)[moment, :2] - self.ee[moment, :2])) for n in self.targets}
        return min(away, key=lambda n: away[n])

    def speed(self, moment: int) -> float:
        """Of the hand over the two control steps before a moment, m/s."""
        first = max(moment - 2, 0)
        return float(np.linalg.norm(self.ee[moment] - self.ee[first])) * CONTROL_HZ / max(moment - first, 1)

    def maker(self, name: str, moment: int) -> str:
        """What touched a thing last before a moment: a finger, another object, else the hand where it is near, or ""."""
        token = self.index[name]
        for k in range(moment, max(moment - _BEFORE, -1), -1):
            left, right = (bool(x) for x in self.views.finger_contact[k, token])
            if left or right:
                return "both fingers" if left and right else "left finger" if left else "right finger"
            touching = [self.names[i] for i in map(int, np.flatnonzero(self.views.contact[k, token])) if i != TABLE and i in self.names]
            if moving := [n for n in touching if any(self.held(n)[max(k - 2, 0) : k + 1])]:
                return moving[0]
        near = np.linalg.norm(self.ee[moment] - self.pos[moment, token])
        return "hand" if near < _NEAR_HAND_M else ""

    def rest_z(self, number: int, moment: int) -> float:
        """Height of the centre of a goal's target where it is to rest, m."""
        step = measured_step(self.spec, self.catalogue, self.views.pos[moment], self.views.quat[moment], number)
        return family_of(self.spec).bottom(step) + step.target.half_extent_m[2]

    def apart(self, number: int, moment: int) -> float:
        """Horizontal distance of a goal's target and reference, m."""
        goal = self.goals[number]
        gap = self.position(goal.target)[moment, :2] - self.position(goal.reference)[moment, :2]
        return float(math.hypot(*gap))

    def height(self, token: int, moment: int) -> float:
        """Half the height of a token's bounding box as it is turned, m."""
        matrix = rotation_matrices(np.asarray(self.views.quat[moment, token], float))
        return float(np.abs(matrix[2]) @ np.asarray(self.views.half_extent[moment, token], float))

    def goal_of(self, target: str) -> int:
        """Number of the first goal that moves a target."""
        return next(i for i, g in enumerate(self.goals) if g.target == target)

    def holds(self, number: int, moment: int) -> bool:
        """Whether a goal by itself holds at a moment, in whatever order the goals are reached."""
        if len(self.goals) == 1:
            return bool(self.trajectory.predicates[max(moment - 1, 0), PLACE] > 0.5)
        parts = [part for part in self.spec.task.goal.args if isinstance(part, expressions.Expr)]
        return goal_met(parts[number], self.index, self.views, moment)


def goal_met(goal: expressions.Expr, index: Mapping[str, int], views: WorldView, moment: int) -> bool:
    """Whether a goal holds at one moment of views [t + 1, ...]; ``index`` has the token of each id. One executable for every goal."""
    table = expressions.stack([expressions.encode([goal], index)])
    now = jax.tree.map(lambda leaf: np.asarray(leaf)[moment : moment + 1], views)
    return bool(np.asarray(expressions.evaluate(table, now))[0, 0] > 0.5)
