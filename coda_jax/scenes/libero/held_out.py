"""What of LIBERO may not be trained on: everything that only the perturbed suites have.

A scene is recognised by what is in it: things that stand in the same task files. Two things are told:

* goals: a relation between the same categories that a perturbed suite asks of the same things and no source task does. Where the source
  tasks of the same things differ in where something stands (the two bowls of libero_spatial), that place counts too.
* places: the perturbed suites exchange the places of pairs. A scene is refused when one thing that a perturbed task moved stands at its
  new place and all others that it moved do too, or are nearer to theirs than to any place that a source task gives them; or when what the
  perturbed task's own goal is about stands at its new place, for that goal.

"At a place" is within WITHIN_M of its region, on both axes: the suite's own states scatter over 0.015 m.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping

from coda_jax.scenes.libero import tasks, things
from coda_jax.scenes.libero.bddl import Atom, Problem
from coda_jax.scenes.libero.goals import to_atom
from coda_jax.scenes.libero.importing import models
from coda_jax.scenes.libero.placing import TABLE, Contents, contents, goal_parts, starts, thing_of
from coda_jax.scenes.spec import Placement, SceneSpec

WITHIN_M = 0.04
SUITES = ("pos", "task", "object", "lan")  # perturbations whose scenes and sentences are held out


@dataclasses.dataclass(frozen=True)
class Spot:
    """Where a thing stands in a task file: rectangles on the workspace (scene's frame, m), or a region of another thing."""

    region: str
    ranges: tuple[tuple[float, float, float, float], ...] = ()

    def holds(self, place: Placement, root_xy: tuple[float, float]) -> bool:
        """Whether a thing stands there."""
        if not self.ranges:
            return place.region == self.region
        return place.support == TABLE and any(max(gaps) <= WITHIN_M for gaps in self._gaps(root_xy))

    def distance_m(self, place: Placement, root_xy: tuple[float, float]) -> float:
        """How far beside the region a thing stands, 0 in it; infinite where one of both is on another thing and the other is not there."""
        if not self.ranges or place.support != TABLE:
            return 0.0 if not self.ranges and place.region == self.region else math.inf
        return min(math.hypot(*gaps) for gaps in self._gaps(root_xy))

    def _gaps(self, root_xy: tuple[float, float]) -> list[tuple[float, float]]:
        """To each rectangle, along x and y."""
        x, y = root_xy
        return [(max(x0 - x, x - x1, 0.0), max(y0 - y, y - y1, 0.0)) for x0, y0, x1, y1 in self.ranges]


@dataclasses.dataclass(frozen=True)
class Rule:
    """One held-out scene. spots: all of them must hold. goal: that is asked for, None for any. kind, what: of the refusal.

    before: where source tasks of the same things put what an exchange moved; with it one spot must hold, and of the others it is enough
    that the thing is nearer to it than to all of these.
    """

    kind: str
    what: str
    things: tuple[str, ...]
    spots: tuple[tuple[str, Spot], ...]
    goal: tuple[str, ...] | None
    before: Mapping[str, tuple[Spot, ...]] = dataclasses.field(default_factory=dict)

    def placed(self, places: Mapping[str, tuple[Placement, tuple[float, float]]]) -> bool:
        """Whether things stand as held out; of each its placement and its root's x and y (m), by the task file's names."""
        held = [spot.holds(*places[name]) for name, spot in self.spots]
        if not self.before or not any(held):
            return all(held)
        return all(h or self._nearer(name, spot, *places[name]) for h, (name, spot) in zip(held, self.spots, strict=True))

    def _nearer(self, name: str, spot: Spot, place: Placement, root_xy: tuple[float, float]) -> bool:
        return all(spot.distance_m(place, root_xy) < old.distance_m(place, root_xy) for old in self.before[name])


def _things(problem: Problem) -> tuple[str, ...]:
    found = contents(problem)
    return tuple(sorted(m.category for m in (found.free | found.fixtures).values()))


def _spots(problem: Problem) -> dict[str, Spot]:
    found = contents(problem)
    mx, my = found.arena.middle_m
    spots = {}
    for name, atom in starts(problem).items():
        region = atom.names[1]
        ranges = problem.region(region).ranges if region in problem.region_names else ()
        spots[name] = Spot(region, tuple((x0 + mx, y0 + my, x1 + mx, y1 + my) for x0, y0, x1, y1 in ranges))
    return spots


def goal_key(atom: Atom, found: Contents) -> tuple[str, ...]:
    """A goal by categories: predicate, then category and region of each name."""
    models = found.free | found.fixtures
    key = [atom.predicate]
    for name in atom.names:
        thing, part = thing_of(name, found)
        key += [models[thing].category if thing != TABLE else TABLE, part]
    return tuple(key)


@dataclasses.dataclass(frozen=True)
class _Source:
    """A source task. key: of its goal. target: what the goal is about first."""

    things: tuple[str, ...]
    spots: dict[str, Spot]
    key: tuple[str, ...]
    target: str


def _kind(name: str) -> str:
    """What things of one category share of their names."""
    return name.rstrip("0123456789")


def _asked(source: _Source) -> frozenset[tuple[str, Spot, bool]]:
    """What tells a task from others of the same things and goal, whatever things of one category are called."""
    return frozenset((_kind(n), source.spots[n], n == source.target) for n in _varying(source.things))


def _source(problem: Problem) -> _Source:
    return _Source(_things(problem), _spots(problem), goal_key(problem.goal[0], contents(problem)), problem.goal[0].names[0])


@functools.cache
def _sources() -> dict[str, _Source]:
    """By task name."""
    found = {}
    for family in tasks.FAMILIES:
        for task in tasks.tasks(family):
            found[task.name] = _source(task.problem())
    return found


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Every held-out scene of the perturbed suites of the three benchmarks, read from the installed package. Raises InputError."""
    sources = _sources()
    trained = {(s.things, s.key) for s in sources.values()}
    found: list[Rule] = []
    for family in tasks.FAMILIES:
        for task in tasks.tasks(family + tasks.PERTURBATIONS["task"]):
            problem = task.problem()
            asked = _source(problem)
            spots: tuple[tuple[str, Spot], ...] = ()
            if (asked.things, asked.key) in trained:  # the same goal of the same things: where they stand makes the difference
                if any(_asked(asked) == _asked(s) for s in sources.values() if (s.things, s.key) == (asked.things, asked.key)):
                    continue  # a source task under another name
                spots = tuple((n, s) for n, s in asked.spots.items() if n in _varying(asked.things))
            found.append(Rule("goal", f"{problem.goal[0]} of {task.key}", asked.things, spots, (*asked.key, asked.target)))
        for task in tasks.tasks(family + tasks.PERTURBATIONS["pos"]):
            problem, source = task.problem(), sources[task.name]
            spots_now = _spots(problem)
            moved = {n: s for n, s in spots_now.items() if s != source.spots.get(n)}
            own = [n for n in goal_parts(problem.goal[0], contents(problem)) if n in spots_now]
            key = (*source.key, problem.goal[0].names[0])
            alike = [s.spots for s in sources.values() if s.things == source.things]
            before = {n: tuple({spot for s in alike for m, spot in s.items() if _kind(m) == _kind(n)}) for n in moved}
            what = f"the exchange of {' and '.join(moved)} in {task.key}"
            found.append(Rule("layout", what, source.things, tuple(moved.items()), None, before))
            if any(n in moved for n in own):
                pinned = tuple((n, spots_now[n]) for n in own)
                found.append(Rule("layout", f"{' and '.join(own)} as in {task.key}", source.things, pinned, key))
    return tuple(found)


@functools.cache
def _varying(kinds: tuple[str, ...]) -> frozenset[str]:
    """Things that stand elsewhere in different source tasks of the same things."""
    alike = [s.spots for s in _sources().values() if s.things == kinds]
    return frozenset(n for n in alike[0] if len({s.get(n) for s in alike}) > 1) if alike else frozenset()


@functools.cache
def sentences() -> Mapping[str, str]:
    """Instructions that only perturbed suites say, in lower case, with the task that says it."""
    said = {t.problem().language for f in tasks.FAMILIES for t in tasks.tasks(f)}
    found: dict[str, str] = {}
    for family in tasks.FAMILIES:
        for perturbation in SUITES:
            for task in tasks.tasks(family + tasks.PERTURBATIONS[perturbation]):
                sentence = task.problem().language
                if sentence not in said:
                    found.setdefault(sentence, task.key)
    return found


def held_out(spec: SceneSpec) -> tuple[str, str] | None:
    """Why a scene may not be trained on: kind ("scene", "instruction", "goal" or "layout") and a message; None where it may.

    Raises:
      InputError: the package is missing, or the scene's layout is no task of it.
    """
    task = tasks.task(spec.spatial.layout)
    if tasks.perturbation_of(task.suite) != "standard":
        return "scene", f"layout {spec.spatial.layout!r} belongs to a perturbed suite: start from a task of {tasks.family_of(task.suite)}"
    if tasks.state_index(spec.spatial.layout) is not None:
        return "scene", f"layout {spec.spatial.layout!r} is an initial state of the evaluation: draw places of your own"
    if (source := sentences().get(" ".join(spec.task.instruction.lower().split()))) is not None:
        return "instruction", f"instruction {spec.task.instruction!r} is that of {source}: write it in other words"
    problem = task.problem()
    atom, found = to_atom(spec.task.goal), contents(problem)
    own = {name: model.asset for name, model in models(found).items()}
    if {o.object: o.asset for o in spec.attributes.objects} != own:
        return "scene", f"the scene holds other things than its task {task.key}: keep {', '.join(own)}, each with its asset"
    kinds = _things(problem)
    roots = {p.object: _root(spec, p) for p in spec.spatial.placements}
    for rule in rules():
        if rule.things != kinds:
            continue
        for names in _renamings(spec):
            if rule.goal is not None and (atom is None or not _asks(atom, found, rule.goal, names)):
                continue
            places = {n: (spec.placement(names.get(n, n)), roots[names.get(n, n)]) for n, _ in rule.spots}
            if rule.placed(places):
                advice = "ask for another goal" if rule.kind == "goal" else "move one of them elsewhere"
                return rule.kind, f"{rule.what} is held out: {advice}"
    return None


def _asks(atom: Atom, found: Contents, wanted: tuple[str, ...], names: Mapping[str, str]) -> bool:
    *key, target = wanted
    return goal_key(atom, found) == tuple(key) and names.get(target, target) == atom.names[0]


def _root(spec: SceneSpec, place: Placement) -> tuple[float, float]:
    thing = spec.attribute(place.object)
    root, _ = things.root_of(things.ASSETS[thing.asset], place.pos_m, place.yaw_rad, thing.scale)
    return root[0], root[1]


def _renamings(spec: SceneSpec) -> Iterator[dict[str, str]]:
    """Names of task files to names of the scene, with things of the same category in every order: two bowls are alike."""
    groups: dict[str, list[str]] = {}
    for thing in spec.attributes.objects:
        groups.setdefault(thing.asset, []).append(thing.object)
    several = [g for g in groups.values() if len(g) > 1]
    for orders in itertools.product(*(itertools.permutations(g) for g in several)):
        yield {old: new for group, order in zip(several, orders, strict=True) for old, new in zip(group, order, strict=True)}
