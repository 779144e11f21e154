"""Whether a scene is still a fair task as far as a spec alone can tell: room, reach, a free grasp, a place for the goal, plain names."""

from __future__ import annotations

import dataclasses
import itertools

from coda_jax.scenes.at_start import true_at_start
from coda_jax.scenes.families import Family, family_of
from coda_jax.scenes.families.steps import NoPlace, after
from coda_jax.scenes.placement import closer_than
from coda_jax.scenes.spec import SceneSpec
from coda_jax.scenes.tabletop import Tabletop

TOUCH_M = 0.004  # things closer than this may touch once they have settled


def trouble(spec: SceneSpec) -> str | None:
    """The first reason why the scene is no fair task, or None. Cheap checks come first; physics is not asked."""
    top = Tabletop(spec)
    family = family_of(spec)
    for name, place in top.places.items():
        x, y, _ = place.pos_m
        if not (family.workspace.reaches(x, y) if name in top.task_objects else family.workspace.takes(x, y)):
            return f"{name} would stand out of reach, at ({place.pos_m[0]:.2f}, {place.pos_m[1]:.2f})"
    for a, b in itertools.combinations(top.assets, 2):
        if closer_than(top.shapes[a], top.shapes[b], TOUCH_M) and family.may_touch(top, a, b):
            return f"{a} and {b} would be {top.gap(a, b):.3f} m apart, at least {TOUCH_M:g} m are needed"
    for goal in top.goals:
        if not family.holds(goal, top.assets[goal.target], top.assets[goal.reference]):
            return f"{goal.target} would not fit {'into' if goal.relation == 'inside' else 'onto'} {goal.reference}"
    if len(top.goals) > 1 and (reason := family.goal_trouble(spec.task.goal, top.assets)) is not None:
        return reason
    containers = [n for n, a in top.assets.items() if a.kind == "container"]
    if true_at_start(spec.task.goal, top.places, containers):
        return "the goal would hold at the start"
    for step in top.steps:
        if not family.can_be_held(step):
            return f"no grasp of {step.goal.target} would be free for the open hand"
        if (reason := family.place_trouble(top, step)) is not None:
            return reason
    return _later_trouble(top, family) if len(top.goals) > 1 else None


def _later_trouble(top: Tabletop, family: Family) -> str | None:
    """Why something cannot be held once what is moved before it stands in its place."""
    step = top.steps[0]
    for number in range(1, len(top.goals)):
        try:
            step = dataclasses.replace(after(family, step), number=number)
        except NoPlace as error:
            return str(error)
        if not family.can_be_held(step):
            return f"no grasp of {step.goal.target} would be free for the open hand once {top.goals[number - 1].target} is moved"
    return None
