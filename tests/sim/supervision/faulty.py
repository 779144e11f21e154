"""Planners that do one thing wrong on purpose, so that every kind of remark is provoked in the real simulation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from coda_jax import config as settings
from coda_jax.loop import parts
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families import read_goals
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim import joint_planner, planner, planners
from coda_jax.sim.compile import token_index
from coda_jax.sim.demonstrate import Trajectory, demonstrate
from coda_jax.sim.simulator import episode_of
from coda_jax.sim.supervision.parameters import FIRST, PlanParameters

TRAIN, ALL = Catalogue("train"), Catalogue.all()
Fault = Callable[[Any, Any, np.ndarray], np.ndarray]  # (planner, view, action [7]) -> action of world 0


def executed(spec, fault: Fault | None = None, parameters: PlanParameters = FIRST, horizon: int | None = None) -> Trajectory:
    """One undisturbed episode of a scene, with a fault in the family's planner."""
    family = spec.task.family
    base = joint_planner.JointPlanner if family == "articulated" else planner.ScriptedPlanner

    class Faulty(base):  # pyright: ignore[reportGeneralTypeIssues]
        def act(self, view):
            actions = super().act(view)
            if fault is not None:
                actions[0] = np.clip(fault(self, view, actions[0].copy()), -1, 1)
            return actions

    config = settings.default()
    config.sim.worlds = 1
    sim = parts.native_simulator(config, ALL, parts.common_bucket([spec], ALL))
    kept = dict(planners._MAKERS)
    planners.register(family, cast(planners.Maker, Faulty))
    try:
        jobs = [episode_of(spec, horizon or settings.horizon(config, family), (0, 0))]
        (trajectory,) = demonstrate(sim, ALL, jobs, parts.planner_of(config), None, 0, lambda e: parameters)
    finally:
        planners._MAKERS.clear()
        planners._MAKERS.update(kept)
    return trajectory


def scene(family: str, holds: Callable = lambda spec, goals: True, first: int = 0):
    """The first training scene of a family for which ``holds(spec, goals)``."""
    for seed in range(first, first + 400):
        spec = sample_spec(TRAIN, family, "id", "train", seed)
        if holds(spec, read_goals(spec)):
            return spec
    raise AssertionError(f"no scene of {family} among 400")


def in_mode(name: str, change: Fault) -> Fault:
    """A fault that happens only while the planner is in a mode."""
    return lambda p, view, a: change(p, view, a) if p.mode_name(0) == name else a


def open_jaws(p, view, action):
    action[6] = -1.0
    return action


def stand_still(p, view, action):
    action[:6] = 0.0
    return action


def towards(point, view, action, speed: float = 1.0):
    """Move the grip point to a point [3] with the hand as it is."""
    away = (np.asarray(point) - view.ee_pos[0]) / 0.05
    action[:6] = 0.0
    action[:3] = away * min(1.0, speed / max(float(np.linalg.norm(away)), 1e-9))
    return action


def sweep(token_of: Callable, height: float, along: tuple[float, float]) -> Fault:
    """Go down beside a thing and push through it along a direction [2]."""
    state = {"phase": 0}

    def change(p, view, action):
        at = np.asarray(view.pos0[0, token_of(p)], float)
        beside = np.add(at, (-0.1 * along[0], -0.1 * along[1], height))
        if state["phase"] == 0:
            over = beside.copy()
            over[2] = max(float(view.ee_pos[0, 2]), 0.2) if np.linalg.norm((view.ee_pos[0] - beside)[:2]) > 0.02 else beside[2]
            if np.linalg.norm(view.ee_pos[0] - beside) < 0.02:
                state["phase"] = 1
            return towards(over, view, action)
        return towards(np.add(at, (0.15 * along[0], 0.15 * along[1], height)), view, action)

    return change


def target_token(p) -> int:
    return int(p._target[0])


def beside(spec) -> int | None:
    """Token of a free thing that no goal names, None without one."""
    goals = read_goals(spec)
    named = {n for g in goals for n in (g.target, g.reference)}
    index = token_index(spec, ALL)
    return next((token for name, token in index.items() if name not in named and token < 6), None)


def replaced_joint(spec, **values):
    """The scene with another articulation of its target."""
    objects = []
    for o in spec.attributes.objects:
        joint = getattr(o, "articulation", None)
        objects.append(o if joint is None else dataclasses.replace(o, articulation=dataclasses.replace(joint, **values)))
    attributes = dataclasses.replace(spec.attributes, objects=tuple(objects))
    return dataclasses.replace(spec, attributes=attributes)
