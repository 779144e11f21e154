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

_LEAST_ROOM_M = 0.002  # of the open hand to everything
_ENOUGH_ROOM_M = 0.012
_LEAN_M = 0.03  # the palm's end may be so much nearer to a thing that leans
_PRESS_M = 0.006  # of the finger tips into what is pushed


@dataclasses.dataclass
class Plan:
    """Of one world, or with [b] in front of every field of many.

    target: token of what is picked or pushed. token: that the fingers are felt on. grip: of what is picked, the grip point from the centre
    of its box; of a joint, in the base frame at joint value 0. yaw: of the closing jaws in the thing's frame, of a
    knob in the base frame at value 0. neutral: yaw nearest to which the jaws close. approach: [3] of the fingers. under: half of the target's height. moves: it is a joint; axis: per unit
    of it; turns: a knob's; tilted: with this rotation; aim, near: where it is to be, and how near; joint_region: the region that it moves.
    goal_token, goal_region, offset, touch, rim: see steps.Put; rim is -inf without. pushes: what is pushed.
    """

    target: np.ndarray
    token: np.ndarray
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
    pushes: np.ndarray

    @staticmethod
    def blank() -> Plan:
        """A plan that asks for nothing."""
        number, no, zero, three = np.int32(0), np.bool_(False), np.float64(0.0), np.zeros(3)
        none = np.int32(-1)
        return Plan(
            number, number, three, zero, zero, np.array([0.0, 0.0, -1.0]), zero, no, three, no, no, np.eye(3), zero, zero, none, none, none, three, number,
            np.float64(-np.inf), no,
        )  # fmt: skip

    @staticmethod
    def empty(worlds: int) -> Plan:
        """[b] plans that ask for nothing."""
        one = Plan.blank()
        return Plan(**{f.name: np.stack([getattr(one, f.name)] * worlds) for f in dataclasses.fields(Plan)})

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
    return _picked(known, step, view, world, passed)


def _picked(known: Known, step: Put, view: WorldView, world: int, passed: int) -> tuple[Plan, int]:
    plan = Plan.blank()
    name = known.spec.object_ids[step.target]
    model = known.models[name]
    pos = np.asarray(view.pos[world, step.target], float)
    half = np.asarray(view.half_extent[world, step.target], float)
    neutral = hand.NEUTRAL_RAD + math.atan2(pos[1], pos[0])
    plan.target = plan.token = np.int32(step.target)
    plan.neutral, plan.under = np.float64(neutral), half[2]
    plan.goal_token, plan.goal_region, plan.touch = np.int32(step.token), np.int32(step.region), np.int32(step.touch)
    plan.offset = np.array(step.offset_m)
    plan.rim = np.float64(-np.inf if step.rim_m is None else step.rim_m)
    if step.push:
        plan.approach = hand.reaching(pos, neutral)
        seat = grips.SEATS.get(model.category, 2 * half[2]) - half[2]
        plan.pushes = np.bool_(True)
        plan.grip = np.array([0.0, 0.0, seat + hand.TIP_M - _PRESS_M])
        return plan, 1
    turned = rotation_matrices(np.asarray(view.quat[world, step.target], float)[None])[0]
    others = [box for other, boxes in known.boxes(view, world).items() if other != name for box in boxes]
    holds = grips.holds(model, known.scale[name])
    if not holds:
        raise NoPlan(f"{name} is too wide for the jaws, which open {2 * hand.OPEN_M:g} m: make it smaller or pick another target")
    ranked = []
    for i, hold in enumerate(holds):
        point = pos + turned @ np.array(hold.pos_m)
        closing = turned @ (math.cos(hold.closing_rad), math.sin(hold.closing_rad), 0.0)
        yaw = float(hand.nearest(np.arctan2(closing[1], closing[0]), np.array(neutral)))
        approach = hand.reaching(point, yaw)
        tilt = math.acos(-approach[2])
        free = min(hand.room(*point, yaw, others), _LEAN_M - hand.PALM_HALF_M[0] * abs(closing[2]))
        ranked.append((-round(min(free, _ENOUGH_ROOM_M), 3), round(abs(yaw - neutral) + 2 * tilt, 3), i, hold, approach))
    ranked.sort(key=lambda r: r[:3])
    ranked = [r for r in ranked if -r[0] >= _LEAST_ROOM_M] or ranked
    _, _, _, hold, plan.approach = ranked[passed % len(ranked)]
    plan.grip, plan.yaw = np.array(hold.pos_m), np.float64(hold.closing_rad)
    return plan, len(ranked)


def _knob(known: Known, step: Move) -> Plan:
    plan, place = Plan.blank(), known.fixed(step.thing)
    plan.moves = plan.turns = np.bool_(True)
    plan.token, plan.grip = np.int32(step.token), place.at(*grips.KNOB_M)
    plan.yaw = hand.nearest(np.float64(place.yaw_rad + math.pi / 2), np.float64(hand.NEUTRAL_RAD))
    plan.approach = hand.reaching(plan.grip, float(plan.yaw))
    plan.aim, plan.near = np.float64(step.aim), np.float64(0.05)
    return plan


def _drawer(known: Known, step: Move) -> Plan:
    plan, place, handle = Plan.blank(), known.fixed(step.thing), grips.HANDLES[step.joint]
    plan.moves = plan.tilted = np.bool_(True)
    plan.token, plan.joint_region = np.int32(step.token), np.int32(step.region)
    plan.grip = place.at(*handle.pos_m)
    origin = place.at(0.0, 0.0, 0.0)
    plan.axis = place.at(*known.models[step.thing].joints[step.joint].axis) - origin
    front = place.at(0.0, -1.0, 0.0) - origin
    up = np.array([0.0, 0.0, 1.0])
    c, s = math.cos(handle.tilt_rad), math.sin(handle.tilt_rad)
    closing = front * c - up * s
    plan.rotation = hand.rotation(-closing * math.copysign(1.0, front[1] + 1e-9), -front * s - up * c)
    plan.aim, plan.near = np.float64(step.aim), np.float64(0.006)
    return plan
