"""Ways round what is too tall to be carried over: shortest paths in the table plane past grown footprints."""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Sequence

import numpy as np

from coda_jax.scenes.placement import Footprint, gap
from coda_jax.sim import panda
from coda_jax.sim.plan import CLEARANCE_M

Point = tuple[float, float]

_CORNER_M = 0.004  # corners of a way lie this far outside what they pass
_TOUCH_M = 1e-3
REACH_M = (0.28, 0.76)  # nearest and farthest the hand passes from the base
_INFINITE = 1e9
_WALL_M = 2.0  # a side that is shut is shut all the way
_NEAR_M = 0.005


def _grown(shape: Footprint, by_m: float) -> Footprint:
    return dataclasses.replace(shape, hx=shape.hx + by_m, hy=shape.hy + by_m)


def _crosses(a: Point, b: Point, shape: Footprint) -> bool:
    """Whether a segment passes through the inside of a rectangle."""
    c, s = math.cos(shape.yaw), math.sin(shape.yaw)

    def local(p: Point) -> Point:
        x, y = p[0] - shape.x, p[1] - shape.y
        return c * x + s * y, -s * x + c * y

    (ax, ay), (bx, by) = local(a), local(b)
    enter, leave = 0.0, 1.0
    for start, end, half in ((ax, bx, shape.hx - _TOUCH_M), (ay, by, shape.hy - _TOUCH_M)):
        step = end - start
        if abs(step) < 1e-12:
            if abs(start) >= half:
                return False
            continue
        low, high = sorted(((-half - start) / step, (half - start) / step))
        enter, leave = max(enter, low), min(leave, high)
    return enter < leave


def _point(p: Point) -> Footprint:
    return Footprint(*p, 1e-6, 1e-6, 0.0)


def _barrier(start: Point, goal: Point, shape: Footprint, side: int) -> Footprint:
    """A thin wall from the middle of a footprint to one side of the straight way."""
    angle = math.atan2(goal[1] - start[1], goal[0] - start[0]) + side * math.pi / 2
    half = _WALL_M / 2
    return Footprint(shape.x + half * math.cos(angle), shape.y + half * math.sin(angle), half, 2 * _TOUCH_M, angle)


def way(start: Point, goal: Point, tall: Sequence[Footprint], room_m: float, side: int = 0) -> list[Point]:
    """Points after ``start`` on a shortest way to ``goal`` that stays ``room_m`` away from every footprint; the last one is the goal.

    Where start or goal is nearer to a footprint than that, it keeps the distance that they have. Without any way the straight one.
    side: 1 passes what stands in the straight way with it on the right hand, -1 on the left, 0 as is shorter; where that side is shut, so.
    """
    grown = []
    for shape in tall:
        room = min(room_m, *(max(gap(_point(p), shape) - 2 * _TOUCH_M, 0.0) for p in (start, goal)))
        grown.append(_grown(shape, room))
    if side:
        in_way = [_barrier(start, goal, g, -side) for g in grown if _crosses(start, goal, g)]
        path = _shortest(start, goal, grown, in_way)
        if path is not None:
            return path
    return _shortest(start, goal, grown, []) or [goal]


def _shortest(start: Point, goal: Point, grown: Sequence[Footprint], walls: Sequence[Footprint]) -> list[Point] | None:
    """The shortest way over the corners of ``grown`` that crosses none of them and no wall; None where there is none."""
    nodes = [start, goal]
    for shape in grown:
        corners = [(float(x), float(y)) for x, y in _grown(shape, _CORNER_M).corners()]
        nodes += [p for p in corners if REACH_M[0] <= math.hypot(*p) <= REACH_M[1]]
    shut = [*grown, *walls]
    best, before = {0: 0.0}, dict[int, int]()
    queue = [(0.0, 0)]
    while queue:
        length, i = heapq.heappop(queue)
        if i == 1:
            break
        for j, node in enumerate(nodes):
            further = length + math.dist(nodes[i], node)
            if j != i and further < best.get(j, _INFINITE) - 1e-9 and not any(_crosses(nodes[i], node, g) for g in shut):
                best[j], before[j] = further, i
                heapq.heappush(queue, (further, j))
    if 1 not in before:
        return None
    path = [1]
    while before[path[-1]] != 0:
        path.append(before[path[-1]])
    return [nodes[i] for i in reversed(path)]


def aside(grip: np.ndarray, goal: np.ndarray, tall: Sequence[Footprint], room_m: float, side: int) -> np.ndarray:
    """The next point [3] on the way of the grip point [3] to a goal [3] past what is tall.

    Who begins beside it, high up, comes down only after leaving, unless the goal is as near to it. room_m: between it and the grip
    point. side: as ``way``.
    """
    start, end = (float(grip[0]), float(grip[1])), (float(goal[0]), float(goal[1]))
    near, there = (Footprint(*p, 0.0, 0.0, 0.0) for p in (start, end))
    beside = [f.top for f in tall if gap(f, near) < min(room_m, gap(f, there)) - _NEAR_M]
    height = max([goal[2], *(min(top + panda.TIP_BELOW_GRIP_M + CLEARANCE_M, grip[2]) for top in beside)])
    return np.array([*way(start, end, tall, room_m, side)[0], height])
