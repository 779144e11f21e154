"""Placing chosen assets by a layout's rule: rejection sampling with the reason of every rejection."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from coda_jax.scenes.assets import Asset
from coda_jax.scenes.families import Family, Goal, Rejected, Step, radius
from coda_jax.scenes.layouts import Layout, Region
from coda_jax.scenes.placement import Footprint, footprint, free_grasps, gap, within_reach

TRIES = 40  # draws of one position before the arrangement is given up


@dataclasses.dataclass(frozen=True)
class Item:
    """What is to be placed. role: target, reference, or other; ids come later."""

    asset: Asset
    role: str


class Content(Protocol):
    """What is to be placed (scenes/content.py)."""

    @property
    def goals(self) -> list[tuple[str, Item, Item]]: ...

    @property
    def fixtures(self) -> list[Item]: ...

    @property
    def free(self) -> list[Item]: ...


@dataclasses.dataclass(frozen=True)
class Placed:
    """Where an item went; ``support`` is -1 for the table, else the index of the fixture among the placed ones."""

    item: Item
    x: float
    y: float
    yaw: float
    bottom: float
    region: str
    support: int = -1

    @property
    def footprint(self) -> Footprint:
        return footprint(self.item.asset, self.x, self.y, self.yaw, self.bottom)


@dataclasses.dataclass
class Arranger:
    """One attempt: places fixtures, target and other objects in this order; ``placed`` keeps that order."""

    layout: Layout
    rng: np.random.Generator
    rejections: collections.Counter[str]

    def __post_init__(self) -> None:
        self.placed: list[Placed] = []

    def arrange(self, family: Family, content: Content) -> list[Placed]:
        """Place everything; what is moved first is the first of the free objects.

        Raises:
          Rejected: no room, no free grasp, no place for the goal, or the goal holds already.
        """
        fixtures, free = content.fixtures, content.free
        regions = list(self.layout.fixtures)
        if not self.layout.raised and self.rng.random() < 0.5:
            regions.reverse()
        for item, region in zip(fixtures, regions, strict=False):
            self._place(item, (region,), self.layout.fixture_yaw_rad)
        self._place_target(free[0], len(fixtures))
        for position, item in enumerate(free[1:]):
            if position < self.layout.close and item.role == "other":
                self._place_close(item)
            else:
                self._place(item, self.layout.clutter, self.layout.yaw_rad)
        self._check(family, content.goals)
        return self.placed

    def _draw(self, region: Region) -> tuple[float, float]:
        return float(self.rng.uniform(*region.x)), float(self.rng.uniform(*region.y))

    def _place(self, item: Item, regions: tuple[Region, ...], largest_yaw: float) -> None:
        for _ in range(TRIES):
            region = regions[int(self.rng.integers(len(regions)))]
            x, y = self._draw(region)
            candidate = Placed(item, x, y, float(self.rng.uniform(-largest_yaw, largest_yaw)), 0.0, region.name)
            if self._fits(candidate, self.layout.clearance_m):
                self.placed.append(candidate)
                return
        raise Rejected(f"no room for a {item.asset.kind}")

    def _fits(self, candidate: Placed, clearance_m: float) -> bool:
        if not within_reach(candidate.x, candidate.y):
            self.rejections["out of reach"] += 1
            return False
        shape = candidate.footprint
        if any(gap(shape, p.footprint) < clearance_m for p in self.placed):
            self.rejections["too close"] += 1
            return False
        return True

    def _place_target(self, item: Item, fixtures: int) -> None:
        if self.layout.raised:
            base = self.placed[0]
            hx, hy, hz = base.item.asset.half_extent_m
            yaw = float(self.rng.uniform(-self.layout.yaw_rad, self.layout.yaw_rad))
            room = max(0.0, min(hx, hy) - max(item.asset.half_extent_m[:2]) - 0.01)
            dx, dy = self.rng.uniform(-room, room, 2)
            self.placed.append(Placed(item, base.x + float(dx), base.y + float(dy), yaw, 2 * hz, base.region, 0))
        elif self.layout.passage and fixtures == 2:
            a, b = self.placed[:2]
            for _ in range(TRIES):
                yaw = float(self.rng.uniform(-self.layout.yaw_rad, self.layout.yaw_rad))
                share = float(self.rng.uniform(0.4, 0.6))
                x = a.x + share * (b.x - a.x) + float(self.rng.uniform(-0.015, 0.015))
                y = a.y + share * (b.y - a.y) + float(self.rng.uniform(-0.015, 0.015))
                candidate = Placed(item, x, y, yaw, 0.0, self.layout.target.name)
                if self._fits(candidate, self.layout.clearance_m):
                    self.placed.append(candidate)
                    return
            raise Rejected("passage too narrow")
        else:
            self._place(item, (self.layout.target,), self.layout.yaw_rad)

    def _place_close(self, item: Item) -> None:
        target = next(p for p in self.placed if p.item.role == "target")
        for _ in range(TRIES):
            angle, wanted = float(self.rng.uniform(-math.pi, math.pi)), float(self.rng.uniform(*self.layout.close_gap_m))
            yaw = float(self.rng.uniform(-self.layout.yaw_rad, self.layout.yaw_rad))
            reach = radius(target.item.asset) + radius(item.asset) + wanted
            # walk inward along the ray until the gap of the two footprints is the wanted one
            for _ in range(12):
                x, y = target.x + reach * math.cos(angle), target.y + reach * math.sin(angle)
                candidate = Placed(item, x, y, yaw, 0.0, "near_target")
                excess = gap(candidate.footprint, target.footprint) - wanted
                if excess < 0.002:
                    break
                reach -= excess
            if self._fits(candidate, self.layout.clearance_m):
                self.placed.append(candidate)
                return
        raise Rejected("no room close to the target")

    def _check(self, family: Family, goals: Sequence[tuple[str, Item, Item]]) -> None:
        number = {id(p.item): str(i) for i, p in enumerate(self.placed)}
        for target in dict.fromkeys(number[id(t)] for _, t, _ in goals):
            self._check_grasps(self.placed[int(target)])
        named = tuple(Goal(relation, number[id(t)], number[id(r)]) for relation, t, r in goals)
        assets = {str(i): p.item.asset for i, p in enumerate(self.placed)}
        shapes = {str(i): p.footprint for i, p in enumerate(self.placed)}
        for i in range(len(named)):
            if (reason := family.crowded(Step(i, named, assets, shapes))) is not None:
                raise Rejected(reason)

    def _check_grasps(self, target: Placed) -> None:
        others = [p for p in self.placed if p is not target]
        if not within_reach(target.x, target.y):
            raise Rejected("target out of reach")
        standing_on = self.placed[target.support] if target.support >= 0 else None
        around = [p.footprint for p in others if p is not standing_on]
        if not free_grasps(target.item.asset, target.x, target.y, target.yaw, target.bottom, around):
            raise Rejected("no free grasp")
