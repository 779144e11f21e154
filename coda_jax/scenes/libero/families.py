"""The three families of LIBERO: what their scenes can be asked for, in which words, and what may not be trained on.

A goal is one of LIBERO's predicates, which asks neither for rest nor for release. A thing has one place for each relation, so a goal is
told by relation, target and reference: "on" a stove means its burner, "inside" a cabinet its top drawer.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from coda_jax.programs.expressions import Expr
from coda_jax.programs.libero import ON_RAD, OPEN_M
from coda_jax.scenes import catalogue as common
from coda_jax.scenes.assets import Asset
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.edits.verbs import VERBS
from coda_jax.scenes.families import registry
from coda_jax.scenes.families.articulated import ON_THE_WAY
from coda_jax.scenes.families.base import Family
from coda_jax.scenes.families.steps import Goal, Margin, Phases, Step
from coda_jax.scenes.layouts import Layout
from coda_jax.scenes.libero import catalogue, held_out, placing, suites, tasks
from coda_jax.scenes.libero.bddl import Atom
from coda_jax.scenes.libero.catalogue import CATEGORY
from coda_jax.scenes.libero.exchange import EXCHANGE
from coda_jax.scenes.libero.goals import to_atom, to_expression
from coda_jax.scenes.libero.staging import ANY_GOAL
from coda_jax.scenes.libero.things import ASSET_PREFIX, ASSETS, DRAWER
from coda_jax.scenes.placement import Footprint, Workspace
from coda_jax.scenes.spec import SceneSpec

if TYPE_CHECKING:
    from coda_jax.scenes.tabletop import Tabletop

FRONT = "main_table_stove_front_region"
_ON = {"flat_stove": "_cook_region", "wine_rack": "_top_region", "wooden_cabinet": "_top_side"}  # category to its region; "" is the thing
_IN = {"basket": "_contain_region", "wooden_cabinet": "_top_region", DRAWER: "_region"}
_OPEN = {"wooden_cabinet": "_top_region", DRAWER: "_region"}
_BOTTOM = "_bottom_region"
_NUMBER = re.compile(r"_\d+")  # in a thing's name, which is its category beside that
TABLE = Workspace((0.28, 0.84), (-0.38, 0.38), 0.86, (0.12, 1.12), (-0.56, 0.56))

PHRASES = {
    "on": {
        "train": (
            "put the {target} on the {reference}",
            "set the {target} down on the {reference}",
            "move the {target} onto the {reference}",
            "bring the {target} to the {reference} and put it on there",
        )
    },
    "inside": {
        "train": (
            "put the {target} in the {reference}",
            "move the {target} into the {reference}",
            "drop the {target} into the {reference}",
            "bring the {target} to the {reference} and put it inside",
        )
    },
    "in_front": {
        "train": (
            "push the {target} to the front of the {reference}",
            "move the {target} in front of the {reference}",
            "bring the {target} to the place before the {reference}",
        )
    },
    "open": {"train": ("open the {target}", "pull the {target} open", "pull out the {target}")},
    "open_bottom": {"train": ("open the bottom drawer of the {target}",)},
    "turn_on": {"train": ("turn the {target} on", "turn the knob of the {target} on", "start the {target}")},
    "turn_off": {"train": ("turn the {target} off",)},
}
_DRAWERS = {"wooden_cabinet": "top drawer of the cabinet", DRAWER: "middle drawer of the cabinet"}


def category(asset: Asset) -> str:
    """Category of a thing as task files say it."""
    return asset.category.removeprefix(CATEGORY)


def words_of(kind: str) -> str:
    """The words of a category's token."""
    return ASSETS[ASSET_PREFIX + kind].words


def _spoken(kind: str, relation: str) -> str:
    return _DRAWERS.get(kind, words_of(kind)) if relation == "open" else words_of(kind)


class LiberoFamily(Family):
    """What the three have in common."""

    platform = "libero"
    phrases = PHRASES
    layouts: ClassVar[Mapping[str, Layout]] = {}
    workspace = TABLE
    densities_kg_m3 = (1.0, 2800.0)  # its models weigh 5 g to 136 g
    verbs = frozenset(
        {
            *("approach_obstacle", "clearance", "distance", "yaw", "clutter", "clutter_reference", "reach", "exchange"),
            *("size", "mass", "friction", "target_swap", "goal_swap", "paraphrase"),
        }
    )

    # goals

    def expression(self, goal: Goal, assets: Mapping[str, Asset]) -> Expr:
        return to_expression(_atom(goal, category(assets[goal.reference])))

    def parsed(self, expr: Expr) -> Goal | None:
        atom = to_atom(expr)
        goal = None if atom is None else _goal(atom)
        if goal is None:
            return None
        try:  # libero_on(plate_1, wooden_cabinet_1_top_region) has the form, but a plate goes on another part of a cabinet
            return goal if _atom(goal, _NUMBER.sub("", goal.reference)) == atom else None
        except ValueError:
            return None

    def forms(self, target: str) -> str:
        return f"libero_on({target}, y), libero_in({target}, region), libero_open(region) or libero_turned_on(y)"

    def kind_of(self, goals: Sequence[Goal], assets: Mapping[str, Asset]) -> str:
        return f"{category(assets[goals[0].target])} {category(assets[goals[0].reference])}"

    def other_tasks(self, goals: Sequence[Goal], assets: Mapping[str, Asset]) -> Iterator[tuple[Goal, ...]]:
        """Other trained goals: of the same free thing; of a drawer or knob the other drawers and knobs."""
        now = goals[0]
        fixed = assets[now.target].kind != "object"
        trained = set(self.pairs_of("train"))
        for relation in self.phrases:
            for name in assets:
                target = name if fixed else now.target
                other = (Goal(relation, target, name),)
                if other[0] != now and (fixed or name != target) and (relation, self.kind_of(other, assets)) in trained:
                    yield other

    def success(self, expr: Expr, goals: Sequence[Goal]) -> Expr:
        """LIBERO's own: the goal, neither at rest nor released."""
        return expr

    def called(self, name: str, top: Tabletop) -> str:
        """Its words; of two alike also what it stands on, or what stands nearest to it."""
        assets = top.assets
        words = ASSETS[assets[name].asset_id].words
        if category(assets[name]) == DRAWER:
            return _DRAWERS[DRAWER]
        if name == top.goal.target and top.goal.relation == "open":
            return _DRAWERS["wooden_cabinet"]
        if sum(a.asset_id == assets[name].asset_id for a in assets.values()) == 1:
            return words
        support = top.places[name].support
        if support in assets:
            drawer = top.places[name].region.endswith("_top_region")
            return f"{words} in the {_DRAWERS['wooden_cabinet']}" if drawer else f"{words} on the {ASSETS[assets[support].asset_id].words}"
        others = [n for n in assets if assets[n].asset_id != assets[name].asset_id and category(assets[n]) != DRAWER]
        nearest = min(others, key=lambda n: (top.distance(n, name), n))
        return f"{words} nearest the {ASSETS[assets[nearest].asset_id].words}"

    def token_names(self, catalogue: Catalogue) -> tuple[str, ...]:
        return tuple(dict.fromkeys(words_of(kind) for pair in self.pairs for kind in pair[1].split()))

    def fillings(self, relation: str, catalogue: Catalogue) -> tuple[tuple[tuple[str, str], ...], ...]:
        """Target and reference of every trained goal pair of the relation; a drawer or the stove alone where that is what is moved."""
        found = []
        for target, reference in (kind.split() for r, kind in self.pairs_of("train") if r == relation):
            one, other = ((_spoken(kind, relation), words_of(kind)) for kind in (target, reference))
            found.append((one,) if target == reference else (one, other))
        return tuple(found)

    # scenes

    def seed_scene(self, catalogue: Catalogue, seed: int) -> tuple[str, SceneSpec]:
        return suites.seed_scene(self.name, seed)

    def frozen(self, suite: str, split: str) -> tuple[SceneSpec, ...]:
        return suites.frozen(self.name, suite, split)

    def counted_as(self, spec: SceneSpec, catalogue: Catalogue) -> str:
        """The source task."""
        return spec.spatial.layout.partition("@")[0].partition("/")[2]

    def held_out(self, spec: SceneSpec) -> tuple[str, str] | None:
        return held_out.held_out(spec)

    # phases

    def phases_of(self, goal: Goal, expr: Expr, assets: Mapping[str, Asset]) -> Phases:
        """As those of our own tasks; the last is the goal itself. A drawer or knob is on its way where its opening is ON_THE_WAY of its
        range before the goal's."""
        if assets[goal.target].kind != "object":
            way = _way(goal, expr, assets)
            arrived = expr if way.value is expr else Expr("at_least" if way.best == "largest" else "at_most", (way.value, way.near))
            return (
                ("approach", Expr("at_most", (Expr("distance", ("gripper", goal.target)), NEAR_FIXTURE_M))),
                ("grasp", Expr("at_least", (Expr("grasped", (goal.target,)), 1.0))),
                ("transport", arrived),
                ("place", expr),
                ("release", expr),
            )
        *others, _ = super().phases_of(goal, expr, assets)
        return (*others, ("release", expr))

    def margins_of(self, goal: Goal, expr: Expr, assets: Mapping[str, Asset]) -> tuple[Margin, ...]:
        if assets[goal.target].kind == "object":
            return super().margins_of(goal, expr, assets)
        t, way = goal.target, _way(goal, expr, assets)
        return (
            Margin("gripper_to_target", "approach", Expr("distance", ("gripper", t)), "smallest", NEAR_FIXTURE_M, "m"),
            Margin("fingers_holding", "grasp", Expr("grasped", (t,)), "largest", 1.0, "share"),
            Margin("opening_near", "transport", way.value, way.best, way.near, "share"),
            Margin("opening", "place", way.value, way.best, way.there, "share"),
            Margin("opening_kept", "release", way.value, way.best, way.there, "share"),
        )

    # places

    def face(self, top: Tabletop, name: str) -> Footprint:
        """That of the region a placement names, as the stove's burner or the floor of a drawer; else the top of the support's box."""
        place = top.places[name]
        model, upon = (ASSETS[top.assets[thing].asset_id] for thing in (place.support, name))
        part = place.region.removeprefix(place.support + "_")
        part = part if part in model.regions else ""
        return placing.face(place.support, part, model, top.places, upon, top.spec.attribute(place.support).scale)

    def holds(self, goal: Goal, target: Asset, reference: Asset) -> bool:
        return (goal.relation, f"{category(target)} {category(reference)}") in self.pairs

    def can_be_held(self, step: Step) -> bool:
        return step.target.kind != "object" or super().can_be_held(step)

    def may_touch(self, top: Tabletop, a: str, b: str) -> bool:
        """Only at the same height: a drawer and what stands on its cabinet share their support."""
        (one, other), level = (top.shapes[a], top.shapes[b]), 1e-3
        return super().may_touch(top, a, b) and one.top > other.bottom + level and other.top > one.bottom + level

    def place_trouble(self, top: Tabletop, step: Step) -> str | None:
        """None: LIBERO's own scenes leave 5 mm beside a plate; whether a place can be reached the planner shows."""
        return None


NEAR_FIXTURE_M = 0.2  # of the gripper from the middle of a drawer or stove
_LIMITS = {"open": OPEN_M, "turn_on": ON_RAD, "turn_off": 0.0}  # of the joint, at which LIBERO's predicates turn


@dataclasses.dataclass(frozen=True)
class _Way:
    """How far a drawer or knob has come. value: from 0 to 1, of which the ``best`` ("largest" or "smallest") counts. near: its limit on the
    way, there: where the goal holds."""

    value: Expr
    best: str
    near: float
    there: float


def _way(goal: Goal, expr: Expr, assets: Mapping[str, Asset]) -> _Way:
    """Of the bottom drawer, which no token shows, the goal itself is measured."""
    if goal.relation not in _LIMITS:
        return _Way(expr, "largest", 1.0, 1.0)
    model = ASSETS[assets[goal.target].asset_id]
    ends = model.joints[model.joint]
    there = round((_LIMITS[goal.relation] - ends.closed) / (ends.opened - ends.closed), 3)
    best, ahead = ("smallest", ON_THE_WAY) if goal.relation == "turn_off" else ("largest", -ON_THE_WAY)
    return _Way(Expr("opening", (goal.target,)), best, round(there + ahead, 3), there)


_MOVED = ("akita_black_bowl", "cream_cheese", "wine_bottle", "plate")
_PACKED = (
    *("alphabet_soup", "bbq_sauce", "butter", "chocolate_pudding", "cream_cheese"),
    *("ketchup", "milk", "orange_juice", "salad_dressing", "tomato_sauce"),
)


def _pairs(split: str, relation: str, reference: str, *targets: str) -> dict[tuple[str, str], str]:
    return {(relation, f"{t} {reference}"): split for t in targets}


class LiberoObject(LiberoFamily):
    """Things into the basket. Which of them in which scene is held out, not the goal as such."""

    name = "libero_object"
    pairs = _pairs("train", "inside", "basket", *_PACKED)


class LiberoGoal(LiberoFamily):
    """One scene, many goals. Those marked as test are asked by the suite libero_goal_task alone."""

    name = "libero_goal"
    staging = ANY_GOAL
    pairs: ClassVar[Mapping[tuple[str, str], str]] = {
        **_pairs("train", "on", "akita_black_bowl", "cream_cheese"),
        **_pairs("test", "on", "akita_black_bowl", "wine_bottle"),
        **_pairs("train", "on", "plate", "akita_black_bowl", "cream_cheese"),
        **_pairs("test", "on", "plate", "wine_bottle"),
        **_pairs("train", "on", "flat_stove", "akita_black_bowl", "cream_cheese", "wine_bottle"),
        **_pairs("test", "on", "flat_stove", "plate"),
        **_pairs("train", "on", "wooden_cabinet", "akita_black_bowl", "cream_cheese", "wine_bottle"),
        **_pairs("test", "on", "wooden_cabinet", "plate"),
        **_pairs("train", "on", "wine_rack", "wine_bottle"),
        **_pairs("test", "on", "wine_rack", "cream_cheese"),
        **_pairs("train", "inside", "wooden_cabinet", "akita_black_bowl"),
        **_pairs("test", "inside", "wooden_cabinet", "cream_cheese"),
        **_pairs("train", "in_front", "flat_stove", "plate", "akita_black_bowl", "wine_bottle"),
        **_pairs("test", "in_front", "flat_stove", "cream_cheese"),
        **_pairs("train", "open", "wooden_cabinet", "wooden_cabinet"),
        **_pairs("train", "open", DRAWER, DRAWER),
        **_pairs("test", "open_bottom", "wooden_cabinet", "wooden_cabinet"),
        **_pairs("train", "turn_on", "flat_stove", "flat_stove"),
        **_pairs("test", "turn_off", "flat_stove", "flat_stove"),
    }


class LiberoSpatial(LiberoFamily):
    """One of two bowls onto the plate; also what else the source tasks ask of such things."""

    name = "libero_spatial"
    pairs: ClassVar[Mapping[tuple[str, str], str]] = {
        **_pairs("train", "on", "plate", "akita_black_bowl", "cookies", "glazed_rim_porcelain_ramekin"),
        **_pairs("train", "on", "flat_stove", "akita_black_bowl"),
        **_pairs("train", "on", "wooden_cabinet", "akita_black_bowl"),
    }


def _atom(goal: Goal, kind: str) -> Atom:
    """The predicate of a goal whose reference is of a category. Raises ValueError where such a thing has no place for the relation."""
    reference = goal.reference
    match goal.relation:
        case "on":
            return Atom("on", (goal.target, reference + _ON.get(kind, "")))
        case "inside" if kind in _IN:
            return Atom("in", (goal.target, reference + _IN[kind]))
        case "in_front" if kind == "flat_stove":
            return Atom("on", (goal.target, FRONT))
        case "open" if kind in _OPEN:
            return Atom("open", (reference + _OPEN[kind],))
        case "open_bottom" if kind == "wooden_cabinet":
            return Atom("open", (reference + _BOTTOM,))
        case "turn_on" | "turn_off" if kind == "flat_stove":
            return Atom(goal.relation.replace("_", ""), (reference,))
    raise ValueError(f"{goal.reference}, a {kind}, has no place for {goal.relation!r}: use one of {', '.join(PHRASES)} of a thing that has")


def _goal(atom: Atom) -> Goal | None:
    """What ``_atom`` wrote, by the endings of regions alone."""
    last = atom.names[-1]
    if atom.predicate in ("turnon", "turnoff"):
        return Goal("turn_on" if atom.predicate == "turnon" else "turn_off", last, last)
    if atom.predicate == "open":
        for ending, relation, kept in (("_top_region", "open", ""), ("_middle_region", "open", "_middle"), (_BOTTOM, "open_bottom", "")):
            if last.endswith(ending):
                thing = last.removesuffix(ending) + kept
                return Goal(relation, thing, thing)
        return None
    target = atom.names[0]
    if last == FRONT:
        return Goal("in_front", target, "flat_stove_1")
    if atom.predicate == "in":
        ending = next((e for e in ("_contain_region", "_top_region") if last.endswith(e)), None)
        if ending is None and last.endswith("_middle_region"):
            ending = "_region"
        return None if ending is None else Goal("inside", target, last.removesuffix(ending))
    if atom.predicate == "on":
        return Goal("on", target, next((last.removesuffix(e) for e in _ON.values() if last.endswith(e)), last))
    return None


FAMILIES: tuple[LiberoFamily, ...] = (LiberoObject(), LiberoGoal(), LiberoSpatial())
assert tuple(f.name for f in FAMILIES) == tasks.FAMILIES


def add() -> None:
    """Make the families, their things and their own verb known in this process; twice changes nothing.

    Raises:
      ValueError: something else has one of their names.
    """
    for asset in catalogue.assets():
        common.register(asset)
    for family in FAMILIES:
        registry.register(family)
    VERBS[EXCHANGE.name] = EXCHANGE


def remove() -> None:
    """Forget them again."""
    VERBS.pop(EXCHANGE.name, None)
    for family in FAMILIES:
        registry.unregister(family.name)
    for asset in catalogue.assets():
        common.unregister(asset.asset_id)
