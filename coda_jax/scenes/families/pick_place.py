"""pick_place: move the target on, into or beside a reference.

A goal has one of three forms and no other; ``goals_in`` reads any expression, for the refusal of held-out pairs alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from coda_jax.programs.expressions import RESERVED, Expr
from coda_jax.scenes.assets import Asset, Grasp
from coda_jax.scenes.families.base import PLACE_GAP_M, Family
from coda_jax.scenes.families.geometry import radius, reference_kind
from coda_jax.scenes.families.steps import Goal, NoPlace, Step
from coda_jax.scenes.placement import Footprint, closer_than, free_grasps, gap, hand_boxes, within_reach

if TYPE_CHECKING:
    from coda_jax.scenes.tabletop import Tabletop

SETTLES_M = 0.005  # by as much a thing, such as a ball, may move when nobody touches it
BESIDE_MARGIN_M = 0.05
BESIDE_LEFT_M = 0.03  # of it, for edits of size
BESIDE_SLACK_M = 0.008  # the free place for "beside" lies this far inside the limit
START_SLACK_M = 0.03  # and the target starts this far outside it
_ROOM_M = 0.005
_SIDES, _CHECKED_SIDES = 24, 12  # directions tried round the reference


PAIRS = {
    ("on", "support"): "train",
    ("inside", "container"): "train",
    ("beside", "landmark"): "train",
    ("beside", "support"): "validation",
    ("beside", "container"): "test",
}
PHRASES = {
    "on": {
        "train": (
            "put the {target} on the {reference}",
            "place the {target} on the {reference}",
            "move the {target} onto the {reference}",
            "set the {target} on top of the {reference}",
        ),
        "validation": ("the {target} belongs on the {reference}", "take the {target} and leave it on the {reference}"),
        "test": ("let the {target} rest on the {reference}", "i want to see the {target} standing on the {reference}"),
    },
    "inside": {
        "train": (
            "put the {target} in the {reference}",
            "place the {target} inside the {reference}",
            "drop the {target} into the {reference}",
            "move the {target} into the {reference}",
        ),
        "validation": ("the {target} belongs in the {reference}", "take the {target} and leave it inside the {reference}"),
        "test": ("fill the {reference} with the {target}", "i want to see the {target} within the {reference}"),
    },
    "beside": {
        "train": (
            "put the {target} next to the {reference}",
            "place the {target} beside the {reference}",
            "move the {target} close to the {reference}",
            "set the {target} down by the {reference}",
        ),
        "validation": ("the {target} belongs beside the {reference}", "take the {target} and leave it next to the {reference}"),
        "test": ("let the {target} stand alongside the {reference}", "i want to see the {target} right by the {reference}"),
    },
}
SAYS = {
    **Family.says,
    "beside": frozenset({"beside", "besides", "by", "next", "near", "close", "against", "alongside"}),
}


def beside_limit(target: Asset, reference: Asset) -> float:
    """Largest horizontal distance of the centres at which target counts as beside reference, m (rounded to a millimetre)."""
    return round(radius(target) + radius(reference) + BESIDE_MARGIN_M, 3)


def goals_in(goal: Expr) -> tuple[Goal, ...]:
    """Every relation between two objects that an expression asks for, in reading order."""
    found: list[Goal] = []
    if goal.op in ("on", "inside") and len(goal.args) == 2 and goal.args[1] != "table":
        found.append(Goal(goal.op, str(goal.args[0]), str(goal.args[1])))
    if goal.op in ("horizontal_distance", "distance") and len(goal.args) == 2 and not {"gripper", "table"} & set(goal.args):
        found.append(Goal("beside", str(goal.args[0]), str(goal.args[1])))
    for arg in goal.args:
        if isinstance(arg, Expr):
            found.extend(goals_in(arg))
    return tuple(found)


def _stated_limit(expr: Expr) -> float | None:
    """The largest distance that a "beside" goal allows, m; None for other goals."""
    near = expr.args[-1] if expr.op == "all_of" else None
    if not isinstance(near, Expr):
        return None
    return next(float(a) for a in near.args if isinstance(a, (int, float)))


class PickPlace(Family):
    name = "pick_place"
    pairs, phrases, says = PAIRS, PHRASES, SAYS

    def expression(self, goal: Goal, assets: Mapping[str, Asset]) -> Expr:
        """The goal as an expression; "beside" is measured with the radii of the scaled assets."""
        if goal.relation != "beside":
            return super().expression(goal, assets)
        t, r = goal.target, goal.reference
        near = Expr("at_most", (Expr("horizontal_distance", (t, r)), beside_limit(assets[t], assets[r])))
        return Expr("all_of", (Expr("on", (t, "table")), near))

    def parsed(self, expr: Expr) -> Goal | None:
        return super().parsed(expr) or _beside(expr)

    def forms(self, target: str) -> str:
        return (
            f"on({target}, y), inside({target}, y), or all_of(on({target}, table), at_most(horizontal_distance({target}, y), metres)), "
            f"which beside({target}, y) stands for"
        )

    def pairs_in(self, expr: Expr, assets: Mapping[str, Asset]) -> frozenset[tuple[str, str]]:
        """(relation, kind) of every relation in a goal; "beside" is read both ways, since distance is symmetric."""
        found = set()
        for g in goals_in(expr):
            if g.reference in assets:
                found.add((g.relation, reference_kind(assets[g.reference])))
            if g.relation == "beside" and g.target in assets and assets[g.target].kind != "object":
                found.add((g.relation, reference_kind(assets[g.target])))
        return frozenset(found)

    def goal_trouble(self, expr: Expr, assets: Mapping[str, Asset]) -> str | None:
        """Why the distance of a "beside" goal is no "beside" any more.

        Edits of size leave the limit as it was written, so it may lie BESIDE_MARGIN_M above what the present sizes give.
        """
        (goal,), stated = self.goals(expr) or ((None),), _stated_limit(expr)
        if goal is None or stated is None:
            return None
        most = beside_limit(assets[goal.target], assets[goal.reference]) + BESIDE_MARGIN_M
        if stated <= most:
            return None
        return f"the goal holds {stated:g} m apart, which is not beside: use at most {most:.3f} m"

    def transport_limit(self, goal: Goal, assets: Mapping[str, Asset]) -> float:
        if goal.relation == "beside":
            return beside_limit(assets[goal.target], assets[goal.reference])
        return super().transport_limit(goal, assets)

    def bottom(self, step: Step) -> float:
        return 0.0 if step.goal.relation == "beside" else super().bottom(step)

    def places(self, step: Step) -> list[tuple[float, float]]:
        """Over the reference, or the free places beside it."""
        if step.goal.relation != "beside":
            return super().places(step)
        mine, goal = step.shapes[step.goal.target], step.shapes[step.goal.reference]
        near = radius(step.target) + radius(step.reference)
        found = []
        for distance in (0.5 * (near + beside_limit(step.target, step.reference)), near + 0.01):
            for side in range(_CHECKED_SIDES):
                angle = 2 * math.pi * side / _CHECKED_SIDES
                x, y = goal.x + distance * math.cos(angle), goal.y + distance * math.sin(angle)
                place = dataclasses.replace(mine, x=x, y=y, bottom=0.0)
                if all(gap(place, s) > _ROOM_M for n, s in step.shapes.items() if n != step.goal.target):
                    found.append((x, y))
        return found

    def offset(self, step: Step, grasp: Grasp, yaw_rad: float) -> tuple[float, float] | None:
        return _beside_offset(step, grasp, yaw_rad) if step.goal.relation == "beside" else None

    def crowded(self, step: Step) -> str | None:
        if step.goal.relation != "beside":
            return super().crowded(step)
        target, reference = step.shapes[step.goal.target], step.shapes[step.goal.reference]
        limit = beside_limit(step.target, step.reference)
        if math.hypot(target.x - reference.x, target.y - reference.y) < limit + START_SLACK_M:
            return "goal true at the start"
        obstacles = [s for n, s in step.shapes.items() if n != step.goal.target]
        return None if _free_beside(step.target, target.yaw, reference, limit, obstacles) else "no free place beside the reference"

    def size_limits(self, goals: Sequence[Goal], name: str, assets: Mapping[str, Asset]) -> dict[str, float]:
        """A larger target has less of the margin that a "beside" goal leaves round both radii: BESIDE_LEFT_M of it must be left."""
        if goals[0].relation != "beside":
            return {}
        return {"the margin of its goal": 1 + (BESIDE_MARGIN_M - BESIDE_LEFT_M) / radius(assets[name])}

    def place_trouble(self, top: Tabletop, step: Step) -> str | None:
        if step.goal.relation != "beside":
            return super().place_trouble(top, step)
        target, reference = step.goal.target, step.goal.reference
        asset, place = top.assets[target], top.places[target]
        own = beside_limit(asset, top.assets[reference])
        stated = _stated_limit(top.spec.task.goal) or own
        limit = min(stated, own)
        if top.distance(target, reference) < stated + SETTLES_M:
            return "the goal would hold at the start, or when things have settled"
        obstacles = [s for n, s in top.shapes.items() if n != target]
        if _free_beside(asset, place.yaw_rad, top.shapes[reference], limit, obstacles):
            return None
        return f"no free place for {target} beside {reference} would be left"


def _beside(goal: Expr) -> Goal | None:
    match goal:
        case Expr(
            op="all_of",
            args=(
                Expr(op="on", args=(str(a), "table")),
                Expr(op="at_most", args=(Expr(op="horizontal_distance", args=(str(b), str(reference))), float() | int())),
            ),
        ) if a == b and not {a, reference} & RESERVED.keys():
            return Goal("beside", a, reference)
    return None


def _free_beside(asset: Asset, yaw_rad: float, reference: Footprint, limit: float, obstacles: Sequence[Footprint]) -> bool:
    """Whether the target and the open hand find room somewhere beside the reference."""
    distance, size = limit - BESIDE_SLACK_M, radius(asset)
    for angle in np.linspace(-math.pi, math.pi, _SIDES, endpoint=False):
        x, y = reference.x + distance * math.cos(angle), reference.y + distance * math.sin(angle)
        spot = Footprint(x, y, size, size, float(angle))
        clear = within_reach(x, y) and not any(closer_than(spot, o, PLACE_GAP_M) for o in obstacles)
        if clear and free_grasps(asset, x, y, yaw_rad, 0.0, list(obstacles)):
            return True
    return False


def _beside_offset(step: Step, grasp: Grasp, yaw_rad: float) -> tuple[float, float]:
    """Where beside the reference the target and the opening hand fit, nearest to where the target is now."""
    target, reference = step.shapes[step.goal.target], step.shapes[step.goal.reference]
    asset = step.target
    others = [f for name, f in step.shapes.items() if name != step.goal.target]
    limit = beside_limit(asset, step.reference)
    near = radius(asset) + radius(step.reference)
    best, best_cost = None, math.inf
    for distance in (0.5 * (near + limit), limit - 0.012, near + 0.012, 0.75 * near + 0.25 * limit, 0.8 * near):
        for side in range(_SIDES):
            angle = 2 * math.pi * side / _SIDES
            x, y = reference.x + distance * math.cos(angle), reference.y + distance * math.sin(angle)
            if not within_reach(x, y):
                continue
            place = dataclasses.replace(target, x=x, y=y, bottom=0.0)
            room = min((gap(place, f) for f in others), default=1.0)
            if room < 0.006:
                continue
            fingers, palm = hand_boxes(grasp, x, y, yaw_rad, asset.half_extent_m[2])
            hits = sum(f.top > part.bottom and gap(part, f) < 0.003 for part in (*fingers, palm) for f in others)
            cost = math.hypot(x - target.x, y - target.y) + 10.0 * hits + (0.2 if room < 0.012 else 0.0)
            if cost < best_cost:
                best, best_cost = (x - reference.x, y - reference.y), cost
        if best is not None and best_cost < 5.0:
            break
    if best is None:
        raise NoPlace(f"no free place beside {step.goal.reference}: move the clutter away from it")
    return best
