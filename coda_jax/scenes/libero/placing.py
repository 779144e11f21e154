"""Where the things of a task stand: drawn from its regions by a seed, or read from an initial state.

The official sampler takes an object's radius off both ends of a region; ours scatters over the same intervals, and keeps footprints apart.
Every height is that of a thing at rest; the suites' own states begin up to 7 cm in the air or 1.4 cm inside the floor.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from coda_jax.runtime import InputError
from coda_jax.scenes.libero import things
from coda_jax.scenes.libero.bddl import Atom, Problem
from coda_jax.scenes.libero.things import DRAWER_SUFFIX, MODELS, Arena, Model
from coda_jax.scenes.placement import Footprint, gap
from coda_jax.scenes.spec import Placement

TABLE = "table"  # the support of what stands on the workspace
LEAST_GAP_M = 0.004
TRIES = 400
OPEN_SHARE = (0.875, 1.0)  # of a drawer that a task begins with open
ROBOT_Q = 9  # coordinates of arm and fingers, which come first in a state
FREE_Q = 7
# How far below the top of its box a thing comes to rest on another: a bowl's foot goes into the ramekin (measured, at rest).
NESTS_M = {("akita_black_bowl", "glazed_rim_porcelain_ramekin"): 0.0095}
FIXTURE_ORDER = ("wine_rack", "flat_stove", "wooden_cabinet")  # of tokens
_WORKSPACES = tuple(a.category for a in things.ARENAS.values())


class NoDraw(InputError):
    """The regions of a task leave no room for all of its things; the message says what to change."""


@dataclasses.dataclass(frozen=True)
class Contents:
    """The things of a task by kind, in the order of their tokens."""

    arena: Arena
    free: dict[str, Model]
    fixtures: dict[str, Model]


def contents(problem: Problem) -> Contents:
    """What is in a task.

    Raises:
      InputError: a workspace or category that is not of the three benchmarks.
    """
    if problem.name not in things.ARENAS:
        raise InputError(f"problem {problem.name} is not simulated here: use one of {', '.join(things.ARENAS)}")
    placed = [t for t in problem.fixtures if t.category not in _WORKSPACES]
    for thing in (*problem.objects, *placed):
        if thing.category not in MODELS:
            raise InputError(f"{thing.name}: no model {thing.category} among those of the three benchmarks: {', '.join(MODELS)}")
    fixed = sorted(placed, key=lambda t: FIXTURE_ORDER.index(t.category) if t.category in FIXTURE_ORDER else 0)
    return Contents(
        things.ARENAS[problem.name],
        {t.name: MODELS[t.category] for t in problem.objects},
        {t.name: MODELS[t.category] for t in fixed},
    )


def thing_of(name: str, found: Contents) -> tuple[str, str]:
    """The thing that a name of an atom belongs to and what is left: "" for the thing itself, else its region. ("table", name) for a
    region of the workspace."""
    for thing in (*found.free, *found.fixtures):
        if name == thing:
            return thing, ""
        if name.startswith(thing + "_"):
            return thing, name[len(thing) + 1 :]
    return TABLE, name


def goal_parts(atom: Atom, found: Contents) -> tuple[str, str]:
    """Target and reference of a goal: what is moved and where to; of a drawer or knob both are the thing with its token.

    The bottom drawer has no token: its task is told by the cabinet's. A region of the workspace belongs to the thing it is named after.
    """
    thing, part = thing_of(atom.names[0], found)
    if atom.predicate not in ("on", "in"):
        drawer = thing + DRAWER_SUFFIX if part == "middle_region" else thing
        return drawer, drawer
    reference, part = thing_of(atom.names[1], found)
    if reference != TABLE:
        return thing, reference + DRAWER_SUFFIX if part == "middle_region" else reference
    named = [n for n, m in (found.fixtures | found.free).items() if m.words.split()[-1] in part.split("_") and n != thing]
    if not named:
        raise InputError(f"{atom}: no thing stands for region {part}: name the region after a thing, as main_table_stove_front_region")
    return thing, named[0]


def starts(problem: Problem) -> dict[str, Atom]:
    """The initial atom that says where each thing stands. Raises InputError where one has none or two."""
    found: dict[str, Atom] = {}
    for atom in problem.init:
        if atom.predicate in ("on", "in"):
            if atom.names[0] in found:
                raise InputError(f"{atom.names[0]} stands in two places at the start, {found[atom.names[0]]} and {atom}: remove one")
            found[atom.names[0]] = atom
    return found


def openings(problem: Problem) -> tuple[str, ...]:
    """Names of the regions that are open at the start."""
    return tuple(a.names[0] for a in problem.init if a.predicate == "open")


def draw(problem: Problem, seed: int, fixed: dict[str, Placement] | None = None) -> dict[str, Placement]:
    """Places for everything, drawn by a seed; the same seed gives the same places on every machine.

    Args:
      fixed: placements of fixtures that are known already; the others are drawn.

    Raises:
      InputError: a thing has no place. NoDraw: no draw leaves everything apart.
    """
    rng = np.random.default_rng(seed)
    found, where = contents(problem), starts(problem)
    for _ in range(TRIES):
        placed = _fixtures(problem, found, where, rng, fixed or {})
        waiting = list(found.free)
        while waiting:
            ready = [n for n in waiting if (a := where.get(n)) is None or thing_of(a.names[1], found)[0] not in waiting]
            if not ready:
                raise InputError(f"{' and '.join(waiting)} stand on each other: put one of them on the workspace")
            for name in ready:
                placed[name] = _place(name, problem, found, where, placed, rng)
            waiting = [n for n in waiting if n not in ready]
        if _apart(found, placed):
            return {n: placed[n] for n in (*found.free, *found.fixtures, *_drawers(found))}
    raise NoDraw(f"no draw of {TRIES} leaves the things {LEAST_GAP_M:g} m apart: use larger regions, or regions further apart")


def _drawers(found: Contents) -> list[str]:
    return [n + DRAWER_SUFFIX for n, m in found.fixtures.items() if m.category == "wooden_cabinet"]


def _atom(name: str, where: dict[str, Atom]) -> Atom:
    if name not in where:
        raise InputError(f"no initial relation says where {name} stands: add (On {name} region) to :init")
    return where[name]


def _spot(problem: Problem, region: str, arena: Arena, scatter: float, rng: np.random.Generator) -> tuple[float, float]:
    """A point of a region of the workspace, in the scene's frame; ``scatter``: the radius that the official sampler takes off."""
    ranges = problem.region(region).ranges
    if not ranges:
        raise InputError(f"region {region} has no ranges to draw from: add (:ranges ((x0 y0 x1 y1)))")
    x0, y0, x1, y1 = ranges[int(rng.integers(len(ranges)))]
    half = abs((x1 - x0) / 2 - scatter), abs((y1 - y0) / 2 - scatter)
    x, y = (x0 + x1) / 2 + half[0] * rng.uniform(-1, 1), (y0 + y1) / 2 + half[1] * rng.uniform(-1, 1)
    return arena.middle_m[0] + x, arena.middle_m[1] + y


def _fixtures(
    problem: Problem, found: Contents, where: dict[str, Atom], rng: np.random.Generator, fixed: dict[str, Placement]
) -> dict[str, Placement]:
    placed: dict[str, Placement] = {}
    opened = openings(problem)
    for name, model in found.fixtures.items():
        region = _atom(name, where).names[1]
        x, y = _spot(problem, region, found.arena, 0.0, rng)
        yaw, share = float(rng.uniform(*problem.region(region).yaw_rad)), float(rng.uniform(*OPEN_SHARE))
        if name in fixed:
            placed[name] = fixed[name]
        else:
            opening = (share if f"{name}_top_region" in opened else 0.0) if model.joint else None
            placed[name] = fixture_at(name, model, x, y, yaw, region, opening)
        if model.category == "wooden_cabinet":
            drawer = name + DRAWER_SUFFIX
            placed[drawer] = fixed.get(drawer, drawer_at(placed[name], share if f"{drawer}_region" in opened else 0.0))
    return placed


def fixture_at(name: str, model: Model, x: float, y: float, yaw_rad: float, region: str, opening: float | None) -> Placement:
    """A fixture whose root body stands at (x, y) of the scene's frame."""
    centre = things.centre_of(model, (x, y, model.root_m), yaw_rad)
    return Placement(name, _rounded(centre), round(yaw_rad, 6), TABLE, region, 0.0, None if opening is None else round(opening, 6))


def drawer_at(cabinet: Placement, opening: float) -> Placement:
    """The middle drawer of a cabinet, closed: how far it stands open is its opening."""
    model = things.DRAWER_MODEL
    root, _ = things.root_of(MODELS["wooden_cabinet"], cabinet.pos_m, cabinet.yaw_rad)
    centre = things.centre_of(model, root, cabinet.yaw_rad)
    name = cabinet.object + DRAWER_SUFFIX
    return Placement(name, _rounded(centre), cabinet.yaw_rad, cabinet.object, cabinet.object, 0.0, round(opening, 6))


def _rounded(pos: things.Vec3) -> things.Vec3:
    return round(pos[0], 6), round(pos[1], 6), round(pos[2], 6)


def _place(
    name: str, problem: Problem, found: Contents, where: dict[str, Atom], placed: dict[str, Placement], rng: np.random.Generator
) -> Placement:
    model, region = found.free[name], _atom(name, where).names[1]
    thing, part = thing_of(region, found)
    if thing == TABLE:
        x, y = _spot(problem, region, found.arena, model.jitter_m, rng)
    else:
        model_under = (found.free | found.fixtures)[thing]
        under = face(thing, part, model_under, placed, model)
        x, y = under.x, under.y
        box = model_under.regions.get(part)
        if box is not None and not box.joint:  # as the official sampler: over half of the region, less the radius
            half = [max(h / 2 - model.jitter_m, 0.0) for h in box.half_m[:2]]
            x, y = x + half[0] * float(rng.uniform(-1, 1)), y + half[1] * float(rng.uniform(-1, 1))
    return resting(name, model, (x, y), 0.0, region, found, placed)


def face(thing: str, part: str, model: Model, placed: Mapping[str, Placement], upon: Model, scale: float = 1.0) -> Footprint:
    """What a thing, or a region of it, offers ``upon`` to stand on, the height as its ``top``; a drawer takes its regions along.

    Args:
      part: name of the region, "" for the whole thing. model, scale: of the thing.

    Raises:
      InputError: it has no such region.
    """
    place = placed[thing]
    if not part:
        whole = footprint(model, place, scale)
        return dataclasses.replace(whole, top=whole.top - scale * NESTS_M.get((upon.category, model.category), 0.0))
    if part not in model.regions:
        raise InputError(f"{thing} has no region {part}: use one of {', '.join(model.regions) or 'no region, the thing itself'}")
    box = model.regions[part]
    x, y, z = (scale * v for v in box.pos_m)
    hx, hy, hz = (scale * v for v in box.half_m)
    if box.joint:
        joint = model.joints[box.joint]
        opening = (
            placed[thing + DRAWER_SUFFIX].opening if box.joint == "middle_level" else place.opening if box.joint == model.joint else 0.0
        )
        way = joint.closed + (opening or 0.0) * (joint.opened - joint.closed)
        x, y = x + joint.axis[0] * way, y + joint.axis[1] * way
    root, _ = things.root_of(model, place.pos_m, place.yaw_rad, scale)
    c, s = math.cos(place.yaw_rad), math.sin(place.yaw_rad)
    at = root[0] + c * x - s * y, root[1] + s * x + c * y
    return Footprint(*at, hx, hy, place.yaw_rad, root[2] + z - hz, root[2] + scale * box.surface_m)


def resting(
    name: str, model: Model, spot: tuple[float, float], yaw_rad: float, region: str, found: Contents, placed: dict[str, Placement]
) -> Placement:
    """A free thing with its root body over a point, at rest on what its region says."""
    thing, part = thing_of(region, found)
    surface = 0.0
    if thing != TABLE:
        support = (found.free | found.fixtures)[thing]
        surface = face(thing, part if part in support.regions else "", support, placed, model).top
    x, y, _ = things.centre_of(model, (*spot, 0.0), yaw_rad)
    return Placement(name, _rounded((x, y, surface + model.half_m[2])), round(yaw_rad, 6), thing, region, 0.0)


def footprint(model: Model, place: Placement, scale: float = 1.0) -> Footprint:
    """The rectangle of a thing's box on the workspace."""
    (x, y, z), (hx, hy, hz) = place.pos_m, (scale * v for v in model.half_m)
    return Footprint(x, y, hx, hy, place.yaw_rad, z - hz, z + hz)


def _apart(found: Contents, placed: dict[str, Placement]) -> bool:
    models = found.free | found.fixtures
    names = [n for n in models if placed[n].support == TABLE]
    shapes = {n: footprint(models[n], placed[n]) for n in names}
    return all(
        gap(shapes[a], shapes[b]) >= LEAST_GAP_M for i, a in enumerate(names) for b in names[i + 1 :] if a in found.free or b in found.free
    )


def joint_order(problem: Problem) -> list[tuple[str, str]]:
    """Fixture and joint of the coordinates behind the free things, in the order of a state (that of the file's fixtures)."""
    return [(t.name, j) for t in problem.fixtures if t.category in MODELS for j in MODELS[t.category].joints]


def from_state(problem: Problem, state: Float[np.ndarray, " q"], seed: int) -> dict[str, Placement]:
    """Places of everything in an initial state. Fixtures are no part of it: their places are drawn by a seed.

    Args:
      state: time, qpos, qvel (states.read).

    Raises:
      InputError: the state is of another task.
    """
    found, where = contents(problem), starts(problem)
    joints = joint_order(problem)
    nq = ROBOT_Q + FREE_Q * len(found.free) + len(joints)
    nv = nq - len(found.free)
    if len(state) != 1 + nq + nv:
        raise InputError(f"the state has {len(state)} numbers, this task's have {1 + nq + nv}: use the task's own initial states")
    qpos = state[1 : 1 + nq]
    values = dict(zip(joints, qpos[ROBOT_Q + FREE_Q * len(found.free) :], strict=True))
    placed = _fixtures(problem, found, where, np.random.default_rng(seed), {})
    for name, model in found.fixtures.items():
        if model.joint:
            placed[name] = dataclasses.replace(placed[name], opening=_share(model, model.joint, values[name, model.joint]))
        if model.category == "wooden_cabinet":
            placed[name + DRAWER_SUFFIX] = drawer_at(placed[name], _share(model, "middle_level", values[name, "middle_level"]))
    order = list(found.free)
    for name in sorted(order, key=lambda n: thing_of(_atom(n, where).names[1], found)[0] in found.free):  # what carries others first
        at = ROBOT_Q + FREE_Q * order.index(name)
        x, y = float(qpos[at]) - found.arena.origin_m[0], float(qpos[at + 1]) - found.arena.origin_m[1]
        w, i, j, k = (float(v) for v in qpos[at + 3 : at + 7])
        yaw = things.yaw_of(found.free[name], (w, i, j, k))
        placed[name] = resting(name, found.free[name], (x, y), yaw, _atom(name, where).names[1], found, placed)
    return {n: placed[n] for n in (*found.free, *found.fixtures, *_drawers(found))}


def _share(model: Model, joint: str, value: float) -> float:
    ends = model.joints[joint]
    return round(min(max((float(value) - ends.closed) / (ends.opened - ends.closed), 0.0), 1.0), 6) + 0.0  # no -0.0
