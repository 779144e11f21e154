"""What a family of tasks is: everything in the code that depends on the task asks the scene's family.

The defaults are those of moving one thing on or into another; a family says what is different (docs/families.md).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from coda_jax.programs.errors import quote
from coda_jax.programs.expressions import RESERVED, Expr, shown
from coda_jax.programs.verifier import nu
from coda_jax.scenes.assets import Asset, Grasp
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families.geometry import can_hold, floor_above_centre, middle, reference_kind
from coda_jax.scenes.families.staging import LIFTED_M, MOVING, Staging
from coda_jax.scenes.families.steps import Gate, Goal, Margin, Phases, Rejected, Step, combined, success
from coda_jax.scenes.layouts import LAYOUTS, Layout
from coda_jax.scenes.phrases import COLOURS, PLACES, Template, noun
from coda_jax.scenes.placement import OWN_TABLE, Footprint, Workspace, closer_than, gap, grasps_among

if TYPE_CHECKING:  # these modules ask families
    from coda_jax.scenes.content import Author
    from coda_jax.scenes.spec import SceneSpec
    from coda_jax.scenes.tabletop import Tabletop

TABLETOP = "tabletop"  # the platform of our own families
APPROACH_M = 0.03  # the grip point is this close to a grasp
PLACE_GAP_M = 0.012  # room round a reference to put something there


class Family:
    """One family of tasks.

    name: as scenes state it. platform: where its scenes are simulated (sim/platforms.py).
    pairs: goal pairs (relation of the whole task, kind) with their split; held-out ones ask for a known motion in a combination that was
    never trained. phrases: relation to split to texts of templates. says: relation to the words of free text
    that say it; others are refused. target_kinds: kinds of assets that may be moved. most_targets: things that one task moves at most.
    drop_m: height above its resting place at which a thing is let go.
    staging: subgoals of its potentials. barred: affordances of things that the generator does not draw. workspace: where things stand.
    verbs: names of the edit verbs that make sense in its scenes; None for all that name no other families. densities_kg_m3: between which
    an edit makes things, by the volume of their primitives.
    """

    name: ClassVar[str]
    platform: ClassVar[str] = TABLETOP
    pairs: ClassVar[Mapping[tuple[str, str], str]] = {}
    phrases: ClassVar[Mapping[str, Mapping[str, tuple[str, ...]]]] = {}
    says: ClassVar[Mapping[str, frozenset[str]]] = {
        "on": frozenset({"on", "onto"}),
        "inside": frozenset({"in", "into", "inside", "within"}),
    }
    target_kinds: ClassVar[tuple[str, ...]] = ("object",)
    most_targets: ClassVar[int] = 1
    drop_m: ClassVar[float] = 0.005
    staging: ClassVar[Staging] = MOVING
    layouts: ClassVar[Mapping[str, Layout]] = LAYOUTS
    barred: ClassVar[frozenset[str]] = frozenset({"receives"})
    workspace: ClassVar[Workspace] = OWN_TABLE
    verbs: ClassVar[frozenset[str] | None] = None
    densities_kg_m3: ClassVar[tuple[float, float]] = (110.0, 2800.0)

    @functools.cached_property
    def templates(self) -> tuple[Template, ...]:
        """Every phrasing, in a fixed order."""
        return tuple(
            Template(f"{relation}_{split}_{i}", self.name, relation, split, text)
            for relation, by_split in self.phrases.items()
            for split, texts in by_split.items()
            for i, text in enumerate(texts)
        )

    def pairs_of(self, split: str) -> tuple[tuple[str, str], ...]:
        """Goal pairs of a split, in a fixed order."""
        return tuple(pair for pair, s in self.pairs.items() if s == split)

    def layouts_of(self, split: str) -> tuple[Layout, ...]:
        """Layouts of a split, in a fixed order."""
        return tuple(layout for layout in self.layouts.values() if layout.split == split)

    # goals

    def expression(self, goal: Goal, assets: Mapping[str, Asset]) -> Expr:
        """One goal as an expression over object ids; assets are the scaled ones by id.

        Raises:
          ValueError: the family has no such relation.
        """
        if goal.relation in ("on", "inside"):
            return Expr(goal.relation, (goal.target, goal.reference))
        raise ValueError(f"{self.name} has no relation {goal.relation!r}: use {_listed(self.phrases)}")

    def parsed(self, expr: Expr) -> Goal | None:
        """The goal that ``expression`` wrote, or None for any other expression."""
        if expr.op not in ("on", "inside") or len(expr.args) != 2:
            return None
        target, reference = expr.args
        if not isinstance(target, str) or not isinstance(reference, str) or {target, reference} & RESERVED.keys():
            return None
        return Goal(expr.op, target, reference)

    def relation_of(self, goals: Sequence[Goal]) -> str | None:
        """The relation of the whole task, as templates and pairs call it; None where the family has no such task."""
        return goals[0].relation if len(goals) == 1 and goals[0].relation in self.phrases else None

    def forms(self, target: str) -> str:
        """What a goal about ``target`` may look like, for messages."""
        return " or ".join(f"{r}({target}, y)" for r in self.phrases)

    def goals(self, expr: Expr) -> tuple[Goal, ...] | None:
        """The goals of a task in the order in which they are reached, or None for another form."""
        alone = self.parsed(expr)
        if alone is None and expr.op == "all_of":
            parts = [self.parsed(a) if isinstance(a, Expr) else None for a in expr.args]
            found = tuple(p for p in parts if p is not None)
            found = found if len(found) == len(parts) else ()
        else:
            found = (alone,) if alone is not None else ()
        return found if found and self.relation_of(found) is not None else None

    def task(self, goals: Sequence[Goal], assets: Mapping[str, Asset]) -> Expr:
        """The goal expression of a task. Raises ValueError as ``expression``."""
        parts = tuple(self.expression(g, assets) for g in goals)
        return parts[0] if len(parts) == 1 else Expr("all_of", parts)

    def read(self, expr: Expr, targets: Sequence[str]) -> tuple[Goal, ...]:
        """The goals of a task whose moved things have the role target.

        Raises:
          ValueError: another form, or about other objects than ``targets``.
        """
        goals = self.goals(expr)
        first = targets[0] if targets else "x"
        if goals is None:
            raise ValueError(f"the goal {shown(expr)} is none of {self.name}: write {self.forms(first)}")
        moved = dict.fromkeys(g.target for g in goals)
        if wrong := [m for m in moved if m not in targets]:
            known = f"the target is {first}" if len(targets) == 1 else f"the targets are {', '.join(targets) or 'none'}"
            raise ValueError(f"the goal moves {quote(wrong[0])}, but {known}: make the same object both")
        if idle := [t for t in targets if t not in moved]:
            raise ValueError(f"{idle[0]} has the role target, but the goal does not move it: give it another role")
        return goals

    def pairs_in(self, expr: Expr, assets: Mapping[str, Asset]) -> frozenset[tuple[str, str]]:
        """Goal pairs that an expression asks for, whatever its form."""
        goals = self.goals(expr)
        if goals is None or any(n not in assets for g in goals for n in (g.target, g.reference)):
            return frozenset()
        return frozenset({(str(self.relation_of(goals)), self.kind_of(goals, assets))})

    def kind_of(self, goals: Sequence[Goal], assets: Mapping[str, Asset]) -> str:
        """The second half of a task's goal pair."""
        return reference_kind(assets[goals[0].reference])

    def called(self, name: str, top: Tabletop) -> str:
        """The words for an object of a scene, e.g. "red mug"."""
        return noun(top.spec.attribute(name).colour, top.assets[name].category)

    def goal_trouble(self, expr: Expr, assets: Mapping[str, Asset]) -> str | None:
        """Why the numbers in a goal of a good form ask for something else than the family; None where they do not."""
        return None

    def other_tasks(self, goals: Sequence[Goal], assets: Mapping[str, Asset]) -> Iterator[tuple[Goal, ...]]:
        """Trained tasks that could be asked of the same things instead: what moves first stays."""
        if len(goals) > 1:
            return
        now = goals[0]
        for relation, kind in self.pairs_of("train"):
            for name in assets:
                if name == now.target or (relation, name) == (now.relation, now.reference):
                    continue
                other = (Goal(relation, now.target, name),)
                if self.kind_of(other, assets) == kind:
                    yield other

    def face(self, top: Tabletop, name: str) -> Footprint:
        """The face that an object's support, another object, offers it; its ``top`` is the height that the object rests at."""
        support = top.places[name].support
        return dataclasses.replace(top.shapes[support], top=top.surface(support))

    def success(self, expr: Expr, goals: Sequence[Goal]) -> Expr:
        """nu of a task: its goal with everything it moves at rest and released."""
        return success(expr, goals)

    # phases

    def phases_of(self, goal: Goal, expr: Expr, assets: Mapping[str, Asset]) -> Phases:
        """The phases of one goal, with PHASES as names; each a condition.

        approach: grip point near the best grasp. grasp: both fingers touch and the target is 0.02 m up. transport: its centre is over the
        reference. place: the goal. release: nu.
        """
        target, t = assets[goal.target], goal.target
        reach = max((math.dist(g.pos_m, (0.0, 0.0, 0.0)) for g in target.grasps), default=0.0) + APPROACH_M
        lifted = Expr("at_least", (Expr("lifted", (t,)), LIFTED_M))
        over = self.transport_limit(goal, assets)
        return (
            ("approach", Expr("at_most", (Expr("distance", ("gripper", t)), round(reach, 3)))),
            ("grasp", Expr("all_of", (Expr("at_least", (Expr("grasped", (t,)), 1.0)), lifted))),
            ("transport", Expr("at_most", (Expr("horizontal_distance", (t, goal.reference)), round(over, 3)))),
            ("place", expr),
            ("release", nu(expr, t)),
        )

    def transport_limit(self, goal: Goal, assets: Mapping[str, Asset]) -> float:
        """Horizontal distance of target and reference at which the target has arrived, m."""
        return min(assets[goal.reference].half_extent_m[:2])

    def phases(self, goals: Sequence[Goal], expr: Expr, assets: Mapping[str, Asset]) -> Phases:
        """The phases of a task; with several goals see ``steps.combined``."""
        parts = self._parts(goals, expr)
        return combined([self.phases_of(g, e, assets) for g, e in zip(goals, parts, strict=True)], parts, [g.target for g in goals])

    def _parts(self, goals: Sequence[Goal], expr: Expr) -> tuple[Expr, ...]:
        return (expr,) if len(goals) == 1 else tuple(a for a in expr.args if isinstance(a, Expr))

    def margins_of(self, goal: Goal, expr: Expr, assets: Mapping[str, Asset]) -> tuple[Margin, ...]:
        """One quantity for each phase of ``phases_of``, with the same thresholds."""
        met = dict(self.phases_of(goal, expr, assets))
        t, r = goal.target, goal.reference
        reach, over = (number_in(met[p]) for p in ("approach", "transport"))
        return (
            Margin("gripper_to_target", "approach", Expr("distance", ("gripper", t)), "smallest", reach, "m"),
            Margin("lifted", "grasp", Expr("lifted", (t,)), "largest", LIFTED_M, "m"),
            Margin("target_to_reference", "transport", Expr("horizontal_distance", (t, r)), "smallest", over, "m"),
            Margin("above_reference", "place", Expr("height_above", (t, r)), "smallest", 0.0, "m"),
            Margin("fingers_on_target", "release", Expr("grasped", (t,)), "smallest", 0.0, "share"),
        )

    def margins(self, goals: Sequence[Goal], expr: Expr, assets: Mapping[str, Asset]) -> tuple[Margin, ...]:
        """The margins of every goal in order; those of the second end in "_2"."""
        found = []
        for k, (goal, part) in enumerate(zip(goals, self._parts(goals, expr), strict=True)):
            for m in self.margins_of(goal, part, assets):
                name = m.name if k == 0 else f"{m.name}_{k + 1}"
                found.append(Margin(name, m.phase, m.expression, m.best, m.threshold, m.unit))
        return tuple(found)

    def drawable(self, kind: str, catalogue: Catalogue) -> tuple[str, ...]:
        """Categories of a kind that are not barred, in table order."""
        return tuple(dict.fromkeys(a.category for a in catalogue if a.kind == kind and not self.barred & set(a.affordances)))

    def drawn_from(self, relation: str, catalogue: Catalogue) -> tuple[tuple[str, ...], ...]:
        """Categories that each place of a template of the relation is filled with, in the order of its places, for sentences without a
        scene."""
        kind = next(kind for (r, kind), split in self.pairs.items() if r == relation and split == "train")
        return self.drawable("object", catalogue), self.drawable("object" if kind == "landmark" else kind, catalogue)

    def token_names(self, catalogue: Catalogue) -> tuple[str, ...]:
        """What things may be called, as the words of their tokens: every colour and category of the catalogue."""
        return tuple(noun(colour, category) for category in catalogue.categories() for colour in COLOURS)

    def fillings(self, relation: str, catalogue: Catalogue) -> tuple[tuple[tuple[str, str], ...], ...] | None:
        """What may fill all places of a template of the relation together, for sentences without a scene: of each place the words of the
        sentence and those of the token. None: each place is filled by itself (``drawn_from``)."""
        return None

    def second_reference(self, relation: str) -> int:
        """Which place of a template (PLACES) what is moved second is moved to."""
        return PLACES.index("reference")

    # places

    def holds(self, goal: Goal, target: Asset, reference: Asset) -> bool:
        """Whether two things can be in a goal's relation."""
        return can_hold(goal.relation, target, reference)

    def bottom(self, step: Step) -> float:
        """Height of the target's underside when it rests at its goal, m."""
        shape = step.shapes[step.goal.reference]
        if step.goal.relation == "inside":
            return shape.bottom + step.reference.half_extent_m[2] + floor_above_centre(step.reference)
        return shape.top

    def places(self, step: Step) -> list[tuple[float, float]]:
        """Where the target's centre may be put down, base frame, the best first; empty where nothing is free."""
        return [middle(step.reference, step.shapes[step.goal.reference])]

    def offset(self, step: Step, grasp: Grasp, yaw_rad: float) -> tuple[float, float] | None:
        """Where the planner puts the target down, from the reference's centre, m; None: in its middle (``geometry.middle``).

        yaw_rad: of the target in the base frame. Raises NoPlace.
        """
        return None

    def jaw_yaws(self, step: Step, grasp: Grasp) -> tuple[float, ...]:
        """Yaws of the line between the jaws at which the target may be put down, rad, base frame; empty for any."""
        return ()

    def gate(self, step: Step) -> Gate | None:
        """What must hold before the target is lowered all the way, or None."""
        return None

    def can_be_held(self, step: Step) -> bool:
        """Whether the open hand finds room to hold the step's target."""
        return bool(grasps_among(step.goal.target, step.target, step.shapes))

    def may_touch(self, top: Tabletop, a: str, b: str) -> bool:
        """Whether two things would touch if their footprints did: neither stands on the other."""
        return b in top.neighbours(a)

    def crowded(self, step: Step) -> str | None:
        """Why a freshly arranged scene leaves no place for the goal (a few words, counted by the generator), or None."""
        reference = step.shapes[step.goal.reference]
        around = [s for n, s in step.shapes.items() if n not in (step.goal.target, step.goal.reference)]
        return "reference blocked" if any(gap(reference, n) < PLACE_GAP_M for n in around) else None

    def size_limits(self, goals: Sequence[Goal], name: str, assets: Mapping[str, Asset]) -> dict[str, float]:
        """Largest factors by which a thing may grow before its goal asks for something else, by what sets them."""
        return {}

    def place_trouble(self, top: Tabletop, step: Step) -> str | None:
        """Why an edited scene leaves no place for the goal, or None."""
        reference, moved = step.goal.reference, {g.target for g in step.goals}
        near = [n for n in top.neighbours(reference) if n not in moved and closer_than(top.shapes[reference], top.shapes[n], PLACE_GAP_M)]
        return f"{near[0]} would stand too close to {reference} to put something there" if near else None

    # scenes

    def seed_scene(self, catalogue: Catalogue, seed: int) -> tuple[str, SceneSpec] | None:
        """The training scene of a seed and words that say where it comes from, of a family whose scenes are not written as programs;
        None: the generator writes one (scenes/generate.py)."""
        return None

    def frozen(self, suite: str, split: str) -> tuple[SceneSpec, ...] | None:
        """The scenes of a suite that the family brings with it; None: those of the package (scenes/suites.py)."""
        return None

    def counted_as(self, spec: SceneSpec, catalogue: Catalogue) -> str:
        """What a scene counts as in tables of the planner's success: the category of what is moved first."""
        return catalogue.get(spec.attribute(self.read(spec.task.goal, spec.with_role("target"))[0].target).asset).category

    def held_out(self, spec: SceneSpec) -> tuple[str, str] | None:
        """Why a scene may not be trained on, beside the rules of the family's platform: what it holds (leakage.HeldOutContent), and the
        message; None where it may."""
        return None

    def compose(self, author: Author) -> None:
        """Draw what stands in a seed scene, by the author's methods (scenes/content.py)."""
        relation, kind = author.choice(self.pairs_of(author.recipe.pairs))
        others = author.count_of_others()
        target = author.item(author.choice(author.categories("object", author.recipe.categories)), "target", None)
        author.add_fixtures(kind)
        author.content.free.append(target)
        for n in range(others):
            is_reference = kind == "landmark" and n == 0
            author.content.free.append(author.companion(target, "reference" if is_reference else "other", first=n == 0))
        reference = author.with_role("reference")
        author.content.goals.append((relation, target, reference))
        if not self.holds(Goal(relation, "", ""), target.asset, reference.asset):
            raise Rejected("target does not fit the reference")


def number_in(condition: Expr) -> float:
    """The constant that a comparison holds its value against."""
    return next(float(a) for a in condition.args if isinstance(a, (int, float)))


def _listed(names: Mapping[str, object]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
