"""Whether a scene is still a fair task as far as a spec alone can tell: room, reach, a free grasp, a place for the goal, plain names."""

from __future__ import annotations

import itertools
import math

import numpy as np

from coda_jax.programs.expressions import Expr
from coda_jax.scenes.arrange import BESIDE_SLACK_M, PLACE_GAP_M
from coda_jax.scenes.at_start import true_at_start
from coda_jax.scenes.families import beside_limit, can_hold, radius
from coda_jax.scenes.placement import Footprint, closer_than, free_grasps, within_reach
from coda_jax.scenes.spec import SceneSpec
from coda_jax.scenes.tabletop import Tabletop

TOUCH_M = 0.004  # things closer than this may touch once they have settled
TABLE_X_M, TABLE_Y_M = (0.3, 0.7), (-0.3, 0.3)  # where things that nobody has to reach may stand
_SIDES = 24


def trouble(spec: SceneSpec) -> str | None:
    """The first reason why the scene is no fair task, or None. Cheap checks come first; physics is not asked."""
    top = Tabletop(spec)
    target, reference = top.goal.target, top.goal.reference
    for name, place in top.places.items():
        x, y, _ = place.pos_m
        on_table = TABLE_X_M[0] <= x <= TABLE_X_M[1] and TABLE_Y_M[0] <= y <= TABLE_Y_M[1]
        if not (within_reach(x, y) if name in (target, reference) else on_table):
            return f"{name} would stand out of reach, at ({place.pos_m[0]:.2f}, {place.pos_m[1]:.2f})"
    for a, b in itertools.combinations(top.assets, 2):
        if closer_than(top.shapes[a], top.shapes[b], TOUCH_M) and b in top.neighbours(a):
            return f"{a} and {b} would be {top.gap(a, b):.3f} m apart, at least {TOUCH_M:g} m are needed"
    if not can_hold(top.goal.relation, top.assets[target], top.assets[reference]):
        return f"{target} would not fit {'into' if top.goal.relation == 'inside' else 'onto'} {reference}"
    containers = [n for n, a in top.assets.items() if a.kind == "container"]
    if true_at_start(spec.task.goal, top.places, containers):
        return "the goal would hold at the start"
    if not top.free_grasps(target):
        return f"no grasp of {target} would be free for the open hand"
    if top.goal.relation == "beside":
        return _beside_trouble(top)
    near = [n for n in top.neighbours(reference) if n != target and closer_than(top.shapes[reference], top.shapes[n], PLACE_GAP_M)]
    return f"{near[0]} would stand too close to {reference} to put something there" if near else None


def stated_limit(goal: Expr) -> float | None:
    """The largest horizontal distance that a "beside" goal allows, m; None where it states none."""
    if goal.op == "at_most" and isinstance(goal.args[0], Expr) and goal.args[0].op in ("horizontal_distance", "distance"):
        return float(goal.args[1]) if isinstance(goal.args[1], (int, float)) else None
    found = (stated_limit(a) for a in goal.args if isinstance(a, Expr))
    return next((limit for limit in found if limit is not None), None)


def _beside_trouble(top: Tabletop) -> str | None:
    target, reference = top.goal.target, top.goal.reference
    asset, place = top.assets[target], top.places[target]
    limit = min(stated_limit(top.spec.task.goal) or math.inf, beside_limit(asset, top.assets[reference]))
    if top.distance(target, reference) < limit:
        return "the goal would hold at the start"
    obstacles = [s for n, s in top.shapes.items() if n != target]
    distance, size = limit - BESIDE_SLACK_M, radius(asset)
    x0, y0, _ = top.places[reference].pos_m
    for angle in np.linspace(-math.pi, math.pi, _SIDES, endpoint=False):
        x, y = x0 + distance * math.cos(angle), y0 + distance * math.sin(angle)
        spot = Footprint(x, y, size, size, float(angle))
        clear = within_reach(x, y) and not any(closer_than(spot, o, PLACE_GAP_M) for o in obstacles)
        if clear and free_grasps(asset, x, y, place.yaw_rad, 0.0, obstacles):
            return None
    return f"no free place for {target} beside {reference} would be left"
