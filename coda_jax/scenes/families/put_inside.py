"""put_inside: one or two things into a container that may be narrower than the open hand; two of them in a stated order.

Each of two things has its own half of the container along its longer side, and the hand lets go with its jaws across that side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from coda_jax.scenes.assets import Asset, Grasp
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families.base import Family
from coda_jax.scenes.families.geometry import INSIDE_MARGIN_M, radius
from coda_jax.scenes.families.steps import Goal, Step
from coda_jax.scenes.layouts import LAYOUTS, Layout, Region
from coda_jax.scenes.placement import FINGER_BELOW_GRIP_M, FINGER_THICKNESS_M, OPEN_JAW_M, PALM_ABOVE_GRIP_M

if TYPE_CHECKING:
    from coda_jax.scenes.content import Author

NARROW_SCALE = (0.74, 0.92)  # of containers; those of the catalogue let the open hand in
SPACIOUS_SCALE = (1.0, 1.12)  # for two things
_NARROW, _SPACIOUS = 0.5, 0.3  # shares of such containers among those of one thing
_HAND_M = 2 * (OPEN_JAW_M + FINGER_THICKNESS_M) + 0.006  # the open jaws, with a little play
_TIP_PLAY_M = 0.002  # finger tips this far under the rim touch no wall
_NEXT = 0.6  # share of scenes of one thing with another one that would fit after it
_BETWEEN_M = 0.004  # two things in one container stay this far apart

PAIRS = {
    ("inside", "standing"): "train",
    ("inside", "rolling"): "train",
    ("both_inside", "standing"): "train",
    ("both_inside", "rolling_first"): "validation",
    ("both_inside", "rolling_last"): "test",
}
PHRASES = {
    "inside": {
        "train": (
            "stow the {target} in the {reference}",
            "pack the {target} into the {reference}",
            "put the {target} away in the {reference}",
            "store the {target} inside the {reference}",
        ),
        "validation": ("the {target} should end up in the {reference}", "tuck the {target} deep into the {reference}"),
        "test": ("make the {reference} hold the {target}", "hide the {target} within the {reference}"),
    },
    "both_inside": {
        "train": (
            "put the {target} and then the {second} in the {reference}",
            "load the {target} into the {reference} and after it the {second}",
            "first stow the {target} in the {reference} and then the {second}",
            "gather the {target} and next the {second} inside the {reference}",
        ),
        "validation": (
            "tidy up the {target} and later the {second} into the {reference}",
            "combine the {target} followed by the {second} inside the {reference}",
        ),
        "test": (
            "let the {reference} take up the {target} and finally the {second}",
            "collect the {target} plus afterwards the {second} within the {reference}",
        ),
    },
}


def _between(layout_id: str, fixtures: tuple[Region, Region], target: Region) -> Layout:
    """Clutter stands between the things and the containers."""
    middle = Region("middle", (0.36, 0.63), (-0.10, 0.10))
    return Layout(layout_id, "train", fixtures, target, (middle,), 0.035, 0.8, 0.35, (2, 4))


_LEFT, _RIGHT = LAYOUTS["fixtures_left"], LAYOUTS["fixtures_right"]
_OUTER_RIGHT = Region("right", (0.38, 0.60), (-0.22, -0.10))
OWN_LAYOUTS = (
    _between("between_left", _LEFT.fixtures, _OUTER_RIGHT),
    _between("between_right", _RIGHT.fixtures, _OUTER_RIGHT.mirrored()),
)


def hand_fits(target: Asset, container: Asset, width_m: float) -> bool:
    """Whether the hand can let go of a thing in a container: the open jaws have ``width_m``, or the finger tips stay above the rim."""
    if width_m >= _HAND_M:
        return True
    lowest = target.half_extent_m[2] + max((g.pos_m[2] for g in target.grasps), default=0.0) - FINGER_BELOW_GRIP_M
    return lowest + _TIP_PLAY_M >= 2 * container.cavity_half_m[2]


def under_the_rim(target: Asset, container: Asset) -> bool:
    """Whether a thing's centre comes to rest within the container."""
    return target.half_extent_m[2] + INSIDE_MARGIN_M <= 2 * container.cavity_half_m[2]


def both_fit(first: Asset, second: Asset, container: Asset) -> bool:
    """Whether two things stand in the two halves of a container, whatever their yaws, and the hand gets the second one in."""
    short, long = sorted(container.cavity_half_m[:2])
    if not all(under_the_rim(a, container) and hand_fits(a, container, 2 * short) for a in (first, second)):
        return False
    wide = max(radius(first), radius(second)) + INSIDE_MARGIN_M <= short
    deep = radius(first) + radius(second) + INSIDE_MARGIN_M + _BETWEEN_M / 2 <= long
    palm = second.half_extent_m[2] + max((g.pos_m[2] for g in second.grasps), default=0.0) + PALM_ABOVE_GRIP_M
    return wide and deep and 2 * first.half_extent_m[2] < palm


class PutInside(Family):
    name = "put_inside"
    pairs, phrases = PAIRS, PHRASES
    says = {"inside": Family.says["inside"]}  # noqa: RUF012
    most_targets = 2
    layouts = {**LAYOUTS, **{y.layout_id: y for y in OWN_LAYOUTS}}  # noqa: RUF012

    def relation_of(self, goals: Sequence[Goal]) -> str | None:
        if any(g.relation != "inside" for g in goals):
            return None
        if len(goals) == 1:
            return "inside"
        two = len(goals) == 2 and goals[0].target != goals[1].target and goals[0].reference == goals[1].reference
        return "both_inside" if two and goals[0].reference not in (goals[0].target, goals[1].target) else None

    def forms(self, target: str) -> str:
        return f"inside({target}, y), or all_of(inside({target}, y), inside(z, y)) for {target} first and z after it"

    def kind_of(self, goals: Sequence[Goal], assets: Mapping[str, Asset]) -> str:
        """What rolls: nothing ("standing"), the only one, the first, the last, or all."""
        rolls = ["rollable" in assets[g.target].affordances for g in goals]
        if not any(rolls):
            return "standing"
        return "rolling" if all(rolls) else "rolling_first" if rolls[0] else "rolling_last"

    def goal_trouble(self, expr, assets: Mapping[str, Asset]) -> str | None:
        goals = self.goals(expr) or ()
        if len(goals) == 2:
            a, b, c = (assets[n] for n in (goals[0].target, goals[1].target, goals[0].reference))
            if c.kind == "container" and not both_fit(a, b, c):
                both = f"{goals[0].target} and {goals[1].target}"
                return f"{both} do not fit into {goals[0].reference} together: ask for one of them, or for another container"
        return None

    def holds(self, goal: Goal, target: Asset, reference: Asset) -> bool:
        if reference.kind != "container" or "receives" in reference.affordances:
            return False
        short, long = sorted(reference.cavity_half_m[:2])
        return under_the_rim(target, reference) and radius(target) + INSIDE_MARGIN_M <= short and hand_fits(target, reference, 2 * long)

    def other_tasks(self, goals: Sequence[Goal], assets: Mapping[str, Asset]) -> Iterator[tuple[Goal, ...]]:
        """Another container, one thing more, the other order, or only the first thing."""
        fixtures = [n for n, a in assets.items() if a.kind == "container"]
        found = [tuple(Goal("inside", g.target, c) for g in goals) for c in fixtures if c != goals[0].reference]
        if len(goals) == 1:
            now = goals[0]
            others = [n for n, a in assets.items() if a.kind == "object" and a.grasps and n != now.target]
            found += [(now, Goal("inside", n, now.reference)) for n in others]
        else:
            found += [(goals[1], goals[0]), goals[:1]]
        for task in map(tuple, found):
            expr = self.task(task, assets)
            if (self.relation_of(task), self.kind_of(task, assets)) in self.pairs_of("train") and self.goal_trouble(expr, assets) is None:
                yield task

    def drawn_from(self, relation: str, catalogue: Catalogue) -> tuple[tuple[str, ...], ...]:
        things = self.drawable("object", catalogue)
        return things, self.drawable("container", catalogue), *([things] if relation == "both_inside" else [])

    def places(self, step: Step) -> list[tuple[float, float]]:
        shape = step.shapes[step.goal.reference]
        dx, dy = _half_offset(step)
        return [(shape.x + dx, shape.y + dy)]

    def offset(self, step: Step, grasp: Grasp, yaw_rad: float) -> tuple[float, float] | None:
        return None if len(step.goals) == 1 else _half_offset(step)

    def jaw_yaws(self, step: Step, grasp: Grasp) -> tuple[float, ...]:
        """Across the longer side for two things; along it where the open jaws find room only so; else any."""
        shape, (cx, cy, _) = step.shapes[step.goal.reference], step.reference.cavity_half_m
        along = shape.yaw + (0.0 if cx >= cy else math.pi / 2)
        if len(step.goals) == 2:
            return (along + math.pi / 2,)
        if hand_fits(step.target, step.reference, 2 * min(cx, cy)):
            return ()
        return (along,) if abs(cx - cy) > 1e-6 else (shape.yaw, shape.yaw + math.pi / 2)

    def compose(self, author: Author) -> None:
        relation, kind = author.choice(self.pairs_of(author.recipe.pairs))
        two = relation == "both_inside"
        rolls = {"standing": (False, False), "rolling": (True, True), "rolling_first": (True, False), "rolling_last": (False, True)}[kind]
        others = author.count_of_others(spare=2 if two else 1)
        draw = 1.0 if two else float(author.rng.random())
        scales = NARROW_SCALE if draw < _NARROW else SPACIOUS_SCALE if draw > 1 - _SPACIOUS else None
        author.add_fixtures("container", scales)
        c, reference = author.content, author.with_role("reference")
        single = Goal("inside", "", "")
        target = author.fitting(
            _that_roll(author, author.recipe.categories, rolls[0]), "target", lambda a: self.holds(single, a, reference.asset)
        )
        c.free.append(target)
        c.goals.append(("inside", target, reference))
        if two:
            categories = _that_roll(author, author.recipe.categories, rolls[1])
            second = author.fitting(categories, "target", lambda a: both_fit(target.asset, a, reference.asset))
            c.free.append(second)
            c.goals.append(("inside", second, reference))
        elif kind == "standing" and author.rng.random() < _NEXT:
            others -= author.next_one(_that_roll(author, "train", False), lambda a: both_fit(target.asset, a, reference.asset))
        for n in range(others):
            c.free.append(author.companion(target, "other", first=n == 0))


def _that_roll(author: Author, split: str, roll: bool) -> tuple[str, ...]:
    """Categories of a split that roll or do not; the training ones where the split has none."""
    rolling = author.categories("object", split, affords="rollable")
    found = rolling if roll else tuple(c for c in author.categories("object", split) if c not in rolling)
    return found or (author.categories("object", affords="rollable") if roll else found)


def _half_offset(step: Step) -> tuple[float, float]:
    """From the container's centre to where the target belongs, base frame, m."""
    if len(step.goals) == 1:
        return 0.0, 0.0
    shape, (cx, cy, _) = step.shapes[step.goal.reference], step.reference.cavity_half_m
    first, second = (radius(step.assets[g.target]) for g in step.goals)
    play = max(2 * max(cx, cy) - 2 * first - 2 * second, 0.0) / 3
    along = max(cx, cy) - play - first if step.number == 0 else -(max(cx, cy) - play - second)
    angle = shape.yaw + (0.0 if cx >= cy else math.pi / 2)
    return along * math.cos(angle), along * math.sin(angle)
