"""What the planner knows of one scene: its things, their tokens and regions, and where everything stands now."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from coda_jax.scenes.libero import things
from coda_jax.scenes.libero.things import DRAWER, Model, Region
from coda_jax.scenes.placement import Footprint
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.libero.planner import grips
from coda_jax.sim.plan import NoPlan, upright_yaw
from coda_jax.types import WorldView

KNOB = "button"  # joint of a stove
_WALL_M = 0.006  # half the thickness taken for walls


def region_of(thing: str, joint: str) -> str:
    """Name of the region that moves with a drawer's joint."""
    return f"{thing}_{joint.removesuffix('_level')}_region"


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a thing's root is. pos_m: its root, or for what moves the middle of its underside."""

    pos_m: tuple[float, float, float]
    yaw_rad: float

    def at(self, x: float, y: float, z: float) -> np.ndarray:
        """A point of the thing's frame in the base frame."""
        c, s = math.cos(self.yaw_rad), math.sin(self.yaw_rad)
        return np.array([self.pos_m[0] + c * x - s * y, self.pos_m[1] + s * x + c * y, self.pos_m[2] + z])

    def box(self, x: float, y: float, hx: float, hy: float, bottom: float, top: float) -> Footprint:
        """A box of the thing's frame."""
        px, py, pz = self.at(x, y, 0.0)
        return Footprint(float(px), float(py), hx, hy, self.yaw_rad, pz + bottom, pz + top)


class Known:
    """One world's scene.

    Args:
      regions: names of the view's regions, with their numbers.
    """

    def __init__(self, spec: SceneSpec, regions: Mapping[str, int]):
        self.spec = spec
        self.models: dict[str, Model] = {o.object: things.ASSETS[o.asset] for o in spec.attributes.objects}
        self.token = {name: i for i, name in enumerate(spec.object_ids)}
        self._regions = regions
        self.scale = {o.object: o.scale for o in spec.attributes.objects}

    def thing_of(self, name: str) -> tuple[str, str]:
        """A thing and the part of it that a name of a goal means: "" for the thing itself; ("", name) for a region of the table."""
        for thing, model in self.models.items():
            if name == thing or (name.startswith(thing + "_") and name[len(thing) + 1 :] in {**model.regions, **model.joints}):
                return thing, name[len(thing) + 1 :]
        return "", name

    def part(self, thing: str, part: str) -> Region | None:
        return self.models[thing].regions.get(part)

    def region(self, name: str) -> int:
        """Number of a region in the views.

        Raises:
          NoPlan: the scene's task file names no such region.
        """
        if name not in self._regions:
            raise NoPlan(f"the scene has no region {name}: use one of {', '.join(self._regions)}")
        return self._regions[name]

    def fixed(self, thing: str) -> Place:
        """A fixture's root."""
        placement, model = self.spec.placement(thing), self.models[thing]
        pos, _ = things.root_of(model, placement.pos_m, placement.yaw_rad, self.scale[thing])
        return Place(pos, placement.yaw_rad)

    def joint(self, view: WorldView, world: int, thing: str, joint: str) -> float:
        """Value of a joint now, m or rad; 0 of a drawer that the task file does not name."""
        if joint == KNOB:
            return float(view.articulation[world, self.token[thing]])
        assert view.regions is not None
        number = self._regions.get(region_of(thing, joint))
        return 0.0 if number is None else float(view.regions.joint[world, number])

    def boxes(self, view: WorldView, world: int) -> Mapping[str, list[Footprint]]:
        """Everything that stands in the way, as boxes by the thing."""
        found: dict[str, list[Footprint]] = {}
        for name, model in self.models.items():
            if model.category == DRAWER:
                continue
            if not model.free:
                found[name] = self._fixture(view, world, name)
                continue
            pos, half = (np.asarray(v[world, self.token[name]], float) for v in (view.pos, view.half_extent))
            yaw, upright = upright_yaw(view.quat[world, self.token[name]])
            if not upright:
                half = np.full(3, float(half.max()))
            place = Place((float(pos[0]), float(pos[1]), float(pos[2] - half[2])), yaw)
            if model.category == "basket":
                found[name] = _walls(place, float(half[0]), float(half[1]), 2 * float(half[2]))
            else:
                found[name] = [place.box(0.0, 0.0, float(half[0]), float(half[1]), 0.0, 2 * float(half[2]))]
        return found

    def _fixture(self, view: WorldView, world: int, name: str) -> list[Footprint]:
        model, place = self.models[name], self.fixed(name)
        if model.category == "flat_stove":
            (x, y), half, top = grips.BURNER_M
            return [place.box(x, y, half, half, 0.0, top), place.box(0.0, 0.0, grips.KNOB_HALF_M, grips.KNOB_HALF_M, 0.0, grips.KNOB_TOP_M)]
        x, y, z = model.centre_m
        top = z + model.half_m[2]
        if model.category != "wooden_cabinet":
            return [place.box(x, y, *model.half_m[:2], 0.0, top)]
        front, back = grips.BODY_Y_M
        found = [place.box(x, (front + back) / 2, model.half_m[0], (back - front) / 2, 0.0, top)]
        for joint in model.joints:
            way = self.joint(view, world, name, joint)
            (outer, inner), height = grips.DRAWER_Y_M, grips.WALL_TOP_M[joint]
            bottom = height - 2 * model.regions[joint.replace("_level", "_region")].half_m[2]
            # Of a drawer the part in front of the body: handle, front and both sides.
            bar_x, _, bar_z = grips.BAR_M[joint]
            bar_y, half = (grips.HANDLE_Y_M + outer) / 2 + way, (outer - grips.HANDLE_Y_M) / 2
            found.append(place.box(bar_x, bar_y, grips.HANDLE_HALF_M, half, bar_z - grips.BAR_HALF_M, bar_z + grips.BAR_HALF_M))
            found.append(place.box(x, (outer + inner) / 2 + way, grips.DRAWER_HALF_M, (inner - outer) / 2, bottom, height))
            middle, half = (outer + way + front) / 2, max((front - outer - way) / 2, 0.0)
            for side in (-1, 1):
                found.append(place.box(x + side * (grips.DRAWER_HALF_M - _WALL_M), middle, _WALL_M, half, bottom, height))
        return found


def _walls(place: Place, hx: float, hy: float, top: float) -> list[Footprint]:
    t = 2 * _WALL_M
    sides = [place.box(k * (hx - t), 0.0, t, hy, 0.0, top) for k in (-1, 1)]
    return sides + [place.box(0.0, k * (hy - t), hx, t, 0.0, top) for k in (-1, 1)]


def highest_between(a: np.ndarray, b: np.ndarray, boxes: Sequence[Footprint], reach_m: float) -> float:
    """Height of the highest box within ``reach_m`` of the straight way between two points [2], m; 0 with none."""
    return max((box.top for box in boxes if _crosses(a, b, box, reach_m)), default=0.0)


def _crosses(a: np.ndarray, b: np.ndarray, box: Footprint, reach_m: float) -> bool:
    """Whether a segment meets a rectangle that is ``reach_m`` larger on all sides (slab test)."""
    c, s = math.cos(box.yaw), math.sin(box.yaw)
    turn = np.array([[c, s], [-s, c]])
    start, way = turn @ (a[:2] - (box.x, box.y)), turn @ (b[:2] - a[:2])
    low, high = 0.0, 1.0
    for p, d, half in zip(start, way, (box.hx + reach_m, box.hy + reach_m), strict=True):
        if abs(d) < 1e-9:
            if abs(p) > half:
                return False
            continue
        first, last = sorted(((-half - p) / d, (half - p) / d))
        low, high = max(low, first), min(high, last)
    return low <= high
