"""A LIBERO task as a scene of three factors: what is asked, where things stand, what they are."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jaxtyping import Float

from coda_jax.runtime import InputError
from coda_jax.scenes.libero import placing, states, tasks, things
from coda_jax.scenes.libero.bddl import Problem
from coda_jax.scenes.libero.goals import to_expression
from coda_jax.scenes.libero.placing import TABLE, Contents, contents, goal_parts
from coda_jax.scenes.libero.things import DRAWER_MODEL, DRAWER_SUFFIX, FRICTION, Model
from coda_jax.scenes.placement import Footprint, gap
from coda_jax.scenes.spec import AttributeFactor, ObjectAttributes, Placement, Relation, Role, SceneSpec, SpatialFactor, TaskFactor

MOST_CLEARANCE_M = 0.3


def models(found: Contents) -> dict[str, Model]:
    """Every object of a scene with its model, in token order: free things, fixtures, and a cabinet's middle drawer."""
    drawers = {n + DRAWER_SUFFIX: DRAWER_MODEL for n, m in found.fixtures.items() if m.category == "wooden_cabinet"}
    return found.free | found.fixtures | drawers


def scene(problem: Problem, family: str, layout: str, places: dict[str, Placement]) -> SceneSpec:
    """The scene of a task with everything at given places.

    Args:
      family: one of tasks.FAMILIES. layout: "suite/task", with "@n" where the places are those of the suite's initial state n.
      places: of every object of ``models``.

    Raises:
      InputError: the goal is no single atom, or something of the task is not of the three benchmarks.
    """
    if len(problem.goal) != 1:
        raise InputError(f"the goal has {len(problem.goal)} parts; scenes here ask for one: use a task of {', '.join(tasks.FAMILIES)}")
    found = contents(problem)
    target, reference = goal_parts(problem.goal[0], found)
    known = models(found)
    roles = [Role(n, "target" if n == target else "reference" if n == reference else _role(n, found)) for n in known]
    if target == reference:
        roles = [r for r in roles if r.role != "reference"]
    return SceneSpec(
        task=TaskFactor(
            family=family,
            instruction=problem.language,
            goal=to_expression(problem.goal[0]),
            relations=tuple(Relation(a.predicate, a.names[0], a.names[1] if len(a.names) == 2 else a.names[0]) for a in problem.init),
            roles=tuple(roles),
        ),
        spatial=SpatialFactor(layout, tuple(dataclasses.replace(places[n], clearance_m=c) for n, c in _clearances(known, places).items())),
        attributes=AttributeFactor(tuple(ObjectAttributes(n, m.asset, 1.0, m.mass_kg, FRICTION, "") for n, m in known.items())),
    )


def _role(name: str, found: Contents) -> str:
    return "distractor" if name in found.free else "support"


def _clearances(known: dict[str, Model], places: dict[str, Placement]) -> dict[str, float]:
    """Of every object the smallest gap to a thing beside, m; what stands on or under it does not count."""
    shapes = {n: placing.footprint(m, places[n]) for n, m in known.items() if places[n].support == TABLE}
    return {n: _clearance(shapes[n], [s for other, s in shapes.items() if other != n]) if n in shapes else 0.0 for n in known}


def _clearance(own: Footprint, others: list[Footprint]) -> float:
    """Exact gaps are asked of the nearest circles only: a gap is never smaller than that of the circles around both."""
    apart = sorted(((math.hypot(own.x - s.x, own.y - s.y) - own.radius - s.radius, i) for i, s in enumerate(others)))
    least = MOST_CLEARANCE_M
    for bound, i in apart:
        if bound >= least:
            break
        least = min(least, gap(own, others[i]))
    return round(max(least, 0.0), 6)


def task_scene(task: tasks.Task, seed: int) -> SceneSpec:
    """A scene of a task with everything drawn afresh from its regions. Raises InputError as ``scene`` and ``placing.draw``."""
    problem = task.problem()
    return scene(problem, tasks.family_of(task.suite), task.key, placing.draw(problem, seed))


def initial_scene(task: tasks.Task, number: int, seed: int, rows: Float[np.ndarray, "n q"] | None = None) -> SceneSpec:
    """The scene of a suite's initial state.

    Args:
      number: of the state. seed: of the fixtures' places, which a state does not hold. rows: the task's states, if they are read already.

    Raises:
      InputError: there is no such state, its file cannot be used, or as ``scene``.
    """
    problem = task.problem()
    rows = states.read(task.init) if rows is None else rows
    if not 0 <= number < len(rows):
        raise InputError(f"{task.key} has initial states 0 to {len(rows) - 1}, not {number}")
    places = placing.from_state(problem, rows[number], seed)
    return scene(problem, tasks.family_of(task.suite), f"{task.key}@{number}", places)


def exact_state(spec: SceneSpec) -> int | None:
    """Number of the suite's initial state in which a scene begins exactly, None where it begins from its placements: it has no such
    number, or a thing has another size than in the suite. Raises InputError for a layout that is none of LIBERO's."""
    if any(o.scale != 1.0 for o in spec.attributes.objects):
        return None
    return tasks.state_index(spec.spatial.layout)


def model_of(asset: str) -> Model:
    """The model of an asset such as "libero/plate". Raises InputError."""
    if asset not in things.ASSETS:
        raise InputError(f"unknown LIBERO asset {asset[:60]!r}: use one of {', '.join(things.ASSETS)}")
    return things.ASSETS[asset]
