"""Families of tasks: which goals exist, how they are written, and the phases in which they can fail.

``register`` makes a family known; the functions below ask the family of a scene.
"""

from __future__ import annotations

from coda_jax.programs.expressions import Expr
from coda_jax.scenes.families.base import APPROACH_M, TABLETOP, Family
from coda_jax.scenes.families.geometry import INSIDE_MARGIN_M, can_hold, radius, reference_kind, scaled_assets
from coda_jax.scenes.families.registry import find_layout, get, names, register, unregister
from coda_jax.scenes.families.staging import LIFTED_M
from coda_jax.scenes.families.steps import MOST_GOALS, PHASES, Gate, Goal, Margin, NoPlace, Phase, Rejected, Step, named
from coda_jax.scenes.spec import SceneSpec

__all__ = [
    "APPROACH_M",
    "INSIDE_MARGIN_M",
    "LIFTED_M",
    "MOST_GOALS",
    "PHASES",
    "TABLETOP",
    "Family",
    "Gate",
    "Goal",
    "Margin",
    "NoPlace",
    "Phase",
    "Rejected",
    "Step",
    "can_hold",
    "family_of",
    "find_layout",
    "get",
    "margins",
    "named",
    "names",
    "phases",
    "radius",
    "read_goal",
    "read_goals",
    "reference_kind",
    "register",
    "relation",
    "scaled_assets",
    "success",
    "unregister",
]


def family_of(spec: SceneSpec) -> Family:
    """The family of a scene. Raises ValueError where it is not registered."""
    return get(spec.task.family)


def read_goals(spec: SceneSpec) -> tuple[Goal, ...]:
    """What a scene asks for, in the order in which it is to be reached.

    Raises:
      ValueError: the family is not built, the scene has no target, or the goal is none of the family's forms, about its targets.
    """
    family, targets = family_of(spec), spec.with_role("target")
    if len(targets) != 1 and not (1 < len(targets) <= family.most_targets):
        most = "exactly one target" if family.most_targets == 1 else f"1 to {family.most_targets} targets"
        raise ValueError(f"a {spec.task.family} scene needs {most}, this one has {', '.join(targets) or 'none'}")
    return family.read(spec.task.goal, targets)


def read_goal(spec: SceneSpec) -> Goal:
    """What a scene asks for first. Raises ValueError as ``read_goals``."""
    return read_goals(spec)[0]


def relation(spec: SceneSpec) -> str:
    """The relation of a scene's whole task, as templates and goal pairs call it. Raises ValueError as ``read_goals``."""
    return str(family_of(spec).relation_of(read_goals(spec)))


def phases(spec: SceneSpec) -> tuple[tuple[str, Expr], ...]:
    """Phase predicates in order, with PHASES as names; a rollout failed in the first one that it never met (steps.combined)."""
    return family_of(spec).phases(read_goals(spec), spec.task.goal, scaled_assets(spec))


def margins(spec: SceneSpec) -> tuple[Margin, ...]:
    """The quantities behind the phases of ``phases``, with the same thresholds."""
    return family_of(spec).margins(read_goals(spec), spec.task.goal, scaled_assets(spec))


def success(spec: SceneSpec) -> Expr:
    """nu of a scene. Raises ValueError as ``read_goals``."""
    return family_of(spec).success(spec.task.goal, read_goals(spec))
