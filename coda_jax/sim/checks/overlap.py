"""Penetration: which objects cut into each other where the scene puts them, how deep, and which way out is shortest."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping

import mujoco
import numpy as np

from coda_jax.scenes.assets import Asset
from coda_jax.scenes.fixes import Fix, aside, first_move, ways
from coda_jax.scenes.placement import Footprint, footprint, gap
from coda_jax.scenes.spec import SceneSpec
from coda_jax.scenes.tabletop import Tabletop
from coda_jax.sim.checks.record import Failure, ValiditySettings
from coda_jax.sim.compile import CompiledScene
from coda_jax.types import ARTICULATED_TOKEN, FIXTURE_SLOTS, FREE_SLOTS

_CLEAR_M = 0.002  # gap that a suggested move leaves
_LONGEST_MOVE_M = 0.5
_HAND_M, _AWAY_M = 0.13, (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)  # room of the open hand, and moves out of it
_DIRECTIONS = (("+x", (1.0, 0.0)), ("-x", (-1.0, 0.0)), ("+y", (0.0, 1.0)), ("-y", (0.0, -1.0)))


@dataclasses.dataclass(frozen=True)
class _Hit:
    depth: float
    pos: np.ndarray  # [3], m
    normal: np.ndarray  # [3], from the first to the second object


def _deepest(scene: CompiledScene, data: mujoco.MjData) -> dict[tuple[str, str], _Hit]:
    """Deepest overlap of every pair of things but the table, which the bounding boxes answer for."""
    model = scene.model
    names = {f"o{t}" if t < FREE_SLOTS else f"f{t - FREE_SLOTS}": name for name, t in scene.index.items()}
    if scene.joint.moves:
        names |= dict.fromkeys(("base", "link"), names.pop(f"f{ARTICULATED_TOKEN - FREE_SLOTS}"))
    of_body = [names.get(model.body(i).name, "gripper") for i in range(model.nbody)]
    hits: dict[tuple[str, str], _Hit] = {}

    def add(first: int, second: int, depth: float, pos: np.ndarray, normal: np.ndarray) -> None:
        a, b = of_body[model.geom_bodyid[first]], of_body[model.geom_bodyid[second]]
        if a != b and (a > b):
            a, b, normal = b, a, -normal
        if depth > 0 and a != b and ((a, b) not in hits or hits[a, b].depth < depth):
            hits[a, b] = _Hit(depth, pos, normal)

    table = model.geom("table").id
    data.qpos[:] = scene.qpos
    mujoco.mj_kinematics(model, data)
    mujoco.mj_collision(model, data)
    contacts = data.contact
    for (first, second), depth, pos, frame in zip(contacts.geom, -contacts.dist, contacts.pos, contacts.frame, strict=True):
        if table not in (first, second):
            add(first, second, float(depth), pos.copy(), frame[:3].copy())
    # Fixtures are static and never collide in the simulation, so their distance is measured.
    fixed = [name for name, token in scene.index.items() if token >= FREE_SLOTS]
    fixtures = [[g for g in range(model.ngeom) if of_body[model.geom_bodyid[g]] == name] for name in fixed]
    segment = np.zeros(6)
    for first, second in itertools.product(*fixtures) if len(fixtures) == FIXTURE_SLOTS else ():
        if model.geom_contype[first] & 1 and model.geom_contype[second] & 1:
            depth = -mujoco.mj_geomDistance(model, data, first, second, 0.0, segment)
            apart = segment[3:] - segment[:3]
            add(first, second, depth, segment[:3].copy(), -apart / max(float(np.linalg.norm(apart)), 1e-9))
    return hits


def _shifted(shape: Footprint, direction: tuple[float, float], distance: float) -> Footprint:
    return dataclasses.replace(shape, x=shape.x + direction[0] * distance, y=shape.y + direction[1] * distance)


def _way_out(name: str, other: str, shapes: Mapping[str, Footprint], settings: ValiditySettings) -> tuple[str, float] | None:
    """Axis and length of the shortest move of ``name`` that clears ``other`` and hits nothing else inside the workspace."""
    best = None
    for axis, direction in _DIRECTIONS:
        distance = 0.0
        # a move changes the gap by at most its own length, so these steps never overshoot
        while distance < _LONGEST_MOVE_M and (missing := _CLEAR_M - gap(_shifted(shapes[name], direction, distance), shapes[other])) > 0:
            distance += max(missing, 2e-4)
        moved = _shifted(shapes[name], direction, distance)
        (x_low, x_high), (y_low, y_high) = settings.workspace_x_m, settings.workspace_y_m
        inside = x_low <= moved.x <= x_high and y_low <= moved.y <= y_high
        level = [s for n, s in shapes.items() if n != name and s.top > moved.bottom + settings.penetration_m and s.bottom < moved.top]
        if inside and all(gap(moved, s) > 0 for s in level) and (best is None or distance < best[1]):
            best = axis, distance
    return best


def _off(spec: SceneSpec, name: str, point: np.ndarray) -> tuple[Fix, ...]:
    """To where the object stands _HAND_M from a point of the hand."""
    hand = Footprint(float(point[0]), float(point[1]), 0.0, 0.0, 0.0)
    move = first_move(spec, name, lambda after: gap(Tabletop(after).shapes[name], hand) >= _HAND_M, ways(_AWAY_M))
    return (move,) if move else ()


def _apart(spec: SceneSpec, name: str, other: str, way: Fix | None) -> tuple[Fix, ...]:
    """To where the object stands clear, along the way out, or the other to where it does."""
    return *aside(spec, name), *((way,) if way else ()), *aside(spec, other)


def _up(distance: float) -> float:
    return float(np.ceil(distance * 1000) / 1000)  # a millimetre too far rather than too short


def overlap_failures(
    scene: CompiledScene, assets: Mapping[str, Asset], data: mujoco.MjData, settings: ValiditySettings
) -> Iterator[Failure]:
    """Failures of penetration; ``data`` is scratch space of the scene's bucket."""
    places = {p.object: p for p in scene.spec.spatial.placements}
    shapes = {
        name: footprint(asset, *places[name].pos_m[:2], places[name].yaw_rad, places[name].pos_m[2] - asset.half_extent_m[2])
        for name, asset in assets.items()
    }
    for (a, b), hit in sorted(_deepest(scene, data).items()):
        if hit.depth <= settings.penetration_m:
            continue
        where = f"({hit.pos[0]:.2f}, {hit.pos[1]:.2f})"
        if "gripper" in (a, b):
            name = b if a == "gripper" else a
            message = f"{name} penetrates the gripper by {hit.depth:.3f} m at {where}: lower it, or move it 0.15 m away from there"
            yield Failure("penetration", name, "gripper", hit.depth, "m", message, functools.partial(_off, scene.spec, name, hit.pos))
            continue
        # The one to move: free rather than fixed, supported rather than supporting, the lighter otherwise.
        rank = {n: (assets[n].kind != "object", places[m].support == n, assets[n].mass_kg) for n, m in ((a, b), (b, a))}
        name, other, away = (a, b, -hit.normal) if rank[a] <= rank[b] else (b, a, hit.normal)
        fixes: list[str] = []
        offer: tuple[Fix, ...] | Callable[[], tuple[Fix, ...]]
        if places[name].support == other:
            if abs(away[2]) > 0.7:
                fixes.append(f"raise it {_up(hit.depth):.3f} m")
                offer = (Fix(name, "pos_m", (0.0, 0.0, _up(hit.depth))),)
            else:
                axis = int(np.argmax(np.abs(away[:2])))
                length = _up(hit.depth / abs(away[axis]) + _CLEAR_M)
                fixes.append(f"move it {length:.3f} m along {'+' if away[axis] > 0 else '-'}{'xy'[axis]}, away from the wall")
                step = length if away[axis] > 0 else -length
                offer = (Fix(name, "pos_m", (0.0 if axis else step, step if axis else 0.0, 0.0)),)
        else:
            if assets[name].kind == "object":
                fixes.append(f"raise it {_up(shapes[other].top - shapes[name].bottom):.3f} m, onto {other}")
            out = None
            if way := _way_out(name, other, shapes, settings):
                fixes.append(f"move it {_up(way[1]):.3f} m along {way[0]}")
                along = dict(_DIRECTIONS)[way[0]]
                out = Fix(name, "pos_m", (along[0] * _up(way[1]), along[1] * _up(way[1]), 0.0))
            elif not fixes:
                fixes.append("remove one of them: there is no free place beside it")
            offer = functools.partial(_apart, scene.spec, name, other, out)
        message = f"{name} penetrates {other} by {hit.depth:.3f} m at {where}; {' or '.join(fixes)}"
        yield Failure("penetration", name, other, hit.depth, "m", message, offer)
