"""One step as numbers: what does not change while it is carried out, for one world and for many."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from coda_jax.sim.libero.planner import grips, hand
from coda_jax.sim.libero.planner.known import KNOB, Known
from coda_jax.sim.libero.planner.steps import Move, Put, Step
from coda_jax.sim.plan import NoPlan
from coda_jax.sim.state import rotation_matrices
from coda_jax.types import WorldView

_ENOUGH_ROOM_M = 0.012  # of the open hand to everything
_ROOM_PER_RAD_M = 0.01  # that is worth a turn of the hand by one rad, or half as much tilt
_LEAN_M = 0.03  # the palm's end may be so much nearer to a thing that leans
_PRESS_M = 0.006  # of the finger tips into what is pushed
_NEAR_RAD, _NEAR_M = 0.05, 0.006  # of what a knob or drawer is moved to


def _zeros() -> np.ndarray:
    return np.zeros(3)


@dataclasses.dataclass(frozen=True)
class Plan:
    """Of one world.

    target: token of what is picked or pushed; ``pushes``: the latter. token: that the fingers are felt on. grip: of what is picked, the
    grip point from the centre of its box; of a joint, in the base frame at joint value 0. yaw: of the closing jaws, in the thing's frame,
    of a knob in the base frame at value 0. neutral: yaw nearest to which the jaws close. approach: of the fingers, a unit vector. under:
    half of the target's height.
    moves: a joint is moved; axis: of the grip point's movement per unit of it; turns: it is a knob's; tilted: the hand has this rotation;
    aim, near: value it is brought to, and how near; joint_region: region that moves with it, -1 for none.
    goal_token, goal_region, offset, touch, rim: as in steps.Put; rim is -inf without walls.
    """

    target: int = 0
    token: int = 0
    pushes: bool = False
    grip: np.ndarray = dataclasses.field(default_factory=_zeros)
    yaw: float = 0.0
    neutral: float = 0.0
    approach: np.ndarray = dataclasses.field(default_factory=lambda: np.array([0.0, 0.0, -1.0]))
    under: float = 0.0
    moves: bool = False
    axis: np.ndarray = dataclasses.field(default_factory=_zeros)
    turns: bool = False
    tilted: bool = False
    rotation: np.ndarray = dataclasses.field(default_factory=lambda: np.eye(3))
    aim: float = 0.0
    near: float = 0.0
    joint_region: int = -1
    goal_token: int = -1
    goal_region: int = -1
    offset: np.ndarray = dataclasses.field(default_factory=_zeros)
    touch: int = 0
    rim: float = -math.inf


class Plans:
    """The plans of ``W`` worlds as arrays [b, ...], one attribute for each field of Plan."""

    target: np.ndarray
    token: np.ndarray
    pushes: np.ndarray
    grip: np.ndarray
    yaw: np.ndarray
    neutral: np.ndarray
    approach: np.ndarray
    under: np.ndarray
    moves: np.ndarray
    axis: np.ndarray
    turns: np.ndarray
    tilted: np.ndarray
    rotation: np.ndarray
    aim: np.ndarray
    near: np.ndarray
    joint_region: np.ndarray
    goal_token: np.ndarray
    goal_region: np.ndarray
    offset: np.ndarray
    touch: np.ndarray
    rim: np.ndarray

    def __init__(self, worlds: int):
        nothing = Plan()
        for f in dataclasses.fields(Plan):
            setattr(self, f.name, np.stack([np.asarray(getattr(nothing, f.name))] * worlds))

    def put(self, world: int, plan: Plan) -> None:
        """Set one world's."""
        for f in dataclasses.fields(Plan):
            getattr(self, f.name)[world] = getattr(plan, f.name)


def plan_of(known: Known, step: Step, view: WorldView, world: int, passed: int) -> tuple[Plan, int]:
    """The plan of a step from the present state, and how many ways to hold there are.

    Args:
      passed: of these in their order, how many are passed over.

    Raises:
      NoPlan: the thing cannot be held.
    """
    if isinstance(step, Move):
        return (_knob(known, step) if step.joint == KNOB else _drawer(known, step)), 1
    return _pushed(known, step, view, world) if step.push else _picked(known, step, view, world, passed)


def _put(step: Put, half: np.ndarray, pos: np.ndarray) -> Plan:
    return Plan(
        target=step.target,
        token=step.target,
        neutral=hand.NEUTRAL_RAD + math.atan2(pos[1], pos[0]),
        under=float(half[2]),
        goal_token=step.token,
        goal_region=step.region,
        offset=np.array(step.offset_m),
        touch=step.touch,
        rim=-math.inf if step.rim_m is None else step.rim_m,
    )


def _measured(view: WorldView, world: int, token: int) -> tuple[np.ndarray, np.ndarray]:
    """Centre and half sizes of a token."""
    return np.asarray(view.pos[world, token], float), np.asarray(view.half_extent[world, token], float)


def _pushed(known: Known, step: Put, view: WorldView, world: int) -> tuple[Plan, int]:
    """The closed fingers stand on the middle of a plate and take it along by its rim."""
    pos, half = _measured(view, world, step.target)
    plan = _put(step, half, pos)
    name = known.spec.object_ids[step.target]
    category = known.models[name].category
    seat = known.scale[name] * grips.SEATS[category] - half[2]
    grip = np.array([0.0, 0.0, seat + hand.TIP_M - _PRESS_M])
    return dataclasses.replace(plan, pushes=True, grip=grip, approach=hand.reaching(pos, plan.neutral)), 1


def _picked(known: Known, step: Put, view: WorldView, world: int, passed: int) -> tuple[Plan, int]:
    """Of the ways to hold a thing the one with the most room and the least turn and tilt of the hand."""
    pos, half = _measured(view, world, step.target)
    plan = _put(step, half, pos)
    name = known.spec.object_ids[step.target]
    turned = rotation_matrices(np.asarray(view.quat[world, step.target], float)[None])[0]
    others = [box for other, boxes in known.boxes(view, world).items() if other != name for box in boxes]
    holds = grips.holds(known.models[name], known.scale[name])
    if not holds:
        raise NoPlan(f"{name} is too wide for the jaws, which open {2 * hand.OPEN_M:g} m: make it smaller or ask for another target")
    ranked = []
    for i, hold in enumerate(holds):
        point = pos + turned @ np.array(hold.pos_m)
        closing = turned @ (math.cos(hold.closing_rad), math.sin(hold.closing_rad), 0.0)
        yaw = hand.nearest(math.atan2(closing[1], closing[0]), plan.neutral)
        approach = hand.reaching(point, yaw)
        free = min(hand.room(point, yaw, others), _LEAN_M - hand.PALM_HALF_M[0] * abs(closing[2]))
        cost = max(_ENOUGH_ROOM_M - free, 0.0) / _ROOM_PER_RAD_M + abs(yaw - plan.neutral) + 2 * math.acos(-approach[2])
        ranked.append((round(cost, 3), i, hold, approach))
    ranked.sort(key=lambda r: r[:2])
    _, _, hold, approach = ranked[passed % len(ranked)]
    return dataclasses.replace(plan, grip=np.array(hold.pos_m), yaw=hold.closing_rad, approach=approach), len(ranked)


def _knob(known: Known, step: Move) -> Plan:
    place = known.fixed(step.thing)
    x, y, z = grips.KNOB_M
    grip = place.at(x, y, z)
    yaw = hand.nearest(place.yaw_rad + math.pi / 2, hand.NEUTRAL_RAD)
    return Plan(
        token=step.token, grip=grip, yaw=yaw, approach=hand.reaching(grip, yaw), moves=True, turns=True, aim=step.aim, near=_NEAR_RAD
    )


def _drawer(known: Known, step: Move) -> Plan:
    if step.joint not in grips.HANDLES:
        raise NoPlan(f"the hand has no room at the handle of {step.joint}: the planner moves {' and '.join(grips.HANDLES)}")
    place, handle = known.fixed(step.thing), grips.HANDLES[step.joint]
    origin = place.at(0.0, 0.0, 0.0)
    front, up = place.at(0.0, -1.0, 0.0) - origin, np.array([0.0, 0.0, 1.0])
    c, s = math.cos(handle.tilt_rad), math.sin(handle.tilt_rad)
    closing = (up * s - front * c) * math.copysign(1.0, front[1] + 1e-9)  # the way of least turn from the start
    return Plan(
        token=step.token,
        grip=place.at(*handle.pos_m),
        moves=True,
        axis=place.at(*known.models[step.thing].joints[step.joint].axis) - origin,
        tilted=True,
        rotation=hand.rotation(closing, -front * s - up * c),
        aim=step.aim,
        near=_NEAR_M,
        joint_region=step.region,
    )
