"""Families of tasks: which goals exist, how they are written, and the phases in which they can fail.

pick_place: move the target on, into or beside a reference. A goal pair is (relation, kind of the reference); the pairs are split, so
that the held-out ones ask for a known motion in a combination that was never trained. A goal has one of three forms and no other;
``goals_in`` reads any expression, for the refusal of held-out pairs alone.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping

from coda_jax.programs.errors import quote
from coda_jax.programs.expressions import RESERVED, Expr, shown
from coda_jax.programs.verifier import nu
from coda_jax.scenes.articulated import made
from coda_jax.scenes.assets import Asset
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec

PAIRS: dict[tuple[str, str], str] = {
    ("on", "support"): "train",
    ("inside", "container"): "train",
    ("beside", "landmark"): "train",
    ("beside", "support"): "validation",
    ("beside", "container"): "test",
}
FAMILIES = ("pick_place",)
PHASES = ("approach", "grasp", "transport", "place", "release")
BESIDE_MARGIN_M = 0.05
INSIDE_MARGIN_M = 0.004
APPROACH_M = 0.03  # the grip point is this close to a grasp
LIFTED_M = 0.02


@dataclasses.dataclass(frozen=True)
class Goal:
    """A goal read back from an expression."""

    relation: str
    target: str
    reference: str


def pairs(split: str) -> tuple[tuple[str, str], ...]:
    """Goal pairs of a split, in a fixed order."""
    return tuple(pair for pair, s in PAIRS.items() if s == split)


def reference_kind(asset: Asset) -> str:
    """ "support", "container", or "landmark" for a free object."""
    return "landmark" if asset.kind == "object" else asset.kind


def radius(asset: Asset) -> float:
    """Radius of the circle round the asset's footprint, m; for round things (equal sides) half the width."""
    hx, hy, _ = asset.half_extent_m
    if abs(hx - hy) < 1e-9 and all(p.shape in ("cylinder", "sphere") for p in asset.primitives):
        return hx
    return math.hypot(hx, hy)


def beside_limit(target: Asset, reference: Asset) -> float:
    """Largest horizontal distance of the centres at which target counts as beside reference, m (rounded to a millimetre)."""
    return round(radius(target) + radius(reference) + BESIDE_MARGIN_M, 3)


def goal_expression(relation: str, target: str, reference: str, target_asset: Asset, reference_asset: Asset) -> Expr:
    """The goal as an expression over object ids; assets are the scaled ones, since "beside" is measured with their radii.

    Raises:
      ValueError: the family has no such relation.
    """
    if relation in ("on", "inside"):
        return Expr(relation, (target, reference))
    if relation == "beside":
        near = Expr("at_most", (Expr("horizontal_distance", (target, reference)), beside_limit(target_asset, reference_asset)))
        return Expr("all_of", (Expr("on", (target, "table")), near))
    raise ValueError(f"pick_place has no relation {relation!r}: use on, inside or beside")


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


def goal_pairs(goal: Expr, assets: Mapping[str, Asset]) -> frozenset[tuple[str, str]]:
    """(relation, kind) of every relation in a goal; "beside" is read both ways, since distance is symmetric."""
    found = set()
    for g in goals_in(goal):
        if g.reference in assets:
            found.add((g.relation, reference_kind(assets[g.reference])))
        if g.relation == "beside" and g.target in assets and assets[g.target].kind != "object":
            found.add((g.relation, reference_kind(assets[g.target])))
    return frozenset(found)


@functools.cache
def _all_assets() -> Catalogue:
    return Catalogue.all()


def scaled_assets(spec: SceneSpec) -> dict[str, Asset]:
    """Object id to asset at the scene's scale, of any split.

    Raises:
      UnknownAsset: the scene names an asset that no split holds.
    """
    catalogue = _all_assets()
    return {o.object: made(catalogue.get(o.asset), o) for o in spec.attributes.objects}


def read_goal(spec: SceneSpec) -> Goal:
    """The relation a pick_place scene asks for.

    Raises:
      ValueError: the family is not built, the scene has not exactly one target, or the goal is not one of the three forms that
        ``goal_expression`` writes, about the target.
    """
    if spec.task.family not in FAMILIES:
        raise ValueError(f"the family {quote(spec.task.family)} is not built: use {' or '.join(FAMILIES)}")
    targets = spec.with_role("target")
    if len(targets) != 1:
        raise ValueError(f"a {spec.task.family} scene needs exactly one target, this one has {', '.join(targets) or 'none'}")
    return form_of(spec.task.goal, targets[0])


def form_of(goal: Expr, target: str) -> Goal:
    """A goal of one of the three forms, read back.

    Raises:
      ValueError: it has another form, or is about another object than ``target``.
    """
    found = _on_or_inside(goal) or _beside(goal)
    if found is None:
        raise ValueError(
            f"the goal {shown(goal)} is none of pick_place: write on({target}, y), inside({target}, y), or "
            f"all_of(on({target}, table), at_most(horizontal_distance({target}, y), metres)), which beside({target}, y) stands for"
        )
    if found.target != target:
        raise ValueError(f"the goal moves {quote(found.target)}, but the target is {target}: make the same object both")
    return found


def _on_or_inside(goal: Expr) -> Goal | None:
    if goal.op not in ("on", "inside") or len(goal.args) != 2:
        return None
    target, reference = goal.args
    if not isinstance(target, str) or not isinstance(reference, str) or {target, reference} & RESERVED.keys():
        return None
    return Goal(goal.op, target, reference)


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


def loose_limit(goal: Expr, target: Asset, reference: Asset) -> str | None:
    """Why the distance of a "beside" goal is no "beside" any more; None for one that is. Assets are the scaled ones.

    Edits of size leave the limit as it was written, so it may lie BESIDE_MARGIN_M above what the present sizes give.
    """
    near = goal.args[-1] if goal.op == "all_of" else None
    if not isinstance(near, Expr):
        return None
    stated, most = _number(near), beside_limit(target, reference) + BESIDE_MARGIN_M
    if stated <= most:
        return None
    return f"the goal holds {stated:g} m apart, which is not beside: use at most {most:.3f} m"


def phases(spec: SceneSpec) -> tuple[tuple[str, Expr], ...]:
    """Phase predicates in order; a rollout failed in the first one that it never met. The last one is nu.

    approach: grip point near the best grasp. grasp: both fingers touch and the target is 0.02 m up. transport: its centre is over the
    reference (beside: within the limit). place: the goal. release: nu.
    """
    goal = read_goal(spec)
    assets = scaled_assets(spec)
    target, reference = assets[goal.target], assets[goal.reference]
    reach = max((math.dist(g.pos_m, (0.0, 0.0, 0.0)) for g in target.grasps), default=0.0) + APPROACH_M
    over = min(reference.half_extent_m[:2]) if goal.relation in ("on", "inside") else beside_limit(target, reference)
    t = goal.target
    return (
        ("approach", Expr("at_most", (Expr("distance", ("gripper", t)), round(reach, 3)))),
        ("grasp", Expr("all_of", (Expr("at_least", (Expr("grasped", (t,)), 1.0)), Expr("at_least", (Expr("lifted", (t,)), LIFTED_M))))),
        ("transport", Expr("at_most", (Expr("horizontal_distance", (t, goal.reference)), round(over, 3)))),
        ("place", spec.task.goal),
        ("release", nu(spec.task.goal, t)),
    )


@dataclasses.dataclass(frozen=True)
class Margin:
    """A measured quantity behind a phase predicate: what evidence quotes. best: whether the largest or the smallest value counts.

    expression: the quantity. threshold: what the phase asks for, in ``unit``; a rollout is short of it by ``|best - threshold|``.
    """

    name: str
    phase: str
    expression: Expr
    best: str  # "smallest" or "largest"
    threshold: float
    unit: str


def margins(spec: SceneSpec) -> tuple[Margin, ...]:
    """One quantity for each phase of ``phases``, with the same thresholds."""
    goal, met = read_goal(spec), dict(phases(spec))
    t, r = goal.target, goal.reference
    reach, over = (_number(met[p]) for p in ("approach", "transport"))
    return (
        Margin("gripper_to_target", "approach", Expr("distance", ("gripper", t)), "smallest", reach, "m"),
        Margin("lifted", "grasp", Expr("lifted", (t,)), "largest", LIFTED_M, "m"),
        Margin("target_to_reference", "transport", Expr("horizontal_distance", (t, r)), "smallest", over, "m"),
        Margin("above_reference", "place", Expr("height_above", (t, r)), "smallest", 0.0, "m"),
        Margin("fingers_on_target", "release", Expr("grasped", (t,)), "smallest", 0.0, "share"),
    )


def _number(condition: Expr) -> float:
    return next(float(a) for a in condition.args if isinstance(a, (int, float)))


def can_hold(relation: str, target: Asset, reference: Asset) -> bool:
    """Whether the target can be in the relation: its centre must come to rest within a container's inner box, or over a support's face."""
    if relation == "inside":
        hx, hy, hz = target.half_extent_m
        cx, cy, cz = reference.cavity_half_m
        return max(hx, hy) + 2 * INSIDE_MARGIN_M <= min(cx, cy) and hz + INSIDE_MARGIN_M <= 2 * cz
    if relation == "on":
        return max(target.half_extent_m[:2]) <= 1.4 * min(reference.half_extent_m[:2])
    return True
