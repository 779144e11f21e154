"""What can be measured of a scene from its spec alone, by name, unit and factor; blind to how the scene was made.

Every quantity is about the task's own target and reference, so a task edit that names another target moves most of them. "Free grasps",
"gaps" and the like depend on sizes too; a measure belongs to the factor whose verbs move it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from coda_jax.scenes import language, openings
from coda_jax.scenes.families.stack_insert import tolerance_of
from coda_jax.scenes.spec import SceneSpec
from coda_jax.scenes.tabletop import APPROACH_LENGTH_M, CROWDED_M, Tabletop

FARTHEST_M = 1.0  # a gap to nothing
NEAR_M = 0.12
RELATIONS = ("on", "inside", "beside", *openings.RELATIONS)


@dataclasses.dataclass(frozen=True)
class Measure:
    """One quantity. factor: of which it is evidence. unit: m, rad, kg, count, flag or "" (a ratio). of: Tabletop to number."""

    name: str
    factor: str
    unit: str
    what: str
    of: Callable[[Tabletop], float]


def _capped(value_m: float) -> float:
    return min(value_m, FARTHEST_M)


def _around(top: Tabletop, name: str) -> tuple[str, ...]:
    """Neighbours of an object other than target and reference."""
    return tuple(n for n in top.neighbours(name) if n not in (top.goal.target, top.goal.reference))


def _crowd(top: Tabletop, name: str) -> float:
    return float(sum(top.gap(n, name) < CROWDED_M for n in _around(top, name)))


def _near(top: Tabletop, name: str) -> float:
    return float(sum(top.distance(n, name) <= NEAR_M for n in top.assets if n != name))


def _narrowest(top: Tabletop) -> float:
    return min((g.width_m for g in top.assets[top.goal.target].grasps), default=FARTHEST_M)


def _place(top: Tabletop) -> tuple[float, float]:
    x, y, _ = top.places[top.goal.target].pos_m
    return x, y


def _colour_shared(top: Tabletop, name: str) -> float:
    mine = top.spec.attribute(name).colour
    return float(sum(o.colour == mine for o in top.spec.attributes.objects if o.object != name))


def _category_shared(top: Tabletop, name: str) -> float:
    mine = top.assets[name].category
    return float(sum(a.category == mine for n, a in top.assets.items() if n != name))


def _wording(top: Tabletop) -> float:
    said = language.match(top.spec.task.instruction, top.spec.task.family)
    known = language.templates(said.family, said.relation, "train") if said is not None else ()
    return float(known.index(said)) if said in known else -1.0


def _joint(name: str, field: str, what: str) -> Measure:
    """Of an articulated target in the units of Articulation; 0 for every other."""

    def of(top: Tabletop) -> float:
        joint = top.spec.attribute(top.goal.target).articulation
        return 0.0 if joint is None else float(getattr(joint, field))

    return Measure(name, "attributes", "", what, of)


def _to_go(top: Tabletop) -> float:
    opening = top.places[top.goal.target].opening
    if opening is None or top.goal.relation not in openings.RELATIONS:
        return 0.0
    return abs(openings.aim(top.goal.relation) - opening)


def _tolerance(top: Tabletop) -> float:
    stated = tolerance_of(top.spec.task.goal) if top.goal.relation == "inserted" else None
    return FARTHEST_M if stated is None else stated


def _measure(factor: str, name: str, unit: str, what: str, of: Callable[[Tabletop], float]) -> Measure:
    return Measure(name, factor, unit, what, of)


def _attribute(name: str, field: str, unit: str, what: str) -> Measure:
    return Measure(name, "attributes", unit, what, lambda t: float(getattr(t.spec.attribute(t.goal.target), field)))


def _side(axis: int, name: str, what: str) -> Measure:
    return Measure(name, "attributes", "m", what, lambda t: 2 * t.assets[t.goal.target].half_extent_m[axis])


_MEASURES = (
    _measure(
        "spatial", "nearest_gap_m", "m", "gap of the target to its nearest neighbour", lambda t: _capped(t.nearest_gap(t.goal.target))
    ),
    _measure(
        "spatial",
        "neighbour_gap_m",
        "m",
        "gap of the target to its nearest free neighbour other than the reference",
        lambda t: _capped(t.nearest_gap(t.goal.target, tuple(n for n in _around(t, t.goal.target) if t.assets[n].kind == "object"))),
    ),
    _measure(
        "spatial",
        "approach_gap_m",
        "m",
        f"gap to what stands beside the best grasp, at most {APPROACH_LENGTH_M:g}",
        lambda t: t.approach_gap(t.goal.target),
    ),
    _measure("spatial", "free_grasps", "count", "grasps that the open hand can reach", lambda t: float(len(t.free_grasps(t.goal.target)))),
    _measure(
        "spatial",
        "target_reference_m",
        "m",
        "horizontal distance of target and reference",
        lambda t: t.distance(t.goal.target, t.goal.reference),
    ),
    _measure("spatial", "target_turn_rad", "rad", "turn of the wrist to the nearest grasp", lambda t: t.turn_needed(t.goal.target)),
    _measure("spatial", "reference_height_m", "m", "height of the reference above the table", lambda t: t.shapes[t.goal.reference].bottom),
    _measure("spatial", "target_height_m", "m", "height of the target above the table", lambda t: t.shapes[t.goal.target].bottom),
    _measure("spatial", "crowd_target", "count", f"others closer than {CROWDED_M:g} m to the target", lambda t: _crowd(t, t.goal.target)),
    _measure(
        "spatial", "crowd_reference", "count", f"others closer than {CROWDED_M:g} m to the reference", lambda t: _crowd(t, t.goal.reference)
    ),
    _measure(
        "spatial", "near_target", "count", f"things with centres within {NEAR_M:g} m of the target's", lambda t: _near(t, t.goal.target)
    ),
    _measure(
        "spatial",
        "place_gap_m",
        "m",
        "gap of the reference to its nearest neighbour but the target",
        lambda t: _capped(t.nearest_gap(t.goal.reference, _around(t, t.goal.reference))),
    ),
    _measure("spatial", "reach_radius_m", "m", "distance of the target from the base", lambda t: math.hypot(*_place(t))),
    _measure(
        "spatial", "reach_margin_m", "m", "distance of the target from the edge of the reach", lambda t: t.workspace.margin(*_place(t))
    ),
    _measure("spatial", "opening_to_go", "", "share of its range by which the target's joint has to move", _to_go),
    _joint("joint_stiffness", "stiffness", "stiffness of the target's joint"),
    _joint("joint_damping", "damping", "damping of the target's joint"),
    _joint("joint_friction", "friction", "friction of the target's joint"),
    _joint("joint_range", "range_share", "range of the target's joint against its asset's"),
    _attribute("target_scale", "scale", "", "scale of the target"),
    _attribute("target_mass_kg", "mass_kg", "kg", "mass of the target"),
    _attribute("target_friction", "friction", "", "sliding friction of the target"),
    _measure("attributes", "grasp_width_m", "m", "width of the narrowest grasp", _narrowest),
    _side(0, "target_length_m", "first side of the target's box"),
    _side(1, "target_width_m", "second side of the target's box"),
    _side(2, "target_tall_m", "height of the target's box"),
    _measure("attributes", "same_colour_target", "count", "others of the target's colour", lambda t: _colour_shared(t, t.goal.target)),
    _measure(
        "attributes", "same_colour_reference", "count", "others of the reference's colour", lambda t: _colour_shared(t, t.goal.reference)
    ),
    _measure("task", "same_category_target", "count", "others of the target's category", lambda t: _category_shared(t, t.goal.target)),
    _measure(
        "task", "same_category_reference", "count", "others of the reference's category", lambda t: _category_shared(t, t.goal.reference)
    ),
    *(_measure("task", f"relation_{r}", "flag", f"the goal asks for {r}", lambda t, r=r: float(t.goal.relation == r)) for r in RELATIONS),
    _measure("attributes", "reference_scale", "", "scale of the reference", lambda t: float(t.spec.attribute(t.goal.reference).scale)),
    _measure("task", "goals", "count", "goals that are reached one after the other", lambda t: float(len(t.goals))),
    _measure("task", "goal_tolerance_m", "m", "distance that an insertion's goal allows, 1 where none is stated", _tolerance),
    _measure("task", "wording", "", "index of the training template of the instruction, -1 for other words", _wording),
)
MEASURES: dict[str, Measure] = {m.name: m for m in _MEASURES}


def measure(spec: SceneSpec) -> dict[str, float]:
    """Every measure of a scene, in the order of MEASURES; finite numbers.

    Raises:
      ValueError: the scene states no target or no relation to measure.
    """
    top = Tabletop(spec)
    return {m.name: float(m.of(top)) for m in MEASURES.values()}
