"""Spatial verbs: where things stand. They move what is there and never add or take away, which would touch every factor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from coda_jax.scenes.edits.path import STEPS, along, follow, reachable
from coda_jax.scenes.edits.record import EditError, Request
from coda_jax.scenes.edits.room import trouble
from coda_jax.scenes.families import radius
from coda_jax.scenes.placement import Workspace
from coda_jax.scenes.spec import SceneSpec
from coda_jax.scenes.tabletop import APPROACH_LENGTH_M, CROWDED_M, Tabletop, moved, raised, turned

LEAST_GAP_M = 0.008  # as close as neighbours are moved
CROWD_GAP_M = (0.018, 0.032)
RAISED_M = 0.10
LEAST_TURN_RAD = 0.15
LEAST_MOVE_M = 0.03
_GRID = 13  # end points tried along each axis of the reachable area
_ENDS = 24  # of them, the hardest ones, are checked for room
_ANGLES = 24


def require_on_table(top: Tabletop, name: str) -> None:
    if (support := top.places[name].support) != "table":
        raise EditError(f"{name} stands on {support} and cannot be moved over the table: use a scene in which it stands on the table")


def _fixed_target(request: Request) -> tuple[Tabletop, str]:
    return Tabletop(request.spec), request.binding["target"]


def _beside(top: Tabletop, name: str, angle: float, wanted_m: float, of: str) -> tuple[float, float]:
    """Where ``name``'s centre lies on the ray from ``of`` at an angle so that the gap of the two is ``wanted_m``."""
    x0, y0, _ = top.places[of].pos_m
    reach = radius(top.assets[of]) + radius(top.assets[name]) + wanted_m
    spot = x0 + reach * math.cos(angle), y0 + reach * math.sin(angle)
    for _ in range(24):
        excess = Tabletop(moved(top.spec, {name: spot})).gap(name, of) - wanted_m
        if abs(excess) < 2e-4:
            break
        reach -= excess  # the gap changes by at most the way along the ray: from outside this never overshoots
        spot = x0 + reach * math.cos(angle), y0 + reach * math.sin(angle)
    return spot


def approach_obstacle(request: Request) -> SceneSpec:
    """Move the obstacle into the way of a finger of the target's best grasp."""
    top, target = _fixed_target(request)
    obstacle = request.binding["obstacle"]
    require_on_table(top, obstacle)
    if not top.assets[target].grasps:
        raise EditError(f"{target} has no grasp whose way could be blocked: bind a graspable target")
    start = min(top.approach_gap(target), APPROACH_LENGTH_M)
    if start <= LEAST_GAP_M + 0.01:
        raise EditError(f"something stands {start:.3f} m beside the grasp of {target} already: use verb yaw or reach instead")
    grasp, place = top.assets[target].grasps[0], top.places[target]
    sides = [place.yaw_rad + grasp.yaw_rad + turn for turn in (0.0, math.pi)]
    if request.seed % 2:
        sides.reverse()

    def path_on(angle: float):
        def path(share: float) -> SceneSpec:
            wanted = start + share * (LEAST_GAP_M - start)
            return moved(request.spec, {obstacle: _beside(top, obstacle, angle, wanted, target)})

        return path

    return _best_of([path_on(a) for a in sides], request, f"bind a smaller obstacle than {obstacle}, or use verb clearance")


def _best_of(paths: list[Callable[[float], SceneSpec]], request: Request, advice: str) -> SceneSpec:
    found = [(reachable(path), path) for path in paths]
    (good, reason), path = max(found, key=lambda f: (f[0][0][-1] if f[0][0] else 0.0, len(f[0][0])))
    if not good or good[-1] < 0.25:
        raise EditError(f"not enough room: {reason}: {advice}")
    return along(path, request.magnitude, good)


def clearance(request: Request) -> SceneSpec:
    """Move the free neighbours straight toward the target: every gap shrinks to LEAST_GAP_M."""
    top, target = _fixed_target(request)
    near = [n for n in top.others(*top.task_objects) if n in top.neighbours(target) and top.places[n].support == "table"]
    near = [n for n in near if top.gap(n, target) > LEAST_GAP_M + 0.01]
    if not near:
        raise EditError(f"no free object but target and reference stands beside {target}: use a scene with a distractor, or verb reach")
    nearest = sorted(near, key=lambda n: (top.gap(n, target), n))
    x0, y0, _ = top.places[target].pos_m

    def shrink(names: Iterable[str]) -> Callable[[float], SceneSpec]:
        def path(share: float) -> SceneSpec:
            to = {}
            for n in names:
                x, y, _ = top.places[n].pos_m
                wanted = top.gap(n, target) + share * (LEAST_GAP_M - top.gap(n, target))
                to[n] = _beside(top, n, math.atan2(y - y0, x - x0), wanted, target)
            return moved(request.spec, to)

        return path

    # all of them if they find room, otherwise the nearest alone
    paths = [shrink(nearest[:k]) for k in range(len(nearest), 0, -1)]
    ends = [reachable(p) for p in paths]
    usable = [(good, p) for (good, _), p in zip(ends, paths, strict=True) if good and good[-1] >= 0.5]
    if not usable:
        raise EditError(f"not enough room: {ends[-1][1]}: use verb clutter, or another scene")
    return along(usable[0][1], request.magnitude, usable[0][0])


def crowd(request: Request, centre: str) -> SceneSpec:
    """Move other free objects close round one; the magnitude is the share of them."""
    top = Tabletop(request.spec)
    outside = [n for n in top.others(*top.task_objects) if top.places[n].support == "table" and top.gap(n, centre) >= CROWDED_M]
    if not outside:
        raise EditError(f"no other free object stands more than {CROWDED_M:g} m from {centre}: use a scene with more distractors")
    rng = np.random.default_rng(request.seed)
    specs = [request.spec]
    for name in sorted(outside, key=lambda n: (top.distance(n, centre), n)):
        fitted = _close_by(specs[-1], name, centre, rng)
        if fitted is not None:
            specs.append(fitted)
    if len(specs) == 1:
        raise EditError(f"not enough room: none of {', '.join(outside)} fits beside {centre}: use verb clearance, or another scene")
    return specs[math.ceil(request.magnitude * (len(specs) - 1) - 1e-9)]


def _close_by(spec: SceneSpec, name: str, centre: str, rng: np.random.Generator) -> SceneSpec | None:
    top, first, wanted = Tabletop(spec), float(rng.uniform(-math.pi, math.pi)), float(rng.uniform(*CROWD_GAP_M))
    for i in range(_ANGLES):
        angle = first + (2 * math.pi * i) / _ANGLES
        candidate = moved(spec, {name: _beside(top, name, angle, wanted, centre)})
        if trouble(candidate) is None:
            return candidate
    return None


def clutter(request: Request) -> SceneSpec:
    return crowd(request, request.binding["target"])


def clutter_reference(request: Request) -> SceneSpec:
    return crowd(request, request.binding["reference"])


def _points(table: Workspace) -> list[tuple[float, float]]:
    xs, ys = np.linspace(*table.reach_x_m, _GRID), np.linspace(*table.reach_y_m, _GRID)
    return [(float(x), float(y)) for x in xs for y in ys if table.reaches(float(x), float(y))]


def _carry_target(request: Request, ends: list[tuple[float, float]], measure: Callable[[float, float], float], advice: str) -> SceneSpec:
    """Move the target on a straight line to the first end that leaves a fair task; the magnitude is a quantile of ``measure``."""
    top, target = _fixed_target(request)
    require_on_table(top, target)
    x0, y0, _ = top.places[target].pos_m
    start = measure(x0, y0)
    for x1, y1 in ends[:_ENDS]:
        if trouble(moved(request.spec, {target: (x1, y1)})) is not None:
            continue
        end = measure(x1, y1)

        def path(share: float, x1: float = x1, y1: float = y1, end: float = end) -> SceneSpec:
            t = _where(lambda t: measure(x0 + t * (x1 - x0), y0 + t * (y1 - y0)), start + share * (end - start))
            return moved(request.spec, {target: (x0 + t * (x1 - x0), y0 + t * (y1 - y0))})

        return follow(path, request.magnitude, advice)
    raise EditError(f"not enough room: no place for {target} further out leaves a fair task: {advice}")


def _where(value: Callable[[float], float], wanted: float) -> float:
    """The share of a line at which a monotone value is reached."""
    rising, low, high = value(1.0) > value(0.0), 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if (value(middle) < wanted) == rising:
            low = middle
        else:
            high = middle
    return high


def distance(request: Request) -> SceneSpec:
    """Move the target away from the reference."""
    top, target = _fixed_target(request)
    (xr, yr, _), (x0, y0, _) = top.places[request.binding["reference"]].pos_m, top.places[target].pos_m

    def measure(x: float, y: float) -> float:
        return math.hypot(x - xr, y - yr)

    now = measure(x0, y0)
    # distance grows along the whole line where it grows at its beginning
    away = [
        p for p in _points(top.workspace) if (p[0] - x0) * (x0 - xr) + (p[1] - y0) * (y0 - yr) >= 0 and measure(*p) >= now + LEAST_MOVE_M
    ]
    away.sort(key=lambda p: -measure(*p))
    return _carry_target(request, away, measure, "use a scene whose target stands near its reference, or verb reach")


def reach(request: Request) -> SceneSpec:
    """Move the target towards the edge of the reachable area."""
    top, target = _fixed_target(request)
    x0, y0, _ = top.places[target].pos_m
    table = top.workspace
    now = table.margin(x0, y0)
    outward = [p for p in _points(table) if table.margin(*p) <= now - LEAST_MOVE_M and _falls(table, p, (x0, y0))]
    nearest = sorted(outward, key=lambda p: (round(table.margin(*p), 6), math.dist(p, (x0, y0))))
    return _carry_target(request, nearest, table.margin, "use a scene whose target stands near the middle of the table")


def _falls(table: Workspace, end: tuple[float, float], start: tuple[float, float]) -> bool:
    step = 0.01
    ahead = start[0] + step * (end[0] - start[0]), start[1] + step * (end[1] - start[1])
    return table.margin(*ahead) <= table.margin(*start)


def yaw(request: Request) -> SceneSpec:
    """Turn the target until its grasps are as far as can be from the wrist's home posture."""
    top, target = _fixed_target(request)
    now, start = top.places[target].yaw_rad, top.turn_needed(target)
    best: list[Callable[[float], SceneSpec]] = []
    gains = []
    for sign in (1.0, -1.0) if request.seed % 2 == 0 else (-1.0, 1.0):
        turn = 0.0
        while turn < math.pi / 2 and top.turn_needed(target, now + sign * (turn + 0.01)) > top.turn_needed(target, now + sign * turn):
            turn += 0.01
        if turn >= LEAST_TURN_RAD:
            gains.append(turn)
            best.append(lambda share, turn=turn, sign=sign: turned(request.spec, target, now + share * sign * turn))
    if not best:
        raise EditError(f"turning {target} brings no grasp further from the wrist ({start:.2f} rad now): bind a target with fewer grasps")
    return _best_of(best, request, "use verb clearance, or a scene with more room round the target")


def support_height(request: Request) -> SceneSpec:
    """Raise the reference, a fixture, with what stands on it, as on a pedestal."""
    top = Tabletop(request.spec)
    reference = request.binding["reference"]
    if top.assets[reference].kind == "object":
        raise EditError(f"{reference} is a free object and would fall: bind a support or container as the reference")
    if top.stands_on(request.binding.get("target", top.goal.target), reference):
        raise EditError(f"the target stands on {reference}: use a scene in which it stands elsewhere")
    room = RAISED_M - top.shapes[reference].bottom
    if room < RAISED_M / STEPS:
        raise EditError(f"{reference} stands {RAISED_M - room:.2f} m high already, at most {RAISED_M:g} m: use another verb")
    return follow(lambda share: raised(request.spec, reference, share * room), request.magnitude, "use another reference")
