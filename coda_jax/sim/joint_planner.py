"""A scripted planner for articulated objects: hold the handle from above, follow the joint's line or arc, let go.

Closed loop and batched like the pick-and-place planner, and trusted as little: a demonstration counts only where nu says so. The joint's
geometry is the scene's own, its value is the measured one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from coda_jax.programs.expressions import shown
from coda_jax.scenes import openings
from coda_jax.scenes.articulated import Articulated
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.placement import Footprint, gap, hand_boxes
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim import joint as joints
from coda_jax.sim import panda
from coda_jax.sim.compile import scene_assets, token_index
from coda_jax.sim.detour import aside
from coda_jax.sim.joint import Joint, JointReader
from coda_jax.sim.plan import CLEARANCE_M, GAVE_UP, HAND_ROOM_M, Moded, NoPlan, measured_footprint
from coda_jax.sim.planner import PlannerSettings, command, jaw_rotation
from coda_jax.sim.state import rotation_matrices
from coda_jax.sim.supervision.parameters import FIRST, ByWorld, PlanParameters
from coda_jax.types import ARTICULATED_TOKEN, POSITION_SCALE_M, WorldView

APPROACH, GRASP, MOVE, RELEASE, RETREAT, FAILED = range(6)
MODES = ("approach", "grasp", "move", "release", "retreat", "failed")

_ALIGNED_M = 0.008
_FUNNEL = 8.0
_GRASP_STEPS = 4
_RELEASE_STEPS = 3
_RETREAT_STEPS = 12
_LOST_M = 0.035  # the grip point is this far from where the handle should be held
_DONE_SHARE = 0.02  # of the range, from the value aimed at
_STUCK_STEPS = 15
_MOVING_TOLERANCE = 0.35
_FREE_HEIGHT_M = 0.05
_LEAST_TOLERANCE = 0.15
_SHORT_WAY_RAD = 2.6  # the home posture's jaws close along x
JAW_MIDDLE_RAD = -math.pi / 4  # middle of the last joint's range, as the jaws' yaw against the direction to the grip point
JAW_ROOM_RAD = 2.7  # to either side of it


@dataclasses.dataclass(frozen=True)
class JointPlan:
    """What does not change while one joint is moved, for one world.

    grip: the joint with its handle's middle replaced by the grip point. aim: joint value to bring it to. jaw: yaw of the jaws at joint
    value 0. turn: yaw per unit of joint value. travel_z: the finger tips stay above it until they are over the handle. tall: what is
    passed at its side. ways: how many ways to close the jaws on the handle there are.
    """

    grip: Joint
    aim: float
    jaw: float
    turn: float
    travel_z: float
    tall: tuple[Footprint, ...]
    ways: int


def jaw_offset(yaw: float, x: float, y: float) -> float:
    """How far the last joint is from the middle of its range with the jaws at a yaw over (x, y), rad."""
    return yaw - math.atan2(y, x) - JAW_MIDDLE_RAD


def plan_joint(spec: SceneSpec, catalogue: Catalogue, view: WorldView, world: int, chosen: PlanParameters = FIRST) -> JointPlan:
    """Plan one world of a view.

    Raises:
      NoPlan: clutter stands within the open hand, at the handle now or where it is to be released, or the wrist cannot follow the turn.
    """
    asked = openings.parsed(spec.task.goal)
    if asked is None:
        raise NoPlan(f"the goal {shown(spec.task.goal)} asks for no opening")
    relation, target = asked
    assets = dict(zip(spec.object_ids, scene_assets(spec, catalogue), strict=True))
    asset, placement = assets[target], spec.placement(target)
    if not isinstance(asset, Articulated):
        raise NoPlan(f"{target} has no joint")
    grasp = asset.grasps[0]
    joint = joints.of(asset, placement)
    c, s = math.cos(placement.yaw_rad), math.sin(placement.yaw_rad)
    gx, gy, gz = grasp.pos_m
    x, y, z = placement.pos_m
    grip = dataclasses.replace(joint, handle=np.array([x + c * gx - s * gy, y + s * gx + c * gy, z + gz]))
    now = float(view.articulation[world, ARTICULATED_TOKEN])
    aim = openings.aim(relation) * asset.link.travel
    aim += math.copysign(chosen.aim_share * asset.link.travel, aim - now)
    aim = min(max(aim, 0.0), asset.link.travel)
    turn = float(asset.link.axis[2]) if joint.hinge else 0.0
    others = _others(spec, assets, target, catalogue, view, world)
    for value, where in ((now, "at the handle"), (aim, "where the handle is to be let go")):
        held = asset.posed(value / asset.link.travel).grasps[0]
        parts = hand_boxes(held, x, y, placement.yaw_rad, z)
        for part in (*parts[0], parts[1]):
            hit = next((n for n, f in others.items() if f.top > part.bottom and gap(part, f) < 0.0), None)
            if hit is not None:
                raise NoPlan(f"{hit} stands within the open hand {where}: move it 0.02 m away")
    jaws = _jaws(placement.yaw_rad + grasp.yaw_rad, turn, JointReader([grip]), now, aim)
    tall = tuple(f for f in others.values() if f.top + CLEARANCE_M > chosen.over_m)
    top = max((f.top for f in others.values() if f not in tall), default=0.0)
    return JointPlan(grip, aim, jaws[chosen.grasp % len(jaws)], turn, top + CLEARANCE_M, tall, len(jaws))


def _others(spec: SceneSpec, assets: dict, target: str, catalogue: Catalogue, view: WorldView, world: int) -> dict[str, Footprint]:
    index = token_index(spec, catalogue)
    others = ((name, asset, index[name]) for name, asset in assets.items() if name != target)
    return {name: measured_footprint(asset, view.pos[world, i], view.quat[world, i]) for name, asset, i in others}


def _jaws(yaw: float, turn: float, reader: JointReader, now: float, aim: float) -> list[float]:
    """The jaws' yaws at joint value 0, of those that hold alike, that the wrist can follow; the one that leaves it most room first.

    The first turn is made from the home posture the short way round, so it must be one that stays within the range.
    """
    ends = [(reader.read(np.array([v]), np.zeros(1))[0][0], turn * v) for v in (now, aim)]
    ways = []
    for k in range(-2, 3):
        candidate = yaw + k * math.pi
        if abs(candidate + turn * now) <= _SHORT_WAY_RAD:
            off = max(abs(jaw_offset(candidate + turned, float(p[0]), float(p[1]))) for p, turned in ends)
            ways.append((round(off, 9), k, candidate))
    ways.sort()
    worst = ways[0][0] if ways else math.inf
    if worst > JAW_ROOM_RAD:
        raise NoPlan(f"the wrist would turn {worst - JAW_ROOM_RAD:.2f} rad beyond its range: turn the object towards the robot")
    return [candidate for off, _, candidate in ways if off <= JAW_ROOM_RAD]


class JointPlanner(Moded):
    """Runs one plan per world; ``restart`` gives a world a new scene.

    Args:
      worlds: W.
    """

    modes = MODES

    def __init__(self, catalogue: Catalogue, worlds: int, settings: PlannerSettings):
        self._catalogue, self._settings = catalogue, settings
        self.mode = np.full(worlds, FAILED, np.int32)
        self.cause: list[str] = [""] * worlds
        self._attempt, self._wait = np.zeros(worlds, np.int32), np.zeros(worlds, np.int32)
        self._period = np.ones(worlds, np.int32)
        self._grips = [joints.NONE] * worlds
        self._reader = JointReader(self._grips)
        self._aim, self._jaw, self._turn = np.zeros(worlds), np.zeros(worlds), np.zeros(worlds)
        self._travel_z, self._range, self._lever = np.zeros(worlds), np.ones(worlds), np.ones(worlds)
        self._best = np.zeros(worlds)  # smallest distance from the aim in this grasp
        self._held_yaw = np.zeros(worlds)
        self._asked = ByWorld(worlds)
        self._tall: list[tuple[Footprint, ...]] = [()] * worlds

    def restart(self, worlds: Sequence[int], specs: Sequence[SceneSpec], view: WorldView, parameters: Sequence[PlanParameters]) -> None:
        """Plan the given worlds anew; one without a plan goes to mode FAILED with its cause."""
        self._asked.put(worlds, parameters)
        for w, spec, asked in zip(worlds, specs, parameters, strict=True):
            self._attempt[w] = self._wait[w] = 0
            try:
                plan = plan_joint(spec, self._catalogue, view, w, asked)
            except NoPlan as error:
                self.mode[w], self.cause[w], self._period[w] = FAILED, str(error), error.grasps
                continue
            self.mode[w], self.cause[w], self._grips[w] = APPROACH, "", plan.grip
            self._aim[w], self._jaw[w], self._turn[w], self._travel_z[w] = plan.aim, plan.jaw, plan.turn, plan.travel_z
            self._tall[w], self._period[w] = plan.tall, plan.ways
            away = plan.grip.handle - plan.grip.anchor
            radius = float(np.linalg.norm(away - (away @ plan.grip.axis) * plan.grip.axis))
            self._range[w], self._lever[w] = plan.grip.high, max(radius, 0.03) if plan.grip.hinge else 1.0
        self._reader = JointReader(self._grips)

    def tolerance(self, view: WorldView) -> np.ndarray:
        """[b] in 0..1: how much disturbance the motion takes; 0 while the jaws move or nothing is planned."""
        handle = np.asarray(view.pos[:, ARTICULATED_TOKEN, 2]) + np.asarray(view.half_extent[:, ARTICULATED_TOKEN, 2])
        above = (np.asarray(view.ee_pos[:, 2]) - panda.TIP_BELOW_GRIP_M - handle) / _FREE_HEIGHT_M
        free = np.clip(above, _LEAST_TOLERANCE, 1.0)
        return np.select([self.mode == MOVE, np.isin(self.mode, (APPROACH, RETREAT))], [_MOVING_TOLERANCE, free], 0.0) * self._share()

    def _share(self) -> np.ndarray:
        """[b] of the settings' speed, by what each world does."""
        moves = [np.isin(self.mode, (APPROACH, GRASP)), self.mode == MOVE]
        return np.select(moves, [self._asked.approach_speed, self._asked.carry_speed], 1.0)

    def _where(self, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Grip points [b, 3] and jaw yaws [b] at joint values [b]."""
        return self._reader.read(value, np.zeros_like(value))[0], self._jaw + self._turn * value

    def act(self, view: WorldView) -> np.ndarray:
        """Clean actions [b, 7] for the measured state; moves the modes on."""
        ee = np.asarray(view.ee_pos, float)
        ee_rotation = rotation_matrices(np.asarray(view.ee_quat, float))
        value = np.asarray(view.articulation[:, ARTICULATED_TOKEN], float)
        grip, yaw = self._where(value)
        yaw_now = np.arctan2(ee_rotation[:, 1, 1], ee_rotation[:, 0, 1])
        off = np.remainder(yaw - yaw_now + math.pi, 2 * math.pi) - math.pi
        self._transitions(view, ee, grip, off, value)
        mode = self.mode
        goal = ee.copy()

        m = mode == APPROACH
        error = np.linalg.norm(grip[:, :2] - ee[:, :2], axis=1)
        hover = np.maximum(self._travel_z + panda.TIP_BELOW_GRIP_M, grip[:, 2] + 0.05) + self._asked.hover_m
        height = np.clip(grip[:, 2] + _FUNNEL * self._asked.funnel * np.maximum(error - 0.004, 0.0), grip[:, 2], hover)
        height = np.where(np.abs(off) > 0.15, np.maximum(height, np.minimum(hover, grip[:, 2] + 0.06)), height)
        goal[m] = np.concatenate([grip[:, :2], height[:, None]], 1)[m]
        for w in np.flatnonzero(m):
            if self._tall[w]:
                goal[w] = aside(ee[w], goal[w], self._tall[w], HAND_ROOM_M, int(self._asked.side[w]))
        low = m & (ee[:, 2] < height - 0.015)
        sideways = 0.3 * (self._asked.rise_m / FIRST.rise_m)[:, None]
        goal[low, :2] = ee[low, :2] + (sideways * (goal[:, :2] - ee[:, :2]))[low]

        m = mode == GRASP
        goal[m] = grip[m]
        m = mode == MOVE
        step = POSITION_SCALE_M / self._lever
        lead = np.clip(self._aim - value, -step, step)
        ahead, yaw_ahead = self._where(value + lead)
        goal[m] = ahead[m]
        yaw = np.where(m, yaw_ahead, yaw)
        yaw = np.where(np.isin(mode, (RELEASE, RETREAT)), self._held_yaw, yaw)
        goal[mode == RETREAT, 2] += 0.06
        close = np.isin(mode, (GRASP, MOVE)) | ((mode == RELEASE) & (self._wait < self._asked.rest_steps))
        action = command(self._settings, self._share(), goal - ee, jaw_rotation(yaw), ee_rotation, close)
        action[mode == FAILED, :6] = 0.0
        return action

    def _transitions(self, view: WorldView, ee: np.ndarray, grip: np.ndarray, off: np.ndarray, value: np.ndarray) -> None:
        mode, wait = self.mode, self._wait
        fingers = np.asarray(view.finger_contact[:, ARTICULATED_TOKEN]).all(1)
        opened = np.asarray(view.gripper_opening)
        there = (np.linalg.norm(grip[:, :2] - ee[:, :2], axis=1) < _ALIGNED_M) & (np.abs(grip[:, 2] - ee[:, 2]) < _ALIGNED_M)
        ready = (mode == APPROACH) & there & (np.abs(off) < 0.1)
        mode[ready], wait[ready] = GRASP, 0
        grasping = (mode == GRASP) & ~ready
        wait[grasping] += 1
        squeezed, rest = self._asked.squeeze_steps, self._asked.rest_steps
        closed = grasping & (((wait >= 2 + squeezed) & fingers) | (wait >= _GRASP_STEPS + squeezed))
        caught = closed & fingers
        mode[caught], wait[caught] = MOVE, 0
        self._best[caught] = np.abs(self._aim - value)[caught]
        moving = (mode == MOVE) & ~caught
        left = np.abs(self._aim - value)
        better = moving & (left < self._best - 0.005 * self._range)
        self._best[better], wait[better] = left[better], 0
        wait[moving & ~better] += 1
        lost = (closed & ~fingers) | (moving & ((np.linalg.norm(ee - grip, axis=1) > _LOST_M) | (~fingers & (opened < 0.002))))
        lost |= moving & (wait > _STUCK_STEPS) & (left > _DONE_SHARE * self._range)
        arrived = moving & ~lost & (left < _DONE_SHARE * self._range)
        mode[arrived], wait[arrived] = RELEASE, 0
        yaw_now = self._jaw + self._turn * value - off
        self._held_yaw[arrived] = yaw_now[arrived]
        releasing = (mode == RELEASE) & ~arrived
        wait[releasing] += 1
        gone = releasing & (((wait >= _RELEASE_STEPS + rest) & (opened > 0.06)) | (wait >= 2 * _RELEASE_STEPS + rest))
        mode[gone], wait[gone] = RETREAT, 0
        retreating = (mode == RETREAT) & ~gone
        wait[retreating] += 1
        lost |= retreating & (wait > _RETREAT_STEPS)  # at rest, released, and still not what was asked: try again
        for w in np.flatnonzero(lost):
            self._attempt[w], self._wait[w] = self._attempt[w] + 1, 0
            mode[w] = APPROACH
            if self._attempt[w] >= self._settings.attempts:
                mode[w], self.cause[w] = FAILED, f"{GAVE_UP} {self._settings.attempts} attempts"
