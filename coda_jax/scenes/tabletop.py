"""A scene seen as plane geometry: footprints, gaps, supports, and what it means that a thing rests where the spec puts it."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping

from coda_jax.scenes import families
from coda_jax.scenes.assets import Asset, Grasp
from coda_jax.scenes.placement import Footprint, Workspace, footprint, gap, grasps_among
from coda_jax.scenes.spec import Placement, SceneSpec, SpatialFactor

HOME_JAW_RAD = 0.0  # direction in which the jaws close at the home posture, base frame
APPROACH_LENGTH_M = 0.15  # the corridor beside a grasp that a finger comes down through is watched this far out
APPROACH_HALF_WIDTH_M = 0.02
CROWDED_M = 0.034  # things closer than this crowd each other; training layouts leave 0.035 m


@dataclasses.dataclass(frozen=True)
class Tabletop:
    """Geometry of a spec; computed on first use and kept. Raises what families.scaled_assets and families.read_goal raise."""

    spec: SceneSpec

    @functools.cached_property
    def assets(self) -> dict[str, Asset]:
        """Object id to asset at the scene's scale."""
        return families.scaled_assets(self.spec)

    @functools.cached_property
    def goals(self) -> tuple[families.Goal, ...]:
        return families.read_goals(self.spec)

    @property
    def goal(self) -> families.Goal:
        """What is asked for first."""
        return self.goals[0]

    @property
    def task_objects(self) -> tuple[str, ...]:
        """Ids of what the task is about: what is moved and where to."""
        return tuple(dict.fromkeys(n for g in self.goals for n in (g.target, g.reference)))

    @property
    def steps(self) -> tuple[families.Step, ...]:
        """The goals in order, with where everything is now."""
        return tuple(families.Step(i, self.goals, self.assets, self.shapes) for i in range(len(self.goals)))

    @property
    def workspace(self) -> Workspace:
        return families.family_of(self.spec).workspace

    @functools.cached_property
    def places(self) -> dict[str, Placement]:
        return {p.object: p for p in self.spec.spatial.placements}

    @functools.cached_property
    def shapes(self) -> dict[str, Footprint]:
        return {name: self._shape(name) for name in self.assets}

    def _shape(self, name: str) -> Footprint:
        place, asset = self.places[name], self.assets[name]
        return footprint(asset, *place.pos_m[:2], place.yaw_rad, place.pos_m[2] - asset.half_extent_m[2])

    @property
    def free(self) -> tuple[str, ...]:
        """Ids of the free objects, in token order."""
        return tuple(n for n, a in self.assets.items() if a.kind == "object")

    def others(self, *known: str) -> tuple[str, ...]:
        """Ids of the free objects other than ``known``."""
        return tuple(n for n in self.free if n not in known)

    def gap(self, a: str, b: str) -> float:
        """Distance of two footprints, m; negative where they overlap."""
        return gap(self.shapes[a], self.shapes[b])

    def distance(self, a: str, b: str) -> float:
        """Horizontal distance of two centres, m."""
        return math.dist(self.places[a].pos_m[:2], self.places[b].pos_m[:2])

    def stands_on(self, a: str, b: str) -> bool:
        """Whether ``a`` stands on or in ``b``, directly or on something that does."""
        support, seen = self.places[a].support, set()
        while support in self.places and support not in seen:
            if support == b:
                return True
            seen.add(support)
            support = self.places[support].support
        return False

    def carried(self, name: str) -> tuple[str, ...]:
        """What moves along with an object: everything that stands on or in it."""
        return tuple(n for n in self.places if self.stands_on(n, name))

    def neighbours(self, name: str) -> tuple[str, ...]:
        """Ids of the things beside an object: neither what it stands on nor what stands on it."""
        return tuple(n for n in self.assets if n != name and not self.stands_on(name, n) and not self.stands_on(n, name))

    def nearest_gap(self, name: str, among: tuple[str, ...] | None = None) -> float:
        """Smallest gap to a neighbour, m; infinite without one."""
        return min((self.gap(name, n) for n in (self.neighbours(name) if among is None else among)), default=math.inf)

    def free_grasps(self, name: str) -> tuple[Grasp, ...]:
        """Grasps of an object that the open hand can reach."""
        return grasps_among(name, self.assets[name], self.shapes)

    def turn_needed(self, name: str, yaw_rad: float | None = None) -> float:
        """Smallest turn of the wrist from its home posture to one of the object's grasps, rad, 0 to pi/2; pi/2 without a grasp."""
        yaw = self.places[name].yaw_rad if yaw_rad is None else yaw_rad
        return min((abs(half_turn(yaw + g.yaw_rad - HOME_JAW_RAD)) for g in self.assets[name].grasps), default=math.pi / 2)

    def approach_sides(self, name: str) -> tuple[Footprint, Footprint]:
        """The corridors on both sides of the object's best grasp through which the fingers come down."""
        grasp, mine = self.assets[name].grasps[0], self.shapes[name]
        c, s = math.cos(mine.yaw), math.sin(mine.yaw)
        x, y = mine.x + c * grasp.pos_m[0] - s * grasp.pos_m[1], mine.y + s * grasp.pos_m[0] + c * grasp.pos_m[1]
        jaw, half = mine.yaw + grasp.yaw_rad, APPROACH_LENGTH_M / 2
        out = grasp.width_m / 2 + half
        sides = (
            Footprint(x + side * out * math.cos(jaw), y + side * out * math.sin(jaw), half, APPROACH_HALF_WIDTH_M, jaw) for side in (1, -1)
        )
        first, second = sides
        return first, second

    def approach_gap(self, name: str) -> float:
        """Smallest gap between an object and a neighbour that stands in a corridor of its best grasp, m; at most APPROACH_LENGTH_M."""
        if not self.assets[name].grasps:
            return APPROACH_LENGTH_M
        sides = self.approach_sides(name)
        inside = (n for n in self.neighbours(name) if any(gap(side, self.shapes[n]) < 0.0 for side in sides))
        return min((self.gap(name, n) for n in inside), default=APPROACH_LENGTH_M)

    def surface(self, support: str) -> float:
        """Height of the face that things on a support rest on, m: a container's floor, otherwise the top of its bounding box."""
        if support not in self.assets:
            return 0.0
        asset, z = self.assets[support], self.places[support].pos_m[2]
        return z + (asset.cavity_pos_m[2] - asset.cavity_half_m[2] if asset.kind == "container" else asset.half_extent_m[2])

    def face(self, name: str) -> Footprint | None:
        """The face that an object rests on, None on the table."""
        return families.family_of(self.spec).face(self, name) if self.places[name].support in self.assets else None

    def rise(self, name: str) -> float:
        """How far an object's underside is above the face it rests on, m: 0 for one that rests."""
        face = self.face(name)
        return self.shapes[name].bottom - (0.0 if face is None else face.top)


def half_turn(angle_rad: float) -> float:
    """An angle of the (symmetric) jaws, brought into -pi/2..pi/2."""
    return (angle_rad + math.pi / 2) % math.pi - math.pi / 2


def moved(spec: SceneSpec, to: Mapping[str, tuple[float, float]]) -> SceneSpec:
    """The spec with objects at new (x, y), m; what stands on a moved object comes along."""
    top = Tabletop(spec)
    shifts: dict[str, tuple[float, float]] = {}
    for name, (x, y) in to.items():
        shift = x - top.places[name].pos_m[0], y - top.places[name].pos_m[1]
        shifts |= dict.fromkeys((name, *(n for n in top.carried(name) if n not in to)), shift)
    return _with_places(spec, {n: (dx, dy, 0.0, 0.0) for n, (dx, dy) in shifts.items()})


def turned(spec: SceneSpec, name: str, yaw_rad: float) -> SceneSpec:
    """The spec with one object turned to a yaw."""
    return _with_places(spec, {name: (0.0, 0.0, 0.0, yaw_rad - spec.placement(name).yaw_rad)})


def shifted(spec: SceneSpec, name: str, by_m: tuple[float, float, float]) -> SceneSpec:
    """The spec with one object and all that stands on it moved by (x, y, z), m."""
    return _with_places(spec, dict.fromkeys((name, *Tabletop(spec).carried(name)), (*by_m, 0.0)))


def raised(spec: SceneSpec, name: str, by_m: float) -> SceneSpec:
    """The spec with one object and all that stands on it raised."""
    return shifted(spec, name, (0.0, 0.0, by_m))


def _with_places(spec: SceneSpec, shifts: Mapping[str, tuple[float, float, float, float]]) -> SceneSpec:
    places = []
    for p in spec.spatial.placements:
        if p.object in shifts:
            dx, dy, dz, turn = shifts[p.object]
            x, y, z = p.pos_m
            yaw = round(_full_turn(p.yaw_rad + turn), 6) if turn else p.yaw_rad  # a move leaves what is not its own
            p = dataclasses.replace(p, pos_m=(round(x + dx, 6), round(y + dy, 6), round(z + dz, 6)), yaw_rad=yaw)
        places.append(p)
    return dataclasses.replace(spec, spatial=SpatialFactor(_drawn_layout(spec), tuple(places)))


def _drawn_layout(spec: SceneSpec) -> str:
    """The layout without the number of an initial state: a scene whose places were changed is that state no longer."""
    return spec.spatial.layout.partition("@")[0]


def _full_turn(angle_rad: float) -> float:
    return angle_rad if abs(angle_rad) <= math.pi else (angle_rad + math.pi) % (2 * math.pi) - math.pi


def rested(spec: SceneSpec, like: SceneSpec) -> SceneSpec:
    """The spec with every height derived again: each thing as far above its support's face as in ``like``.

    Sizes belong to the attributes and heights to the places, so whoever changes a size moves the centre of the box that rests. This puts
    it back on its support.

    Args:
      like: a spec of the same objects with consistent sizes and heights.
    """
    rises, top = Tabletop(like), Tabletop(spec)
    heights: dict[str, float] = {}
    waiting = list(spec.object_ids)
    while waiting:
        ready = [n for n in waiting if top.places[n].support not in waiting]
        if not ready:
            raise ValueError(f"{' and '.join(waiting[:4])} stand on each other: put one of them on the table")
        for name in ready:
            support, face = top.places[name].support, top.face(name)
            base = 0.0 if face is None else heights[support] + (face.top - top.places[support].pos_m[2])
            heights[name] = base + rises.rise(name) + top.assets[name].half_extent_m[2]
        waiting = [n for n in waiting if n not in heights]
    places = []
    for p in spec.spatial.placements:
        x, y, z = p.pos_m
        # the same height stays the same number, whatever the rounding of its parts
        new = z if abs(heights[p.object] - z) < 1e-6 else round(heights[p.object], 6)
        places.append(dataclasses.replace(p, pos_m=(x, y, new)))
    return dataclasses.replace(spec, spatial=SpatialFactor(spec.spatial.layout, tuple(places)))
