"""Ways round what is too tall to be carried over: shortest paths in the table plane past grown footprints."""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Sequence

from coda_jax.scenes.placement import Footprint, gap

Point = tuple[float, float]

_CORNER_M = 0.004  # corners of a way lie this far outside what they pass
_TOUCH_M = 1e-3
_REACH_M = (0.28, 0.76)  # nearest and farthest the hand passes from the base
_INFINITE = 1e9


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


def way(start: Point, goal: Point, tall: Sequence[Footprint], room_m: float) -> list[Point]:
    """Points after ``start`` on a shortest way to ``goal`` that stays ``room_m`` away from every footprint; the last one is the goal.

    Where start or goal is nearer to a footprint than that, it keeps the distance that they have. Without any way the straight one.
    """
    grown = []
    for shape in tall:
        room = min(room_m, *(max(gap(_point(p), shape) - 2 * _TOUCH_M, 0.0) for p in (start, goal)))
        grown.append(_grown(shape, room))
    nodes = [start, goal]
    for shape in grown:
        corners = [(float(x), float(y)) for x, y in _grown(shape, _CORNER_M).corners()]
        nodes += [p for p in corners if _REACH_M[0] <= math.hypot(*p) <= _REACH_M[1]]
    best, before = {0: 0.0}, dict[int, int]()
    queue = [(0.0, 0)]
    while queue:
        length, i = heapq.heappop(queue)
        if i == 1:
            break
        for j, node in enumerate(nodes):
            further = length + math.dist(nodes[i], node)
            if j != i and further < best.get(j, _INFINITE) - 1e-9 and not any(_crosses(nodes[i], node, g) for g in grown):
                best[j], before[j] = further, i
                heapq.heappush(queue, (further, j))
    if 1 not in before:
        return [goal]
    path = [1]
    while before[path[-1]] != 0:
        path.append(before[path[-1]])
    return [nodes[i] for i in reversed(path)]
