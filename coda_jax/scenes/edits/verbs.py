"""The registry of edit verbs, and the one way to apply them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping

from coda_jax.scenes import families
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.edits import attributes, joints, spatial, task, task_parts
from coda_jax.scenes.edits.lock import require_lock
from coda_jax.scenes.edits.record import OBSERVATIONS, EditError, Request, Verb
from coda_jax.scenes.edits.room import trouble
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
from coda_jax.scenes.placement import OWN_TABLE
from coda_jax.scenes.ranges import RANGES
from coda_jax.scenes.spec import FACTORS, SceneSpec
from coda_jax.scenes.tabletop import Tabletop

# Both kinds of policy see where and how large things are, and read colour and category words or see them; the instruction is given to
# both; mass and friction are seen by neither, but physics does. So today every verb is active for both.
_SEEN = frozenset(OBSERVATIONS)


def _verb(factor, name, needs, measure, rises, what, apply, discrete=False, of=()) -> Verb:
    return Verb(name, factor, needs, _SEEN, measure, rises, discrete, what, apply, frozenset(of))


_TARGET, _BOTH = ("target",), ("target", "reference")
_PARTS, _JOINT = ("put_inside", "stack_insert"), ("articulated",)
_VERBS = (
    _verb(
        "spatial",
        "approach_obstacle",
        ("target", "obstacle"),
        "approach_gap_m",
        False,
        "gap of what stands beside the best grasp, from now (at most 0.15 m) to 0.008 m",
        spatial.approach_obstacle,
    ),
    _verb("spatial", "clearance", _TARGET, "neighbour_gap_m", False, "gaps of the free neighbours, from now to 0.008 m", spatial.clearance),
    _verb(
        "spatial", "distance", _BOTH, "target_reference_m", True, "centre distance, from now to the far end of the reach", spatial.distance
    ),
    _verb(
        "spatial", "yaw", _TARGET, "target_turn_rad", True, "turn of the wrist, from now to the worst yaw, at most 1.57 rad", spatial.yaw
    ),
    _verb(
        "spatial",
        "support_height",
        _BOTH,
        "reference_height_m",
        True,
        "underside of the fixture, from now to 0.10 m",
        spatial.support_height,
    ),
    _verb(
        "spatial",
        "clutter",
        _TARGET,
        "crowd_target",
        True,
        "share of the other free objects 0.018..0.032 m from the target",
        spatial.clutter,
        True,
    ),
    _verb("spatial", "clutter_reference", _BOTH, "crowd_reference", True, "the same round the reference", spatial.clutter_reference, True),
    _verb("spatial", "reach", _TARGET, "reach_margin_m", False, "distance from the edge of the reach, from now to 0 m", spatial.reach),
    _verb(
        "spatial",
        "initial_opening",
        _TARGET,
        "opening_to_go",
        True,
        "opening at the start, from now to the far end of the range",
        joints.initial_opening,
        of=_JOINT,
    ),
    _verb("attributes", "size", _TARGET, "target_scale", True, "scale, from now to 1.38 or a grasp of 0.068 m", attributes.size),
    _verb(
        "attributes", "mass", _TARGET, "target_mass_kg", True, "mass, from now to 0.6 kg or 2800 kg/m3, in equal ratios", attributes.mass
    ),
    _verb(
        "attributes",
        "friction",
        _TARGET,
        "target_friction",
        False,
        "sliding friction, from now to 0.25, in equal ratios",
        attributes.friction,
    ),
    _verb(
        "attributes",
        "colour",
        ("target", "distractor"),
        "",
        True,
        "share of the others that take the colour of target or reference",
        attributes.colour,
        True,
    ),
    _verb(
        "attributes",
        "joint_stiffness",
        _TARGET,
        "joint_stiffness",
        True,
        "spring that closes, from now to 0.6 of the friction at the end of the range",
        joints.joint_stiffness,
        of=_JOINT,
    ),
    _verb(
        "attributes",
        "joint_damping",
        _TARGET,
        "joint_damping",
        True,
        "damping, from now to 45 N s/m at the handle, in equal ratios",
        joints.joint_damping,
        of=_JOINT,
    ),
    _verb(
        "attributes",
        "joint_friction",
        _TARGET,
        "joint_friction",
        True,
        "friction, from now to 4.5 N at the handle, in equal ratios",
        joints.joint_friction,
        of=_JOINT,
    ),
    _verb(
        "attributes",
        "handle_size",
        _TARGET,
        "grasp_width_m",
        False,
        "handle, from now to half its asset's or 0.008 m",
        joints.handle_size,
        of=_JOINT,
    ),
    _verb(
        "attributes", "opening_range", _TARGET, "joint_range", False, "range, from now to half its asset's", joints.opening_range, of=_JOINT
    ),
    _verb("attributes", "instance", _TARGET, "", True, "other training instances, by difference in size", attributes.instance, True),
    _verb("task", "target_swap", _TARGET, "", True, "other free objects, by lookalikes and room", task.target_swap, True),
    _verb("task", "goal_swap", _BOTH, "", True, "other trained goals: same relation, then others; near, then far", task.goal_swap, True),
    _verb("task", "paraphrase", _TARGET, "", True, "other training templates, by words in common", task.paraphrase, True),
    _verb(
        "attributes",
        "opening",
        _BOTH,
        "reference_scale",
        False,
        "scale of the container or socket, from now to the least in which everything fits",
        task_parts.opening,
        of=_PARTS,
    ),
    _verb("task", "subgoal", _BOTH, "goals", True, "one thing more to move, near, then far", task_parts.subgoal, True, of=_PARTS),
    _verb("task", "order", _BOTH, "", True, "other orders of the same things", task_parts.order, True, of=_PARTS),
    _verb(
        "task",
        "tolerance",
        _BOTH,
        "goal_tolerance_m",
        False,
        "largest distance of a peg from its axis, from now to 0.002 m",
        task_parts.tolerance,
        of=("stack_insert",),
    ),
)
VERBS: dict[str, Verb] = {v.name: v for v in _VERBS}


def verb(name: str) -> Verb:
    """The verb.

    Raises:
      EditError: unknown; lists the known ones.
    """
    if name not in VERBS:
        raise EditError(f"unknown verb {name!r}: use one of {', '.join(VERBS)}")
    return VERBS[name]


def verbs_of(families_: Collection[str], factor: str) -> list[str]:
    """Names of a factor's verbs that can edit scenes of any of the families, in the order of VERBS."""
    return [v.name for v in VERBS.values() if v.factor == factor and any(edits(v, f) for f in families_)]


def edits(chosen: Verb, family: str) -> bool:
    """Whether a verb is for scenes of a family: neither names others only."""
    allowed = families.get(family).verbs if family in families.names() else None
    return (not chosen.families or family in chosen.families) and (allowed is None or chosen.name in allowed)


def apply_edit(spec: SceneSpec, verb_name: str, binding: Mapping[str, str], magnitude: float, seed: int, catalogue: Catalogue) -> SceneSpec:
    """A harder scene: one factor changed, by one verb.

    Args:
      binding: role to object id, with the roles the verb needs; "target" and "reference" are the task's own.
      magnitude: quantile of the verb's range in this scene, 0..1; 0 leaves the scene as it is.
      seed: decides what the verb leaves open.
      catalogue: what may be used, ``Catalogue("train")``.

    Raises:
      EditError: it cannot be applied here; says why and what to change.
      FactorLockError: the verb changed another factor (a bug).
      HeldOutContent: the scene itself, before the edit, holds content that only evaluation may see.
    """
    chosen = verb(verb_name)
    if isinstance(magnitude, bool) or not math.isfinite(magnitude) or not 0 <= magnitude <= 1:
        raise EditError(f"magnitude of {verb_name}: must be between 0 and 1, not {magnitude}")
    if chosen.families and spec.task.family not in chosen.families:
        raise EditError(f"{verb_name} edits scenes of {' and '.join(sorted(chosen.families))}, not of {spec.task.family}: use another verb")
    if not edits(chosen, spec.task.family):
        offered = ", ".join(v for f in FACTORS for v in verbs_of((spec.task.family,), f))
        raise EditError(f"{verb_name} makes no sense in scenes of {spec.task.family}: use one of {offered}")
    _check_binding(spec, chosen, binding)
    refuse_held_out(spec, catalogue)
    if magnitude == 0:
        return spec
    after = chosen.apply(Request(spec, dict(binding), float(magnitude), seed, catalogue))
    require_lock(spec, after, chosen.factor, f"verb {verb_name}")
    if (reason := trouble(after)) is not None:
        raise EditError(f"{verb_name} would leave no fair task: {reason}: use another scene or verb")
    _check_ranges(spec, after, verb_name)
    try:
        refuse_held_out(after, catalogue)
    except HeldOutContent as error:
        raise EditError(f"{verb_name} would make a scene that only evaluation may see: {error}") from None
    return after


def _check_binding(spec: SceneSpec, chosen: Verb, binding: Mapping[str, str]) -> None:
    if missing := [r for r in chosen.needs if r not in binding]:
        raise EditError(f"{chosen.name} needs the roles {', '.join(chosen.needs)}: bind {' and '.join(missing)} to an object")
    if unknown := [n for n in binding.values() if n not in spec.object_ids]:
        raise EditError(f"the scene has no object {unknown[0]}: bind one of {', '.join(spec.object_ids)}")
    try:
        goals = families.read_goals(spec)
    except ValueError as error:
        raise EditError(str(error)) from None
    alone = goals[0].target == goals[0].reference and binding.get("target") == binding.get("reference")
    if len(set(binding.values())) < len(binding) - (alone and "target" in binding):
        raise EditError(f"the binding {dict(binding)} gives one object two roles: bind distinct objects")
    if alone and "reference" in chosen.needs and chosen.factor == "spatial":
        raise EditError(f"{goals[0].target} is moved to no other object: use a verb that needs no reference")
    for role, own in (("target", goals[0].target), ("reference", goals[0].reference)):
        if binding.get(role, own) != own:
            raise EditError(
                f"the {role} of this scene's task is {own}, not {binding[role]}: bind {role} to {own}, or use a task verb first"
            )
    kinds = {n: a.kind for n, a in families.scaled_assets(spec).items()}
    if "obstacle" in chosen.needs and kinds[binding["obstacle"]] != "object":
        raise EditError(f"{binding['obstacle']} is fixed and cannot be moved: bind a free object as the obstacle")
    extra = [r for r in chosen.needs if r not in ("target", "reference")]
    if used := [r for r in extra if binding[r] in {n for g in goals for n in (g.target, g.reference)}]:
        raise EditError(f"{binding[used[0]]} is the task's own: bind another object as the {used[0]}")


def _check_ranges(before: SceneSpec, spec: SceneSpec, who: str) -> None:
    """What an edit changed must be within RANGES, places in the x and y of the family's workspace."""
    table, places, things = families.family_of(spec).workspace, before.spatial.placements, before.attributes.objects
    own = table is OWN_TABLE
    for p in (p for p in spec.spatial.placements if p not in places):
        named = zip(("x", "y", "z", "yaw_rad", "clearance_m"), (*p.pos_m, p.yaw_rad, p.clearance_m), strict=True)
        for field, value in named if own else list(named)[2:]:  # of another workspace ``trouble`` has judged x and y
            _within(f"{p.object}.{field}", field, value, who)
        if p.opening is not None:
            _within(f"{p.object}.opening", "opening", p.opening, who)
    for o in (o for o in spec.attributes.objects if o not in things):
        joint = [] if o.articulation is None else dataclasses.asdict(o.articulation).items()
        stated = [("joint_friction" if f == "friction" else f, v) for f, v in joint]
        for field, value in (("scale", o.scale), ("mass_kg", o.mass_kg), ("friction", o.friction), *stated):
            _within(f"{o.object}.{field}", field, value, who)


def _within(where: str, field: str, value: float, who: str) -> None:
    low, high, unit = RANGES[field]
    if not low <= value <= high:
        raise EditError(f"{who} would set {where} to {value:g}{unit}, outside {low:g}..{high:g}{unit}: use a smaller magnitude")


def usual_bindings(spec: SceneSpec, verb_name: str, binding: Mapping[str, str] | None = None) -> list[dict[str, str]]:
    """Bindings of the roles a verb needs: the task's own, what ``binding`` says, and for an open role each other object, nearest first."""
    needs, known = verb(verb_name).needs, dict(binding or {})
    top = Tabletop(spec)
    base = {"target": top.goal.target, "reference": top.goal.reference} | known
    open_roles = [r for r in needs if r not in base]
    if not open_roles:
        return [{r: base[r] for r in needs}]
    taken = set(top.task_objects)
    names = top.free if "obstacle" in open_roles else spec.object_ids
    near = sorted((n for n in names if n not in taken), key=lambda n: (top.distance(n, top.goal.target), n))
    return [{r: base.get(r, n) for r in needs} for n in near]


def applied(
    spec: SceneSpec, verb_name: str, catalogue: Catalogue, magnitude: float = 0.5, seed: int = 0, binding: Mapping[str, str] | None = None
) -> tuple[dict[str, str], SceneSpec] | None:
    """The first usual binding with which a verb can be applied, and the edited scene, or None."""
    for bound in usual_bindings(spec, verb_name, binding):
        try:
            return bound, apply_edit(spec, verb_name, bound, magnitude, seed, catalogue)
        except EditError:
            continue
    return None


def applicable(
    spec: SceneSpec, verb_name: str, catalogue: Catalogue, magnitude: float = 0.5, seed: int = 0, binding: Mapping[str, str] | None = None
) -> dict[str, str] | None:
    """The first usual binding with which a verb can be applied, or None; ``applied`` also gives the scene."""
    found = applied(spec, verb_name, catalogue, magnitude, seed, binding)
    return found[0] if found else None


def matched(
    verb_name: str,
    observation: str,
    spec: SceneSpec,
    binding: Mapping[str, str],
    catalogue: Catalogue,
    magnitude: float = 0.5,
    seed: int = 0,
    factor: str | None = None,
) -> list[tuple[Verb, dict[str, str]]]:
    """Control verbs for a verb: of other factors, active for an observation type, applicable here at the same quantile; with bindings.

    Args:
      observation: "state" or "pixels".
      binding: roles of the verb that is controlled; where a control needs the same role it takes the same object.
      factor: that the controls are of; None for every other one.

    Raises:
      EditError: unknown verb or observation type.
    """
    if observation not in OBSERVATIONS:
        raise EditError(f"unknown observation type {observation!r}: use one of {', '.join(OBSERVATIONS)}")
    own = verb(verb_name).factor
    found = []
    for other in VERBS.values():
        if other.factor == own or factor not in (None, other.factor) or observation not in other.observed_by:
            continue
        bound = applicable(spec, other.name, catalogue, magnitude, seed, binding)
        if bound is not None:
            found.append((other, bound))
    return found
