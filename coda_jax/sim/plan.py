"""What does not change while one object is moved: where it is grasped, where it is put down, how high it travels."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from coda_jax.scenes.assets import Asset, Grasp
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families import Gate, Goal, NoPlace, Step, family_of, radius, read_goals
from coda_jax.scenes.families.geometry import middle
from coda_jax.scenes.placement import Footprint, footprint, gap, hand_boxes
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.compile import scene_assets, token_index
from coda_jax.sim.state import rotation_matrices
from coda_jax.sim.supervision.parameters import FIRST

HIGHEST_TRAVEL_M = FIRST.over_m  # of the carried object's underside, or of the finger tips; what is taller is passed at its side
HAND_ROOM_M = 0.115  # half the width of the palm, with a little play
CLEARANCE_M = 0.02  # of the carried object's underside, or of the finger tips, over everything else


GAVE_UP = "gave up after"  # begins the cause of a try in which every attempt failed


class NoPlan(ValueError):
    """The planner sees no way; the message names the cause. grasps: of how many another one may be asked for."""

    def __init__(self, message: str, grasps: int = 1):
        super().__init__(message)
        self.grasps = grasps


@dataclasses.dataclass(frozen=True)
class Plan:
    """One goal of one world. target, reference: tokens. goals: how many the task has."""

    target: int
    reference: int
    grasps: tuple[Grasp, ...]  # free of clutter, best first
    goal: Goal
    goals: int
    goal_xy: tuple[float, float]  # offset from the reference's centre
    chosen: bool  # the place was found for the first grasp
    goal_z: float  # centre height of the target when it rests at the goal
    steady_yaw: float | None  # jaw yaw in the base frame for round targets, which may spin; None: follow the object
    jaw_yaws: tuple[tuple[float, ...], ...]  # for each grasp, yaws of the jaws at which the target may be put down; empty for any
    gate: Gate | None
    drop_m: float  # release height above the resting pose
    travel_z: float  # the finger tips until they are over the grasp, and the underside of what is carried, stay above this
    tall: tuple[Footprint, ...]  # what is passed at its side, with ``room_m`` between it and the grip point
    room_m: float
    ball: bool  # the target has no side to lie on
    rolls: bool  # it rolls about its y axis


def upright_yaw(quat: np.ndarray, rolls: bool = False) -> tuple[float, bool]:
    """Yaw (rad) of a token's orientation [4], and whether it stands upright; of what rolls about its y axis, whether that lies level."""
    matrix = rotation_matrices(np.asarray(quat, float))
    if rolls:
        return math.atan2(-matrix[0, 1], matrix[1, 1]), bool(abs(matrix[2, 1]) < 0.3)
    return math.atan2(matrix[1, 0], matrix[0, 0]), bool(matrix[2, 2] > 0.95)


def is_round(asset: Asset) -> bool:
    """Whether turning the asset about z changes nothing: every primitive is round and centred."""
    return all(
        (p.shape in ("cylinder", "sphere", "capsule") or (p.shape == "ellipsoid" and p.size_m[0] == p.size_m[1]))
        and p.pos_m[:2] == (0.0, 0.0)
        and p.quat_wxyz[1:3] == (0.0, 0.0)
        for p in asset.primitives
    )


def is_ball(asset: Asset) -> bool:
    return len(asset.primitives) == 1 and asset.primitives[0].shape == "sphere"


def rolls(asset: Asset) -> bool:
    """Whether the asset may roll about its y axis and still lie as it should."""
    return "rollable" in asset.affordances


def _candidates(asset: Asset, yaw: float, x: float, y: float) -> tuple[Grasp, ...]:
    """The asset's grasps; a round one is grasped with the least turn of the hand that clutter allows."""
    if not is_round(asset):
        return asset.grasps
    neutral = math.atan2(y, x)
    turns = [0.0, *(sign * math.pi * i / 8 for i in range(1, 4) for sign in (1, -1)), math.pi / 2]  # the jaws are symmetric
    return tuple(dataclasses.replace(asset.grasps[0], yaw_rad=neutral + turn - yaw) for turn in turns)


def measured_footprint(asset: Asset, pos: np.ndarray, quat: np.ndarray) -> Footprint:
    """Footprint of a thing where it was measured, pos [3] and quat [4] of its token."""
    return footprint(asset, float(pos[0]), float(pos[1]), upright_yaw(quat, rolls(asset))[0], float(pos[2]) - asset.half_extent_m[2])


class Moded:
    """What planners of every kind say about their worlds."""

    modes: ClassVar[tuple[str, ...]]
    """Names, the last one of worlds that were given up or have no scene."""
    mode: np.ndarray
    """[b] int32, numbers of ``modes``."""
    _attempt: np.ndarray
    _period: np.ndarray

    @property
    def failed(self) -> np.ndarray:
        """[b] bool, worlds that were given up or have no scene."""
        return self.mode == len(self.modes) - 1

    def mode_name(self, world: int) -> str:
        return self.modes[self.mode[world]]

    def attempts_of(self, world: int) -> int:
        """Grasps tried in the world's present episode."""
        return int(self._attempt[world]) + 1

    def grasps_of(self, world: int) -> int:
        """The parameter ``grasp`` of the world's present episode asks for the same again after so many."""
        return int(self._period[world])


def measured_step(spec: SceneSpec, catalogue: Catalogue, pos: np.ndarray, quat: np.ndarray, number: int) -> Step:
    """Goal ``number`` of a scene with everything where it was measured, pos [o, 3] and quat [o, 4]."""
    index = token_index(spec, catalogue)
    assets = dict(zip(spec.object_ids, scene_assets(spec, catalogue), strict=True))
    here = {name: measured_footprint(asset, pos[index[name]], quat[index[name]]) for name, asset in assets.items()}
    return Step(number, read_goals(spec), assets, here)


def order_of(spec: SceneSpec, reverse: bool) -> list[int]:
    """The numbers of a task's goals in the order in which they are reached.

    Raises:
      NoPlan: the other way round is asked for, but a later goal needs an earlier one.
    """
    goals = read_goals(spec)
    if reverse and not commute(goals):
        raise NoPlan(f"{goals[-1].target} cannot go first: a goal of this task builds on an earlier one, set reverse to 0")
    return list(range(len(goals)))[:: -1 if reverse else 1]


def commute(goals: Sequence[Goal]) -> bool:
    """Whether goals may be reached in any order: nothing that one of them moves is moved or built upon by another."""
    targets = [g.target for g in goals]
    return len(goals) > 1 and len(set(targets)) == len(targets) and not any(g.reference in targets for g in goals)


def _split_by_height(step: Step, over_m: float) -> tuple[list[Footprint], tuple[Footprint, ...]]:
    """What the target is carried over, and what is too tall for that; where it is put is always approached from above."""
    goal, here = step.goal, step.shapes
    place = here[goal.reference]
    below = [f for n, f in here.items() if n != goal.target and math.hypot(f.x - place.x, f.y - place.y) < place.radius]
    others = [f for n, f in here.items() if n != goal.target and f not in below]
    tall = tuple(f for f in others if f.top + CLEARANCE_M > over_m)
    return [*below, *(f for f in others if f not in tall)], tall


def plan_step(
    spec: SceneSpec,
    catalogue: Catalogue,
    pos: np.ndarray,
    quat: np.ndarray,
    number: int,
    first_grasp: int = 0,
    over_m: float = HIGHEST_TRAVEL_M,
) -> Plan:
    """Plan one goal of one world from the measured poses of its tokens, pos [o, 3] and quat [o, 4].

    first_grasp: grasps that are passed over; they come last. over_m: what is taller is passed at its side.

    Raises:
      NoPlan: the target lies on its side, no grasp is free of clutter, or no place for the goal is free.
    """
    family, index = family_of(spec), token_index(spec, catalogue)
    step = measured_step(spec, catalogue, pos, quat, number)
    goal, target, here = step.goal, step.target, step.shapes
    yaw, upright = upright_yaw(quat[index[goal.target]], rolls(target))
    if not upright and not is_ball(target):
        raise NoPlan(f"{goal.target} lies on its side: only upright objects are grasped")
    mine = here[goal.target]
    centre_z = mine.bottom + target.half_extent_m[2]
    clutter = [f for name, f in here.items() if name != goal.target and f.top > mine.bottom + 0.002]

    def hits(grasp: Grasp) -> float:
        """Depth by which the open hand would cut into clutter at this grasp."""
        fingers, palm = hand_boxes(grasp, mine.x, mine.y, yaw, centre_z)
        return sum(max(0.0, 0.002 - gap(part, f)) for part in (*fingers, palm) for f in clutter if f.top > part.bottom)

    candidates = _candidates(target, yaw, mine.x, mine.y)
    scored = sorted((round(hits(g), 4), i) for i, g in enumerate(candidates))
    grasps = tuple(candidates[i] for depth, i in scored if depth < 0.004)
    if not grasps:
        raise NoPlan(f"no free grasp of {goal.target}: clutter stands within the open hand; move it 0.02 m away")
    first_grasp %= len(grasps)
    grasps = grasps[first_grasp:] + grasps[:first_grasp]
    passed, tall = _split_by_height(step, over_m)
    top = max((f.top for f in passed), default=0.0)
    try:
        offset = family.offset(step, grasps[0], yaw)
    except NoPlace as error:
        raise NoPlan(str(error), len(grasps)) from None
    x, y = middle(step.reference, here[goal.reference])
    place = offset or (x - here[goal.reference].x, y - here[goal.reference].y)
    goal_z = family.bottom(step) + target.half_extent_m[2]
    steady = yaw + grasps[0].yaw_rad if is_round(target) else None
    return Plan(
        target=index[goal.target],
        reference=index[goal.reference],
        grasps=grasps,
        goal=goal,
        goals=len(step.goals),
        goal_xy=place,
        chosen=offset is not None,
        goal_z=goal_z,
        steady_yaw=steady,
        jaw_yaws=tuple(family.jaw_yaws(step, g) for g in grasps),
        gate=family.gate(step),
        drop_m=family.drop_m,
        travel_z=top + CLEARANCE_M,
        tall=tall,
        room_m=max(HAND_ROOM_M, radius(target) + CLEARANCE_M),
        ball=is_ball(target),
        rolls=rolls(target),
    )
