"""stack_insert: one thing on another, a tower of three, or a peg into a socket, within a stated distance of its axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from coda_jax.programs.expressions import RESERVED, Expr
from coda_jax.scenes.assets import Asset, Grasp
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families.base import Family
from coda_jax.scenes.families.steps import Gate, Goal, Step
from coda_jax.scenes.fit import clearance_m, fits
from coda_jax.scenes.phrases import PLACES

if TYPE_CHECKING:
    from coda_jax.scenes.content import Author

TOLERANCE_M = 0.012  # largest distance of a peg's centre from the socket's axis
LEAST_TOLERANCE_M = 0.002
TALLEST_M = 0.24  # of a tower
_NEXT = 0.6  # share of stacks of two with a third thing that would go on top
_OVERHANG = 1.25  # widest half side of what is stacked, in narrowest half sides of what it stands on

PAIRS = {
    ("stacked", "box"): "train",
    ("stacked", "round"): "train",
    ("tower", "box"): "train",
    ("inserted", "hole"): "train",
    ("tower", "round_base"): "validation",
    ("tower", "round_middle"): "test",
}
PHRASES = {
    "stacked": {
        "train": (
            "stack the {target} on the {reference}",
            "pile the {target} onto the {reference}",
            "balance the {target} on the {reference}",
            "build a stack with the {target} on top of the {reference}",
        ),
        "validation": ("top the {reference} with the {target}", "the {target} goes straight up on the {reference}"),
        "test": ("crown the {reference} with the {target}", "use the {reference} as a base for the {target}"),
    },
    "tower": {
        "train": (
            "build a tower of the {reference} then the {target} then the {second}",
            "build up from the {reference} with the {target} and next the {second}",
            "pile up the {reference} with the {target} on it and the {second} as the last",
            "make a tower with the {reference} below the {target} in the middle and the {second} above",
        ),
        "validation": (
            "a tower from bottom to top the {reference} the {target} the {second}",
            "heap the {target} over the {reference} before adding the {second}",
        ),
        "test": (
            "erect a column out of the {reference} the {target} plus the {second}",
            "the {second} belongs highest above the {target} which sits on the {reference}",
        ),
    },
    "inserted": {
        "train": (
            "insert the {target} into the {reference}",
            "push the {target} into the {reference}",
            "fit the {target} in the {reference}",
            "stick the {target} into the {reference}",
        ),
        "validation": ("the {reference} needs the {target} in its hole", "sink the {target} into the {reference}"),
        "test": ("plug the {reference} with the {target}", "slot the {target} home in the {reference}"),
    },
}


def is_round(asset: Asset) -> bool:
    """Whether every primitive of a thing is round and upright or a ball, so that it has no sides."""
    return all(p.shape in ("cylinder", "sphere") for p in asset.primitives)


def can_stack(upper: Asset, lower: Asset) -> bool:
    """Whether a thing stands safely on another one: its base must not overhang much, whatever its yaw."""
    return max(upper.half_extent_m[:2]) <= _OVERHANG * min(lower.half_extent_m[:2])


class StackInsert(Family):
    name = "stack_insert"
    pairs, phrases = PAIRS, PHRASES
    says = {  # noqa: RUF012
        "on": Family.says["on"],
        "inserted": frozenset({"in", "into", "inside"}),
    }
    most_targets = 2
    drop_m = 0.003

    def expression(self, goal: Goal, assets: Mapping[str, Asset]) -> Expr:
        if goal.relation == "inserted":
            return inserted(goal.target, goal.reference, TOLERANCE_M)
        return super().expression(goal, assets)

    def parsed(self, expr: Expr) -> Goal | None:
        match expr:
            case Expr(
                op="all_of",
                args=(
                    Expr(op="inside", args=(str(a), str(r))),
                    Expr(op="at_most", args=(Expr(op="horizontal_distance", args=(str(b), str(s))), float() | int())),
                ),
            ) if a == b and r == s and not {a, r} & RESERVED.keys():
                return Goal("inserted", a, r)
        found = super().parsed(expr)
        return found if found is not None and found.relation == "on" else None

    def relation_of(self, goals: Sequence[Goal]) -> str | None:
        relations = [g.relation for g in goals]
        if relations == ["inserted"]:
            return "inserted"
        if relations == ["on"]:
            return "stacked"
        tower = relations == ["on", "on"] and goals[1].reference == goals[0].target
        return "tower" if tower and goals[1].target not in (goals[0].target, goals[0].reference) else None

    def forms(self, target: str) -> str:
        return (
            f"on({target}, y), all_of(on({target}, y), on(z, {target})) for z on {target} on y, or "
            f"all_of(inside({target}, y), at_most(horizontal_distance({target}, y), metres)) for a socket y"
        )

    def kind_of(self, goals: Sequence[Goal], assets: Mapping[str, Asset]) -> str:
        """Of an inserted peg "hole"; else which of the things that carry another is round: none ("box"), or which."""
        if goals[0].relation == "inserted":
            return "hole"
        if any(assets[g.reference].kind != "object" for g in goals):
            return "fixture"
        base, middle = is_round(assets[goals[0].reference]), len(goals) == 2 and is_round(assets[goals[0].target])
        if len(goals) == 1:
            return "round" if base else "box"
        return "round" if base and middle else "round_base" if base else "round_middle" if middle else "box"

    def goal_trouble(self, expr: Expr, assets: Mapping[str, Asset]) -> str | None:
        goals = self.goals(expr) or ()
        if (stated := tolerance_of(expr)) is not None and not LEAST_TOLERANCE_M <= stated <= TOLERANCE_M:
            return f"the goal asks for {stated:g} m from the socket's axis: use {LEAST_TOLERANCE_M:g} to {TOLERANCE_M:g} m"
        if len(goals) == 2:
            names = (goals[0].reference, goals[0].target, goals[1].target)
            tall = sum(2 * assets[n].half_extent_m[2] for n in names)
            if tall > TALLEST_M:
                return f"a tower of {', '.join(names)} is {tall:.2f} m high, at most {TALLEST_M:g} m can be built: use shorter things"
        return None

    def holds(self, goal: Goal, target: Asset, reference: Asset) -> bool:
        if goal.relation == "inserted":
            return fits(target, reference)
        return reference.kind == "object" and not is_ball_like(reference) and can_stack(target, reference)

    def transport_limit(self, goal: Goal, assets: Mapping[str, Asset]) -> float:
        return max(super().transport_limit(goal, assets), 0.02)

    def drawn_from(self, relation: str, catalogue: Catalogue) -> tuple[tuple[str, ...], ...]:
        if relation == "inserted":
            pegs, holes = (tuple(dict.fromkeys(a.category for a in catalogue if k in a.affordances)) for k in ("insertable", "receives"))
            return pegs, holes
        marked = tuple(dict.fromkeys(a.category for a in catalogue if "stackable" in a.affordances))
        return (marked,) * (3 if relation == "tower" else 2)

    def second_reference(self, relation: str) -> int:
        return PLACES.index("target")

    def other_tasks(self, goals: Sequence[Goal], assets: Mapping[str, Asset]) -> Iterator[tuple[Goal, ...]]:
        """Another base or hole, one thing more on top, another order of a tower, or only its lower part."""
        now = goals[0]
        if now.relation == "inserted":
            found = [(Goal("inserted", now.target, n),) for n, a in assets.items() if fits(assets[now.target], a)]
        else:
            free = [n for n, a in assets.items() if a.kind == "object" and a.grasps]
            found = [(Goal("on", now.target, n),) for n in free if n != now.target]
            found += [(now, Goal("on", n, now.target)) for n in free if n not in (now.target, now.reference)]
            if len(goals) == 2:
                a, b, c = goals[1].target, now.target, now.reference
                found += [(Goal("on", y, z), Goal("on", x, y)) for x, y, z in ((b, a, c), (c, b, a), (a, c, b))]
        for task in map(tuple, found):
            if task == tuple(goals) or (self.relation_of(task), self.kind_of(task, assets)) not in self.pairs_of("train"):
                continue
            if self.goal_trouble(self.task(task, assets), assets) is None:
                yield task

    def bottom(self, step: Step) -> float:
        if step.goal.relation != "inserted":
            return super().bottom(step)
        as_inside = Goal("inside", step.goal.target, step.goal.reference)
        return super().bottom(Step(0, (as_inside,), step.assets, step.shapes))

    def jaw_yaws(self, step: Step, grasp: Grasp) -> tuple[float, ...]:
        """A peg with sides goes in with its sides along the hole's, turned by 90 degrees where that fits too."""
        if step.goal.relation != "inserted" or is_round(step.target):
            return ()
        yaw = step.shapes[step.goal.reference].yaw + grasp.yaw_rad
        hx, hy, _ = step.target.half_extent_m
        return (yaw, yaw + math.pi / 2) if abs(hx - hy) < 1e-6 else (yaw,)

    def gate(self, step: Step) -> Gate | None:
        if step.goal.relation != "inserted":
            return None
        play = clearance_m(step.target, step.reference)
        return Gate(2 * step.reference.cavity_half_m[2] + 0.006, max(0.6 * play, 0.001))

    def compose(self, author: Author) -> None:
        relation, kind = author.choice(self.pairs_of(author.recipe.pairs))
        if relation == "inserted":
            _compose_insertion(author)
        else:
            _compose_stack(author, relation, kind)


def inserted(peg: str, socket: str, tolerance_m: float) -> Expr:
    """The goal of a peg in its socket, with its centre at most ``tolerance_m`` from the axis."""
    near = Expr("at_most", (Expr("horizontal_distance", (peg, socket)), tolerance_m))
    return Expr("all_of", (Expr("inside", (peg, socket)), near))


def tolerance_of(expr: Expr) -> float | None:
    """The distance that an insertion's goal allows, m; None for other goals."""
    last = expr.args[-1] if expr.op == "all_of" else None
    return float(last.args[1]) if isinstance(last, Expr) and last.op == "at_most" and isinstance(last.args[1], (int, float)) else None


def is_ball_like(asset: Asset) -> bool:
    """Whether nothing stands on a thing: its highest primitive is round in every direction."""
    highest = max(asset.primitives, key=lambda p: p.pos_m[2])
    return highest.shape in ("sphere", "ellipsoid", "capsule")


def _stackables(author: Author, split: str) -> tuple[str, ...]:
    return author.categories("object", split, affords="stackable") or author.categories("object", affords="stackable")


def _compose_stack(author: Author, relation: str, kind: str) -> None:
    """What is moved first, what it goes on, what goes on top, and bystanders; ``kind`` says which of them is round."""
    c, rng = author.content, author.rng
    others = author.count_of_others(spare=3 if relation == "tower" else 2)
    author.add_fixtures("landmark")
    round_base, round_middle = kind in ("round", "round_base"), kind == "round_middle"
    base = author.fitting(_stackables(author, "train"), "reference", lambda a: is_round(a) == round_base)

    def stands(a: Asset) -> bool:
        return can_stack(a, base.asset) and (relation != "tower" or is_round(a) == round_middle)

    target = author.fitting(_stackables(author, author.recipe.categories), "target", stands)
    c.free.extend((target, base))
    c.goals.append(("on", target, base))
    if relation == "tower":
        below = 2 * (base.asset.half_extent_m[2] + target.asset.half_extent_m[2])

        def tops(a: Asset) -> bool:
            return can_stack(a, target.asset) and below + 2 * a.half_extent_m[2] <= TALLEST_M

        second = author.fitting(_stackables(author, author.recipe.categories), "target", tops)
        c.free.append(second)
        c.goals.append(("on", second, target))
    elif rng.random() < _NEXT and not is_round(target.asset):
        others -= author.next_one(_stackables(author, "train"), lambda a: can_stack(a, target.asset))
    for n in range(others):
        c.free.append(author.companion(target, "other", first=n == 0 and bool(rng.random() < 0.5)))


def _compose_insertion(author: Author) -> None:
    """A peg, its socket, and a second fixture to choose from: another socket or something else."""
    c, rng = author.content, author.rng
    others = author.count_of_others()
    pegs = author.categories("object", author.recipe.categories, affords="insertable")
    holes = author.categories("container", affords="receives")
    if author.layout.raised:
        c.fixtures.append(author.item("stand", "other", None))
    reference = author.item(author.choice(holes), "reference", None)
    c.fixtures.append(reference)
    if not author.layout.raised:
        other = holes if rng.random() < 0.5 else author.categories("support") + author.categories("container")
        c.fixtures.append(author.item(author.choice(other), "other", None))
        if rng.random() < 0.5:
            c.fixtures.reverse()
    categories = pegs or author.categories("object", affords="insertable")
    target = author.fitting(categories, "target", lambda a: fits(a, reference.asset))
    c.free.append(target)
    c.goals.append(("inserted", target, reference))
    for n in range(others):
        c.free.append(author.companion(target, "other", first=n == 0 and bool(rng.random() < 0.5)))
