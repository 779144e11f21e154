"""articulated: bring a joint to an end of its range, or to a share of it: open, close, a quarter, half, three quarters.

The target is also the goal's reference: there is no second thing. A goal pair is (relation, mechanism).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from coda_jax.programs.expressions import Expr
from coda_jax.programs.verifier import nu
from coda_jax.scenes import openings
from coda_jax.scenes.articulated import Articulated
from coda_jax.scenes.assets import Asset, Grasp
from coda_jax.scenes.catalogue import CATEGORIES, Catalogue
from coda_jax.scenes.families.base import APPROACH_M, Family, number_in
from coda_jax.scenes.families.joint_layouts import LAYOUTS
from coda_jax.scenes.families.joint_staging import JOINT
from coda_jax.scenes.families.steps import Goal, Margin, Phases, Rejected, Step
from coda_jax.scenes.placement import Footprint, closer_than, hand_boxes
from coda_jax.scenes.shapes.build import bounding_box
from coda_jax.scenes.spec import Articulation

if TYPE_CHECKING:
    from coda_jax.scenes.content import Author
    from coda_jax.scenes.tabletop import Tabletop

ON_THE_WAY = 0.12  # of the range: so far beyond the band of the goal the transport has arrived
START_SHARE = {"open": (0.0, 0.25), "close": (0.6, 1.0)}
START_AWAY = 0.3  # from the share that is asked for
NEAREST_HANDLE_M, FARTHEST_HANDLE_M = 0.29, 0.75  # x, and distance from the base, of a handle that a hand above it can hold
SAME_COLOUR = 0.5  # share of scenes in which a free thing has the target's colour
SECOND_THING = 0.5  # share of scenes with a support or container beside
JOINT_SHARE = (0.8, 1.25)  # damping and friction against the asset's
HANDLE_SHARE, RANGE_SHARE = (0.95, 1.1), (0.9, 1.0)

PAIRS = {
    ("open", "drawer"): "train",
    ("open", "door"): "train",
    ("open", "lid"): "train",
    ("open", "slider"): "train",
    ("open", "knob"): "train",
    ("close", "drawer"): "train",
    ("close", "lid"): "train",
    ("close", "slider"): "train",
    ("close", "lever"): "train",
    ("quarter", "drawer"): "train",
    ("quarter", "knob"): "train",
    ("half", "door"): "train",
    ("half", "knob"): "train",
    ("half", "slider"): "train",
    ("half", "lever"): "train",
    ("three_quarters", "lid"): "train",
    ("three_quarters", "lever"): "train",
    ("close", "door"): "validation",
    ("half", "lid"): "validation",
    ("three_quarters", "knob"): "validation",
    ("half", "drawer"): "test",
    ("quarter", "door"): "test",
    ("close", "knob"): "test",
    ("open", "lever"): "test",
}
_SHARES = {"quarter": "a quarter open", "half": "half open", "three_quarters": "three quarters open"}
PHRASES = {
    "open": {
        "train": (
            "open the {target}",
            "fully open the {target}",
            "bring the {target} to fully open",
            "move the {target} until it is open",
        ),
        "validation": ("the {target} should be open", "get the {target} to stay open"),
        "test": ("let me see the {target} wide open", "i want the {target} opened"),
    },
    "close": {
        "train": ("close the {target}", "shut the {target}", "bring the {target} to fully closed", "move the {target} until it is closed"),
        "validation": ("the {target} should be closed", "get the {target} to stay shut"),
        "test": ("let me see the {target} closed", "i want the {target} shut"),
    },
    **{
        relation: {
            "train": (
                f"bring the {{target}} to {words}",
                f"set the {{target}} {words}",
                f"leave the {{target}} {words}",
                f"move the {{target}} until it is {words}",
            ),
            "validation": (f"the {{target}} should be {words}", f"get the {{target}} to stay {words}"),
            "test": (f"let me see the {{target}} {words}", f"i want the {{target}} {words}"),
        }
        for relation, words in _SHARES.items()
    },
}
SAYS = {
    "open": frozenset({"open", "opened", "opens"}),
    "close": frozenset({"close", "closed", "shut"}),
    "quarter": frozenset({"quarter", "open"}),
    "half": frozenset({"half", "halfway", "open"}),
    "three_quarters": frozenset({"quarters", "three", "open"}),
}


class ArticulatedFamily(Family):
    name = "articulated"
    pairs, phrases, says, layouts, staging = PAIRS, PHRASES, SAYS, LAYOUTS, JOINT
    target_kinds = ("articulated",)

    # goals

    def expression(self, goal: Goal, assets: Mapping[str, Asset]) -> Expr:
        return openings.expression(goal.relation, goal.target)

    def parsed(self, expr: Expr) -> Goal | None:
        found = openings.parsed(expr)
        return None if found is None else Goal(found[0], found[1], found[1])

    def forms(self, target: str) -> str:
        low, high = openings.band("half")
        opening = f"opening({target})"
        return (
            f"at_least({opening}, {openings.OPEN_SHARE:g}) to open, at_most({opening}, {openings.CLOSED_SHARE:g}) to close, or "
            f"all_of(at_least({opening}, {low:g}), at_most({opening}, {high:g})) for half; a quarter and three quarters likewise"
        )

    def kind_of(self, goals: Sequence[Goal], assets: Mapping[str, Asset]) -> str:
        asset = assets[goals[0].target]
        return asset.mechanism if isinstance(asset, Articulated) else asset.kind

    def pairs_in(self, expr: Expr, assets: Mapping[str, Asset]) -> frozenset[tuple[str, str]]:
        """Goal pairs in any expression: of every part of it that is a goal of this family."""
        found = set()
        goals = self.goals(expr)
        if goals is not None and goals[0].target in assets:
            return frozenset({(goals[0].relation, self.kind_of(goals, assets))})
        for arg in expr.args:
            if isinstance(arg, Expr):
                found |= self.pairs_in(arg, assets)
        return frozenset(found)

    def other_tasks(self, goals: Sequence[Goal], assets: Mapping[str, Asset]) -> Iterator[tuple[Goal, ...]]:
        """Other trained relations of the same joint."""
        now = goals[0]
        for relation, kind in self.pairs_of("train"):
            if relation != now.relation and kind == self.kind_of(goals, assets):
                yield (Goal(relation, now.target, now.target),)

    # phases

    def phases_of(self, goal: Goal, expr: Expr, assets: Mapping[str, Asset]) -> Phases:
        """approach: grip point near the handle. grasp: both fingers touch. transport: the opening is near the band asked for. place: the
        goal. release: nu."""
        t, opening = goal.target, Expr("opening", (goal.target,))
        low, high = self._arrived(goal)
        limits = [Expr("at_least", (opening, low))] if low > 0 else []
        limits += [Expr("at_most", (opening, high))] if high < 1 else []
        return (
            ("approach", Expr("at_most", (Expr("distance", ("gripper", t)), round(_grip_reach(assets[t]), 3)))),
            ("grasp", Expr("at_least", (Expr("grasped", (t,)), 1.0))),
            ("transport", limits[0] if len(limits) == 1 else Expr("all_of", tuple(limits))),
            ("place", expr),
            ("release", nu(expr, t)),
        )

    def _arrived(self, goal: Goal) -> tuple[float, float]:
        low, high = openings.band(goal.relation)
        return round(max(low - ON_THE_WAY, 0.0), 3), round(min(high + ON_THE_WAY, 1.0), 3)

    def margins_of(self, goal: Goal, expr: Expr, assets: Mapping[str, Asset]) -> tuple[Margin, ...]:
        """The opening itself for an end of the range; for a share of it how near: 1 there, 0 as far away as the nearer end of the range."""
        t, opening = goal.target, Expr("opening", (goal.target,))
        reach = number_in(dict(self.phases_of(goal, expr, assets))["approach"])
        (low, high), (first, last) = openings.band(goal.relation), self._arrived(goal)
        if goal.relation in openings.SHARES:
            share = openings.SHARES[goal.relation]
            wide = min(share, 1.0 - share)
            value = Expr("minimum", tuple(Expr("ramp", (opening, share + side * wide, share)) for side in (-1, 1)))
            near, there = (round(1 - (edge - share) / wide, 3) for edge in (high + ON_THE_WAY, high))
            best = "largest"
        else:
            value, best = opening, "largest" if goal.relation == "open" else "smallest"
            near, there = (first, low) if goal.relation == "open" else (last, high)
        return (
            Margin("gripper_to_target", "approach", Expr("distance", ("gripper", t)), "smallest", reach, "m"),
            Margin("fingers_holding", "grasp", Expr("grasped", (t,)), "largest", 1.0, "share"),
            Margin("opening_near", "transport", value, best, near, "share"),
            Margin("opening", "place", value, best, there, "share"),
            Margin("fingers_on_target", "release", Expr("grasped", (t,)), "smallest", 0.0, "share"),
        )

    # places

    def holds(self, goal: Goal, target: Asset, reference: Asset) -> bool:
        return isinstance(target, Articulated)

    def places(self, step: Step) -> list[tuple[float, float]]:
        """The object stays where it is."""
        here = step.shapes[step.goal.target]
        return [(here.x, here.y)]

    def bottom(self, step: Step) -> float:
        return step.shapes[step.goal.target].bottom

    def offset(self, step: Step, grasp: Grasp, yaw_rad: float) -> tuple[float, float] | None:
        return (0.0, 0.0)

    def crowded(self, step: Step) -> str | None:
        """The open hand must have room at the handle of the closed, the half open and the open joint."""
        return "no room for the hand at the handle" if hand_blocked(step, (0.0, 0.5, 1.0)) else None

    def place_trouble(self, top: Tabletop, step: Step) -> str | None:
        name = step.goal.target
        start, end = top.places[name].opening or 0.0, openings.aim(step.goal.relation)
        if hit := hand_blocked(step, (start, end)):
            return f"{hit} would stand within the open hand at the handle of {name}"
        for share in (start, end):
            x, y = _handle(step, share)
            if x < NEAREST_HANDLE_M or math.hypot(x, y) > FARTHEST_HANDLE_M:
                return f"the handle of {name} would be out of reach, at ({x:.2f}, {y:.2f}), with the joint at {share:.2f} of its range"
        return None

    def size_limits(self, goals: Sequence[Goal], target: str, assets: Mapping[str, Asset]) -> dict[str, float]:
        return {}

    def drawn_from(self, relation: str, catalogue: Catalogue) -> tuple[tuple[str, ...], ...]:
        return (tuple(c for c in catalogue.categories("articulated")),)

    # scenes

    def compose(self, author: Author) -> None:
        """One articulated target, often a fixture beside it, and free things as the layout says."""
        relation, kind = author.choice(self.pairs_of(author.recipe.pairs))
        split = author.recipe.categories
        made = [c.name for c in CATEGORIES.values() if c.kind == "articulated" and c.split == split and _mechanism(c.name) == kind]
        if not made:
            raise Rejected(f"no {split} category of this mechanism")
        target = author.item(author.choice(made), "target", None)
        content, rng = author.content, author.rng
        if author.layout.fixtures and rng.random() < SECOND_THING:
            content.fixtures.append(
                author.item(author.choice(author.categories("support") + author.categories("container")), "other", None)
            )
        content.free.append(target)
        for n in range(author.count_of_others(0)):
            # one of the target's colour, often: only the category word tells them apart
            colour = content.colours[id(target)] if n == 0 and rng.random() < SAME_COLOUR else None
            content.free.append(author.item(author.choice(author.categories("object")), "other", colour))
        content.goals.append((relation, target, target))
        content.openings[id(target)] = _start(relation, rng)
        assert isinstance(target.asset, Articulated)
        content.articulations[id(target)] = _drawn(target.asset.articulation, rng)


def _mechanism(category: str) -> str:
    return getattr(CATEGORIES[category], "mechanism", "")


def _start(relation: str, rng) -> float:
    if relation in START_SHARE:
        return round(float(rng.uniform(*START_SHARE[relation])), 3)
    share = openings.SHARES[relation]
    below, above = max(share - START_AWAY, 0.0), max(1.0 - share - START_AWAY, 0.0)
    drawn = float(rng.uniform(0.0, below + above))
    return round(drawn if drawn < below else share + START_AWAY + drawn - below, 3)


def _drawn(joint: Articulation, rng) -> Articulation:
    damping, friction = (round(v * float(rng.uniform(*JOINT_SHARE)), 4) for v in (joint.damping, joint.friction))
    handle, travel = (round(float(rng.uniform(*share)), 3) for share in (HANDLE_SHARE, RANGE_SHARE))
    return Articulation(joint.stiffness, damping, friction, handle, travel)


def _grip_reach(asset: Asset) -> float:
    """Distance of the grip point from the middle of the handle at which the hand is there, m."""
    if not isinstance(asset, Articulated):
        return APPROACH_M
    low, high = bounding_box([asset.link.primitives[i] for i in asset.link.handle])
    middle = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
    return math.dist(middle, asset.grasps[0].pos_m) + APPROACH_M


def _handle(step: Step, share: float) -> tuple[float, float]:
    asset, here = step.target, step.shapes[step.goal.target]
    x, y, _ = asset.posed(share).grasps[0].pos_m if isinstance(asset, Articulated) else (0.0, 0.0, 0.0)
    c, s = math.cos(here.yaw), math.sin(here.yaw)
    return here.x + c * x - s * y, here.y + s * x + c * y


def hand_blocked(step: Step, shares: Sequence[float]) -> str | None:
    """What stands within the open hand at the target's handle, at some of the openings; None for nothing."""
    asset, here = step.target, step.shapes[step.goal.target]
    if not isinstance(asset, Articulated):
        return None
    others: dict[str, Footprint] = {n: s for n, s in step.shapes.items() if n != step.goal.target}
    for share in shares:
        (grasp,) = asset.posed(share).grasps
        fingers, palm = hand_boxes(grasp, here.x, here.y, here.yaw, here.bottom + asset.half_extent_m[2])
        for part in (*fingers, palm):
            hit = next((n for n, s in others.items() if s.top > part.bottom and closer_than(part, s, 0.002)), None)
            if hit is not None:
                return hit
    return None
