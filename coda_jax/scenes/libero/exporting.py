"""A scene as a task file that the official package loads, and beside it what such a file cannot say.

A task file states regions, not poses: a thing on the workspace gets a region of its own, so wide that the official sampler, which takes
the thing's radius off both ends, is left with one point. It cannot state the yaw of a free thing, where on another thing something
stands, how far a drawer is open, or any size, mass or friction: all that stands in the JSON beside it, whose "only_here" lists what the
official environment built from the task file alone has otherwise.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pydantic

from coda_jax.programs.errors import quote
from coda_jax.programs.expressions import shown
from coda_jax.runtime import InputError
from coda_jax.scenes.libero import tasks, things
from coda_jax.scenes.libero.bddl import Atom, Problem, Region
from coda_jax.scenes.libero.fitting import require_fit
from coda_jax.scenes.libero.goals import to_atom
from coda_jax.scenes.libero.importing import model_of, models
from coda_jax.scenes.libero.placing import TABLE, Contents, contents, goal_parts
from coda_jax.scenes.libero.things import DRAWER, FRICTION, Model
from coda_jax.scenes.libero.writing import write
from coda_jax.scenes.spec import ObjectAttributes, Placement, SceneSpec, from_json, to_json

FORMAT = 1
OPEN_FROM = 0.5  # a drawer that is further open counts as open in the task file
POINT_M = 1e-6  # half width of a fixture's region: a site of the official model may not have the size 0
SAME_M, SAME_RAD = 1e-4, 1e-4
_DRAWN_OPEN = 0.9375  # middle of what the official environment draws for an open drawer


@dataclasses.dataclass(frozen=True)
class Exported:
    """bddl: the task file's text. beside: the JSON's."""

    bddl: str
    beside: str


def _point(x: float, y: float, half: float) -> tuple[tuple[float, float, float, float], ...]:
    return ((x - half, y - half, x + half, y + half),)


def _region(place: Placement, model: Model, found: Contents, scale: float) -> Region:
    """The region in which the official sampler finds one place: that of a thing on the workspace."""
    root, _ = things.root_of(model, place.pos_m, place.yaw_rad, scale)
    middle = found.arena.middle_m
    half = model.jitter_m if model.free else POINT_M
    yaw = (0.0, 0.0) if model.free else (place.yaw_rad, place.yaw_rad)
    workspace = found.arena.workspace
    return Region(f"{workspace}_{place.object}_start_region", workspace, _point(root[0] - middle[0], root[1] - middle[1], half), yaw)


def problem_of(spec: SceneSpec) -> Problem:
    """The task file of a scene, as data.

    Raises:
      InputError: the scene's layout is no task of the installed package, it holds other things than that task, or its goal is no predicate
        of LIBERO.
    """
    source = tasks.task(spec.spatial.layout).problem()
    found, goal = contents(source), to_atom(spec.task.goal)
    if goal is None:
        raise InputError(f"the goal {shown(spec.task.goal)} is no predicate of a task file: ask for one of LIBERO's")
    require_fit(spec, models(found))
    kept = found.free | found.fixtures
    regions, init = [], []
    for name, model in kept.items():
        place = spec.placement(name)
        if place.support == TABLE:
            region = _region(place, model, found, spec.attribute(name).scale)
            regions.append(region)
            init.append(Atom("on", (name, region.name)))
        else:
            inside = any(r.predicate == "in" for r in source.init if r.names == (name, place.region))
            init.append(Atom("in" if inside else "on", (name, place.region)))
    for place in spec.spatial.placements:
        category = model_of(spec.attribute(place.object).asset).category
        if place.opening is not None and place.opening >= OPEN_FROM and category in ("wooden_cabinet", DRAWER):
            part = place.object if category == DRAWER else f"{place.object}_top"
            init.append(Atom("open", (f"{part}_region",)))
    goals = {n for n in goal.names if n not in kept}
    parts = [r for r in source.regions if not r.ranges or r.name in goals]
    interest = tuple(n for n in dict.fromkeys(goal_parts(goal, found)) if n in kept)
    return dataclasses.replace(
        source,
        language=spec.task.instruction,
        regions=(*regions, *parts),
        of_interest=interest,
        init=tuple(init),
        goal=(goal,),
    )


def only_beside(spec: SceneSpec) -> tuple[str, ...]:
    """What of a scene its task file cannot say, one line each."""
    found = []
    for place in spec.spatial.placements:
        thing = spec.attribute(place.object)
        model = model_of(thing.asset)
        if model.free and abs(place.yaw_rad) > SAME_RAD:
            found.append(f"{place.object} is turned by {place.yaw_rad:.4f} rad")
        if model.free and place.support != TABLE:
            found.append(f"where on {place.support} {place.object} stands")
        if place.opening is not None and place.opening != (_DRAWN_OPEN if place.opening >= OPEN_FROM and model.joint != "button" else 0.0):
            found.append(f"{place.object} is {place.opening:.4f} open")
        found += _attributes(thing, model)
    return tuple(found)


def _attributes(thing: ObjectAttributes, model: Model) -> list[str]:
    stated = (("scale", thing.scale, 1.0), ("mass_kg", thing.mass_kg, model.mass_kg), ("friction", thing.friction, FRICTION))
    return [f"{thing.object} has {field} {value:g}, not {own:g}" for field, value, own in stated if value != own]


def export(spec: SceneSpec) -> Exported:
    """Both texts of a scene. Raises InputError as ``problem_of`` and ``writing.write``."""
    beside = {"format": FORMAT, "only_here": list(only_beside(spec)), "scene": json.loads(to_json(spec))}
    return Exported(write(problem_of(spec)), json.dumps(beside, indent=1, sort_keys=True) + "\n")


def write_files(spec: SceneSpec, folder: Path) -> tuple[Path, Path]:
    """Both files of a scene in a folder, named by its hash. Raises InputError as ``export``, OSError."""
    made = export(spec)
    folder.mkdir(parents=True, exist_ok=True)
    bddl, beside = folder / f"{spec.scene_id}.bddl", folder / f"{spec.scene_id}.json"
    bddl.write_text(made.bddl, encoding="utf-8")
    beside.write_text(made.beside, encoding="utf-8")
    return bddl, beside


def read_beside(text: str) -> SceneSpec:
    """The scene of the JSON beside a task file.

    Raises:
      InputError: it is no such file.
    """
    try:
        value = json.loads(text)
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise ValueError(f"format {value.get('format') if isinstance(value, dict) else None!r} is not {FORMAT}")
        return from_json(json.dumps(value["scene"]))
    except pydantic.ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = quote(".".join(map(str, wrong["loc"])))
        raise InputError(f"the JSON beside the task file is no scene: {where}: {wrong['msg']}: export the scene again") from error
    except (ValueError, KeyError, RecursionError) as error:
        raise InputError(f"the JSON beside the task file is no scene: {str(error).splitlines()[0]}: export the scene again") from error
