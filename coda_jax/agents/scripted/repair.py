"""Mending an invalid scene: only what a failed check names is moved, by the amount that the check measured."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from coda_jax.agents.base import Move
from coda_jax.scenes.families import scaled_assets
from coda_jax.scenes.placement import REACH_RADIUS_M, REACH_X_M, REACH_Y_M
from coda_jax.scenes.spec import Placement, SceneSpec
from coda_jax.scenes.tabletop import Tabletop
from coda_jax.sim.checks.record import Failure

MARGIN_M = 0.004  # beyond what the check asks for
STEP_M = 0.03  # where a check gives no amount in the table plane
_CENTRE = ((REACH_X_M[0] + REACH_X_M[1]) / 2, (REACH_Y_M[0] + REACH_Y_M[1]) / 2)


def repair(spec: SceneSpec, failures: Sequence[Failure]) -> tuple[SceneSpec, Move] | None:
    """The scene with the first mendable failure mended, or None where moving nothing named would help.

    Only places change, so a program of another factor must not use it: its factor lock would break.
    """
    for failure in failures:
        move = _move_for(spec, failure)
        if move is not None:
            return _moved(spec, move), move
    return None


def _move_for(spec: SceneSpec, failure: Failure) -> Move | None:
    if failure.object not in spec.object_ids:
        return None
    place = spec.placement(failure.object)
    if failure.check == "table":
        return Move(failure.object, failure.amount + 1e-4, (0.0, 0.0, 1.0))
    if failure.check == "penetration":
        return _apart(spec, failure)
    if failure.check in ("workspace", "reach"):
        x, y, _ = place.pos_m
        inside = REACH_X_M[0] <= x <= REACH_X_M[1] and REACH_Y_M[0] <= y <= REACH_Y_M[1] and math.hypot(x, y) <= REACH_RADIUS_M
        amount = STEP_M if inside or failure.check == "reach" else failure.amount + MARGIN_M
        return _toward(failure.object, place, _CENTRE, amount)
    return None


def _apart(spec: SceneSpec, failure: Failure) -> Move | None:
    """Away from the other thing; of a fixture and a free object the free one moves."""
    if failure.other not in spec.object_ids:
        return None
    assets = scaled_assets(spec)
    mover, other = failure.object, failure.other
    if assets[mover].kind != "object" and assets[other].kind == "object":
        mover, other = other, mover
    x, y, _ = spec.placement(mover).pos_m
    ox, oy, _ = spec.placement(other).pos_m
    length = math.hypot(x - ox, y - oy)
    dx, dy = ((x - ox) / length, (y - oy) / length) if length > 1e-6 else (1.0, 0.0)
    overlap = -min(Tabletop(spec).gap(mover, other), 0.0)
    return Move(mover, max(failure.amount, overlap) + MARGIN_M, (dx, dy, 0.0))


def _toward(name: str, place: Placement, goal: tuple[float, float], amount_m: float) -> Move | None:
    dx, dy = goal[0] - place.pos_m[0], goal[1] - place.pos_m[1]
    length = math.hypot(dx, dy)
    return Move(name, min(amount_m, length), (dx / length, dy / length, 0.0)) if length > 1e-6 else None


def _moved(spec: SceneSpec, move: Move) -> SceneSpec:
    carried = {move.object, *Tabletop(spec).carried(move.object)}
    placements = tuple(
        dataclasses.replace(p, pos_m=tuple(round(v + move.amount_m * d, 6) for v, d in zip(p.pos_m, move.direction, strict=True)))
        if p.object in carried
        else p
        for p in spec.spatial.placements
    )
    return dataclasses.replace(spec, spatial=dataclasses.replace(spec.spatial, placements=placements))
