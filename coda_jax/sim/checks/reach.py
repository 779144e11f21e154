"""Reach: can the arm hold the target by one of its grasps, and hold it there where the goal wants it?"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from coda_jax.scenes import openings
from coda_jax.scenes.articulated import Articulated
from coda_jax.scenes.assets import Asset
from coda_jax.scenes.families import Step, family_of, read_goals
from coda_jax.scenes.families.articulated import hand_blocked
from coda_jax.scenes.families.steps import after
from coda_jax.scenes.fixes import Fix, first_move, fixed, inward, stands_clear
from coda_jax.scenes.placement import footprint, gap, grasps_among
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.checks.record import Failure, ValiditySettings
from coda_jax.sim.inverse import inverse_kinematics, top_down

_DROP_M = 0.005  # release height above the resting pose
_TURNS_RAD = (0.4, -0.4, 0.8, -0.8, 1.2, -1.2)
_ABOVE_M = 0.05  # the way down to a waypoint starts this far above it


Waypoint = tuple[float, float, float, float]


@dataclasses.dataclass(frozen=True)
class _Query:
    """Waypoints (x, y, z of the grip point, jaw yaw) of one scene: one per free grasp, and the places of release with each of them.

    cause: why there are none, "" where there are. blocked, unit: how many of what is blocked then. near: what blocks it.
    """

    target: str
    reference: str
    at_grasp: list[Waypoint]
    at_release: list[list[Waypoint]]
    cause: str = ""
    blocked: int = 0
    unit: str = ""
    near: tuple[str, ...] = ()


def _queries(spec: SceneSpec, assets: Mapping[str, Asset]) -> list[_Query]:
    """One for each goal of the scene, in order; of what is moved later with everything before it in its place."""
    try:
        goals = read_goals(spec)
    except ValueError:
        return []  # reported by the check of names
    if any(n not in assets for g in goals for n in (g.target, g.reference)):
        return []
    shapes = {}
    for name, asset in assets.items():
        p = spec.placement(name)
        shapes[name] = footprint(asset, p.pos_m[0], p.pos_m[1], p.yaw_rad, p.pos_m[2] - asset.half_extent_m[2])
    family, found = family_of(spec), []
    step = Step(0, goals, assets, shapes)
    for number in range(len(goals)):
        step = dataclasses.replace(step, number=number)
        if isinstance(step.target, Articulated):
            found.append(_joint_query(step, step.target, spec.placement(step.goal.target).opening or 0.0))
        else:
            found.append(_query(step, family.places(step), family.bottom(step)))
        if found[-1].cause:
            break
        step = after(family, step)
    return found


def _joint_query(step: Step, target: Articulated, start: float) -> _Query:
    """Of a joint: hold the handle where it is, let it go where the goal wants it."""
    goal, mine = step.goal, step.shapes[step.goal.target]
    share = openings.aim(goal.relation)
    if hit := hand_blocked(step, (start, share)):
        cause = f"{hit} stands within the open hand at the handle of {goal.target}: move it 0.03 m away"
        return _Query(goal.target, goal.reference, [], [], cause, 1, "grasps", (hit,))

    def waypoint(opening: float) -> Waypoint:
        (grasp,) = target.posed(opening).grasps
        x, y, z = grasp.pos_m
        c, s = math.cos(mine.yaw), math.sin(mine.yaw)
        return mine.x + c * x - s * y, mine.y + s * x + c * y, mine.bottom + target.half_extent_m[2] + z, mine.yaw + grasp.yaw_rad

    return _Query(goal.target, goal.reference, [waypoint(start)], [[waypoint(share)]])


def _query(step: Step, places: list[tuple[float, float]], bottom: float) -> _Query:
    goal, target, shapes = step.goal, step.target, step.shapes
    mine = shapes[goal.target]
    grasps = grasps_among(goal.target, target, shapes)
    where = f"at ({mine.x:.2f}, {mine.y:.2f})"
    if not grasps:
        around = [n for n, s in shapes.items() if n != goal.target and s.top > mine.bottom and gap(s, mine) < 0.06]
        near = f"{' and '.join(around)} stand too close" if around else "it has none"
        cause = f"no grasp of {goal.target} {where} is free for the open hand: {near}; leave 0.03 m on both sides of the grasp"
        return _Query(goal.target, goal.reference, [], [], cause, max(len(target.grasps), 1), "grasps", tuple(around))
    if not places:
        cause = f"no free place for {goal.target} beside {goal.reference}: move what stands around {goal.reference} away"
        return _Query(goal.target, goal.reference, [], [], cause, 1, "places")
    c, s = math.cos(mine.yaw), math.sin(mine.yaw)
    at_grasp, at_release = [], []
    for g in grasps:
        dx, dy = c * g.pos_m[0] - s * g.pos_m[1], s * g.pos_m[0] + c * g.pos_m[1]
        jaw, dz = mine.yaw + g.yaw_rad, target.half_extent_m[2] + g.pos_m[2]
        at_grasp.append((mine.x + dx, mine.y + dy, mine.bottom + dz, jaw))
        at_release.append([(x + dx, y + dy, bottom + _DROP_M + dz, jaw) for x, y in places])
    return _Query(goal.target, goal.reference, at_grasp, at_release)


def reach_failures(specs: Sequence[SceneSpec], assets: Sequence[Mapping[str, Asset]], settings: ValiditySettings) -> list[list[Failure]]:
    """Failures of reach of each scene: some grasp must be reachable, and some place of the goal with the same grasp.

    Each waypoint counts with the point above it, from which the hand comes down; the jaws are symmetric, so both hand yaws are tried.
    The amount of a blocked grasp or place is how many are blocked, otherwise by how far the hand misses, m.
    """
    queries = [_queries(spec, a) for spec, a in zip(specs, assets, strict=True)]
    rows: list[Waypoint] = []
    for q in itertools.chain(*queries):
        for x, y, z, yaw in itertools.chain(q.at_grasp, *q.at_release):
            rows += [(x, y, z + up, yaw + turn) for turn in (0.0, math.pi) for up in (0.0, _ABOVE_M)]
    points = np.array(rows).reshape(-1, 4)
    _, off, turned = inverse_kinematics(settings.robot, points[:, :3], top_down(points[:, 3]))
    # [waypoint, turn]: both the point and the one above it must be reached
    solved = np.logical_and(off < settings.reach_m, turned < settings.reach_rad).reshape(-1, 2, 2)
    solved = np.all(solved, axis=2)
    misses = off.reshape(-1, 2, 2).max(2)
    results, cursor = [], 0
    for spec, own, mine in zip(specs, assets, queries, strict=True):
        failures: list[Failure] = []
        for q in mine:
            if q.cause:
                freed = functools.partial(_freed, spec, own, q)
                failures.append(Failure("reach", q.target, q.reference, float(q.blocked), q.unit, q.cause, freed))
                continue
            n, m = len(q.at_grasp), len(q.at_release[0])
            grasped, grasp_miss = solved[cursor : cursor + n], misses[cursor : cursor + n]
            released = solved[cursor + n : cursor + n + n * m].reshape(n, m, 2)
            release_miss = misses[cursor + n : cursor + n + n * m]
            cursor += n + n * m
            if not grasped.any():
                missed = q.target, "", q.at_grasp[0], grasp_miss
            elif not (grasped[:, None] & released).any():
                missed = q.reference, q.target, q.at_release[0][0], release_miss
            else:
                continue
            failures.append(_out_of_reach(*missed, functools.partial(_into_reach, spec, own, missed[0], settings)))
        results.append(failures)
    return results


def _freed(spec: SceneSpec, assets: Mapping[str, Asset], blocked: _Query) -> tuple[Fix, ...]:
    """Moves with which nothing is blocked, of the target, of a free object, what blocks it first, or of the reference; short ones first."""
    task = {n for g in read_goals(spec) for n in (g.target, g.reference)}
    others = sorted((n for n, a in assets.items() if a.kind == "object" and n not in task), key=lambda n: (n not in blocked.near, n))

    def free(after: SceneSpec) -> bool:
        return not any(q.cause for q in _queries(after, assets))

    moves = [first_move(spec, n, free) for n in dict.fromkeys((blocked.target, *others, blocked.reference))]
    return tuple(sorted((m for m in moves if m is not None), key=_length))


def _length(move: Fix) -> float:
    return math.hypot(*move.value[:2]) if isinstance(move.value, tuple) else 0.0


def _into_reach(spec: SceneSpec, assets: Mapping[str, Asset], name: str, settings: ValiditySettings) -> tuple[Fix, ...]:
    """The least of the moves of an object inward, and of its turns, with which the arm reaches."""
    yaw = spec.placement(name).yaw_rad
    offered = [[Fix(name, "pos_m", way) for way in inward(spec, name)], [Fix(name, "yaw_rad", yaw + t) for t in _TURNS_RAD]]
    fixes = []
    for some in offered:
        tried = [(fix, after) for fix in some if stands_clear(after := fixed(spec, fix), name, spec)]
        found = reach_failures([after for _, after in tried], [assets] * len(tried), settings)
        fixes += [fix for (fix, _), misses in zip(tried, found, strict=True) if not any(f.object == name for f in misses)][:1]
    return tuple(fixes)


def _out_of_reach(name: str, carried: str, point: tuple[float, ...], misses: np.ndarray, offer: Callable[[], tuple[Fix, ...]]) -> Failure:
    x, y, z = point[:3]
    amount = max(float(misses.min()), 1e-6)
    holding = f"the release of {carried} at {name}" if carried else f"the grasp of {name}"
    cause = f"misses by {amount:.3f} m" if amount > 1e-3 else "meets the joint limits"
    message = f"the arm cannot reach {holding}, at ({x:.2f}, {y:.2f}, {z:.2f}): it {cause}; move {name} towards (0.5, 0.0), or turn it"
    return Failure("reach", name, carried, amount, "m", message, offer)
