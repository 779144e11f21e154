"""A scripted planner that moves one object after the other: closed loop, batched, and never trusted: a demonstration counts only where nu
says so.

For each goal of its task a world runs the modes approach, grasp, carry, lower, release, retreat. Inside a mode the command is a function
of the measured state (a funnel: the grip point may come down only as far as it is aligned), so that a push or a slip is corrected and the
labels of noisy episodes stay clean (DART, Laskey et al. 2017).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim import control, panda
from coda_jax.sim.detour import aside
from coda_jax.sim.plan import GAVE_UP, Moded, NoPlan, Plan, order_of, plan_step, upright_yaw
from coda_jax.sim.state import rotation_matrices
from coda_jax.sim.supervision.parameters import FIRST, ByWorld, PlanParameters
from coda_jax.types import POSITION_SCALE_M, ROTATION_SCALE_RAD, WorldView

APPROACH, GRASP, CARRY, LOWER, RELEASE, RETREAT, FAILED = range(7)
MODES = ("approach", "grasp", "carry", "lower", "release", "retreat", "failed")

_ALIGNED_M = 0.009
_FREE_HEIGHT_M = 0.05  # full disturbance this far above what may be knocked over
_LEAST_TOLERANCE = 0.15
_GRASP_STEPS = 4  # control steps the jaws get before the lift
_RELEASE_STEPS = 3
_BETWEEN_STEPS = 3  # of retreat before the next object of a task
_PLACED_M = 0.015  # from where it was to be put, for the next object to be taken
_TURNED_RAD = 0.15  # before what is held may be lowered
_GATE_YAW_RAD = 0.05
_GATE_PLAY_M = 0.006
_FUNNEL = 10.0  # metres of height per metre of horizontal error


@dataclasses.dataclass(frozen=True)
class PlannerSettings:
    """speed: share of the largest displacement per control step (1 is normal, 0.5 gives longer, smoother episodes).

    attempts: grasps tried before a world is given up. gain: commanded share of the remaining error; above 1 since the servos deliver about
    half of a command within its control step. revisions: further tries of a scene with a changed plan (sim/supervision).
    """

    speed: float
    attempts: int
    gain: float
    revisions: int


def command(
    settings: PlannerSettings, share: np.ndarray, offset: np.ndarray, rotation: np.ndarray, ee_rotation: np.ndarray, close: np.ndarray
) -> np.ndarray:
    """Actions [b, 7] towards a displacement ``offset`` [b, 3] (m) and an orientation [b, 3, 3]; ``close`` [b]: the jaws close.

    share: [b] of the settings' speed.
    """
    speed = settings.speed * share[:, None]
    move = settings.gain * offset / POSITION_SCALE_M
    length = np.linalg.norm(move, axis=1, keepdims=True)
    move = move * np.minimum(1.0, speed / np.maximum(length, 1e-9))
    turn = settings.gain * control.rotation_error(rotation, ee_rotation) / ROTATION_SCALE_RAD
    size = np.linalg.norm(turn, axis=1, keepdims=True)
    turn = turn * np.minimum(1.0, speed / np.maximum(size, 1e-9))
    return np.clip(np.concatenate([move, turn, np.where(close, 1.0, -1.0)[:, None]], 1), -1.0, 1.0)


def jaw_rotation(yaw: np.ndarray) -> np.ndarray:
    """[b, 3, 3] hand orientations that point down with the jaws closing along ``yaw`` (rad, base frame)."""
    c, s, zero, one = np.cos(yaw), np.sin(yaw), np.zeros_like(yaw), np.ones_like(yaw)
    return np.stack([np.stack([-s, c, zero], 1), np.stack([c, s, zero], 1), np.stack([zero, zero, -one], 1)], 1)


def nearest_jaw_yaw(yaw: np.ndarray, around: np.ndarray) -> np.ndarray:
    """``yaw`` shifted by a multiple of pi (the jaws are symmetric) to lie nearest to ``around``."""
    return yaw - np.pi * np.round((yaw - around) / np.pi)


class ScriptedPlanner(Moded):
    """Runs one plan per world, for one goal of its task after the other; ``restart`` gives a world a new scene.

    Args:
      worlds: W.
    """

    modes = MODES

    def __init__(self, catalogue: Catalogue, worlds: int, settings: PlannerSettings):
        self._catalogue, self._settings = catalogue, settings
        self.mode = np.full(worlds, FAILED, np.int32)
        self.cause: list[str] = [""] * worlds
        self._plans: list[Plan | None] = [None] * worlds
        self._asked = ByWorld(worlds)
        self._specs: list[SceneSpec | None] = [None] * worlds
        self._number = np.zeros(worlds, np.int32)  # of the task's goals, how many were reached before
        self._last = np.ones(worlds, bool)  # it is the task's last one
        self._attempt = np.zeros(worlds, np.int32)
        self._period = np.ones(worlds, np.int32)  # of the parameter ``grasp``, over the goals planned
        self._wait = np.zeros(worlds, np.int32)
        # Per-world numbers of the plans, so that one control step is a few array operations.
        self._target, self._reference = np.zeros(worlds, np.int32), np.zeros(worlds, np.int32)
        self._grasp = np.zeros((worlds, 4))  # position in the object's frame, yaw
        self._goal_offset, self._goal_z = np.zeros((worlds, 2)), np.zeros(worlds)
        self._travel_z, self._under = np.zeros(worlds), np.zeros(worlds)
        self._held = np.zeros((worlds, 3))  # grip point minus object centre while held
        self._carry_yaw = np.zeros(worlds)
        self._steady_yaw = np.full(worlds, np.nan)
        self._topples, self._rolls = np.ones(worlds, bool), np.zeros(worlds, bool)
        self._tall = np.zeros(worlds, bool)  # something stands in the scene that is passed at its side
        self._drop, self._play = np.zeros(worlds), np.zeros(worlds)  # height of the release, and the family's own
        self._jaw_yaws: list[tuple[float, ...]] = [()] * worlds
        self._gate, self._within = np.zeros(worlds), np.full(worlds, np.inf)  # height over the resting place, and what opens it
        self._exact = np.zeros(worlds, bool)  # what is held is steered by where it is seen, since the hand turns

    def restart(self, worlds: Sequence[int], specs: Sequence[SceneSpec], view: WorldView, parameters: Sequence[PlanParameters]) -> None:
        """Plan the given worlds anew; one without a plan goes to mode FAILED with its cause."""
        self._asked.put(worlds, parameters)
        for w, spec in zip(worlds, specs, strict=True):
            self._specs[w], self._period[w] = spec, 1
            self._begin(int(w), 0, view)

    def _begin(self, w: int, number: int, view: WorldView) -> None:
        """Plan the ``number``-th goal that is reached in a world's task, from where everything is."""
        spec = self._specs[w]
        assert spec is not None
        self._number[w] = number
        self._attempt[w] = self._wait[w] = 0
        try:
            goal = order_of(spec, bool(self._asked.reverse[w]))[number]
            first, over_m = int(self._asked.grasp[w]), float(self._asked.over_m[w])
            plan = plan_step(spec, self._catalogue, view.pos[w], view.quat[w], goal, first, over_m)
        except NoPlan as error:
            self.mode[w], self.cause[w], self._plans[w] = FAILED, str(error), None
            self._period[w] = math.lcm(int(self._period[w]), error.grasps)
            return
        self._period[w] = math.lcm(int(self._period[w]), len(plan.grasps))
        self.mode[w], self.cause[w], self._plans[w] = APPROACH, "", plan
        self._target[w], self._reference[w] = plan.target, plan.reference
        self._goal_offset[w] = plan.goal_xy
        self._goal_z[w], self._travel_z[w] = plan.goal_z, plan.travel_z
        self._steady_yaw[w] = np.nan if plan.steady_yaw is None else plan.steady_yaw
        self._topples[w], self._rolls[w] = not plan.ball, plan.rolls
        self._under[w] = view.half_extent[w, plan.target, 2]
        self._last[w] = number + 1 == plan.goals
        self._tall[w] = bool(plan.tall)
        self._drop[w], self._play[w] = max(plan.drop_m + float(self._asked.drop_m[w]), 0.0), plan.drop_m
        self._gate[w], self._within[w] = (0.0, np.inf) if plan.gate is None else (plan.gate.height_m, plan.gate.within_m)
        self._exact[w] = plan.gate is not None or any(plan.jaw_yaws)
        self._choose(w, view)

    def _choose(self, w: int, view: WorldView) -> None:
        """Take the next grasp of the plan.

        A round target is always grasped the way it was planned; where the place beside was found for the first grasp, the plan's order
        counts, else the turn of the hand counts too.
        """
        plan = self._plans[w]
        assert plan is not None
        order = list(range(len(plan.grasps)))
        if plan.steady_yaw is not None:
            order = [0]
        elif not plan.chosen:
            yaw, _ = upright_yaw(view.quat[w, plan.target], plan.rolls)
            turn = [abs(nearest_jaw_yaw(np.array(yaw + g.yaw_rad), np.array(0.0))) for g in plan.grasps]
            passed = int(self._asked.grasp[w]) % len(turn)  # the plan begins with the grasp after these
            order.sort(key=lambda i: round(0.02 * ((i + passed) % len(turn)) + 0.1 * float(turn[i]), 6))
            order = order[passed:] + order[:passed]
        chosen = order[int(self._attempt[w]) % len(order)]
        grasp = plan.grasps[chosen]
        self._grasp[w] = (*grasp.pos_m, grasp.yaw_rad)
        self._jaw_yaws[w] = plan.jaw_yaws[chosen]

    def tolerance(self, view: WorldView) -> np.ndarray:
        """[b] in 0..1: how much disturbance the motion takes without knocking things over; 0 while the jaws move or nothing is planned.

        Full above the clutter, little where the finger tips are beside the target or the carried object is beside the goal.
        """
        rows = np.arange(len(self.mode))
        top = np.asarray(view.pos[rows, self._target, 2]) + self._under
        below = np.where(self.mode == APPROACH, np.asarray(view.ee_pos[:, 2]) - panda.TIP_BELOW_GRIP_M - top, 0.0)
        carried = np.asarray(view.pos[rows, self._target, 2]) - self._goal_z
        height = np.where(self.mode == APPROACH, below, carried)
        free = np.isin(self.mode, (APPROACH, CARRY, LOWER, RETREAT))
        return np.where(free, np.clip(height / _FREE_HEIGHT_M, _LEAST_TOLERANCE, 1.0), 0.0) * self._share()

    def _share(self) -> np.ndarray:
        """[b] of the settings' speed, by what each world does."""
        asked, mode = self._asked, self.mode
        moves = [np.isin(mode, (APPROACH, GRASP)), mode == CARRY, mode == LOWER]
        return np.select(moves, [asked.approach_speed, asked.carry_speed, asked.lower_speed], 1.0)

    def _carry_height(self) -> np.ndarray:
        """[b] height of the grip point at which what is held clears everything on the way, and the goal."""
        return np.maximum(self._travel_z + self._under + self._held[:, 2], self._goal_z + 0.03 + self._held[:, 2]) + self._asked.lift_m

    def _held_now(self, ee: np.ndarray, obj: np.ndarray) -> np.ndarray:
        """[b, 2] grip point minus object centre in the table plane: as at the grasp, or as seen where the hand turns."""
        return np.where(self._exact[:, None], (ee - obj)[:, :2], self._held[:, :2])

    def _turn_aside(self, moving: np.ndarray, ee: np.ndarray, goal: np.ndarray) -> None:
        """Replace the goal of worlds in which something tall stands by the next point of the way round it."""
        for w in np.flatnonzero(moving & self._tall):
            plan = self._plans[w]
            if plan is not None:
                goal[w] = aside(ee[w], goal[w], plan.tall, plan.room_m, int(self._asked.side[w]))

    def _turn_to_goal(self, w: int, yaw_now: float, goal_xy: np.ndarray) -> None:
        """Choose the yaw at which the held object is put down: of those allowed, the one with the least turn of the hand.

        The jaws are symmetric; of the two ways to close along a line the one nearest to the middle of the last joint's range counts.
        """
        if self._jaw_yaws[w]:
            middle = np.arctan2(goal_xy[1], goal_xy[0])
            options = nearest_jaw_yaw(np.array(self._jaw_yaws[w]), middle)
            self._carry_yaw[w] = options[int(np.abs(options - yaw_now).argmin())]

    def act(self, view: WorldView) -> np.ndarray:
        """Clean actions [b, 7] for the measured state; moves the modes on."""
        rows = np.arange(len(self.mode))
        ee = np.asarray(view.ee_pos, float)
        ee_rotation = rotation_matrices(np.asarray(view.ee_quat, float))
        obj = np.asarray(view.pos[rows, self._target], float)
        matrix = rotation_matrices(np.asarray(view.quat[rows, self._target], float))
        fingers = view.finger_contact[rows, self._target].all(1)
        yaw_now = np.arctan2(ee_rotation[:, 1, 1], ee_rotation[:, 0, 1])

        rolled = np.arctan2(-matrix[:, 0, 1], matrix[:, 1, 1])
        object_yaw = np.where(self._rolls, rolled, np.arctan2(matrix[:, 1, 0], matrix[:, 0, 0]))
        c, s = np.cos(object_yaw), np.sin(object_yaw)
        local = self._grasp[:, :3]
        grip = obj + np.stack([c * local[:, 0] - s * local[:, 1], s * local[:, 0] + c * local[:, 1], local[:, 2]], 1)
        lies = np.where(self._rolls, np.abs(matrix[:, 2, 1]) > 0.6, matrix[:, 2, 2] < 0.8)
        toppled = (self.mode == APPROACH) & self._topples & lies
        for w in np.flatnonzero(toppled):
            self.mode[w] = FAILED
            self.cause[w] = "the target lies on its side after an attempt" if self._attempt[w] else "knocked the target over"
        # Nearest to the middle of the last joint's range, which is the start's jaw yaw turned with the base.
        jaw = np.where(np.isnan(self._steady_yaw), object_yaw + self._grasp[:, 3], self._steady_yaw)
        grasp_yaw = nearest_jaw_yaw(jaw, np.arctan2(obj[:, 1], obj[:, 0]))
        goal_xy = np.asarray(view.pos[rows, self._reference, :2], float) + self._goal_offset

        self._transitions(view, ee, obj, grip, grasp_yaw, yaw_now, goal_xy, fingers)
        mode = self.mode
        goal = ee.copy()
        yaw = yaw_now.copy()
        close = np.isin(mode, (GRASP, CARRY, LOWER)) | ((mode == RELEASE) & (self._wait < self._asked.rest_steps))

        m = mode == APPROACH
        error = np.linalg.norm(grip[:, :2] - ee[:, :2], axis=1)
        hover = np.maximum(self._travel_z + panda.TIP_BELOW_GRIP_M, grip[:, 2] + 0.05) + self._asked.hover_m
        height = np.clip(grip[:, 2] + _FUNNEL * self._asked.funnel * np.maximum(error - 0.005, 0.0), grip[:, 2], hover)
        goal[m] = np.concatenate([grip[:, :2], height[:, None]], 1)[m]
        yaw[m] = grasp_yaw[m]
        self._turn_aside(m, ee, goal)
        low = m & (ee[:, 2] < height - 0.015)
        sideways = 0.3 * (self._asked.rise_m / FIRST.rise_m)[:, None]
        goal[low, :2] = ee[low, :2] + (sideways * (goal[:, :2] - ee[:, :2]))[low]  # rise before sweeping through what stands beside
        # The hand turns high up: the palm is wide, and what stands beside is as tall as the target.
        turn = np.abs(yaw - yaw_now)
        unturned = m & (turn > 0.15)
        goal[unturned, 2] = np.maximum(goal[unturned, 2], np.minimum(hover, grip[:, 2] + 0.06)[unturned])

        m = mode == GRASP
        goal[m], yaw[m] = grip[m], grasp_yaw[m]

        m = (mode == CARRY) | (mode == LOWER)
        over = goal_xy + self._held_now(ee, obj)
        carry = self._carry_height()
        final = self._goal_z + np.minimum(self._drop, self._play) + self._held[:, 2]  # a higher release is one on the way there
        error = np.linalg.norm(over - ee[:, :2], axis=1)
        height = np.where(
            mode == LOWER, np.clip(final + _FUNNEL * self._asked.funnel * np.maximum(error - 0.008, 0.0), final, carry), carry
        )
        shut = (error > self._within) | (np.abs(self._carry_yaw - yaw_now) > _GATE_YAW_RAD)
        shut &= obj[:, 2] > self._goal_z + self._gate - _GATE_PLAY_M  # what is in the hole already stays there
        height = np.where(shut & (self._gate > 0), np.maximum(height, self._goal_z + self._gate + self._held[:, 2]), height)
        goal[m] = np.concatenate([over, height[:, None]], 1)[m]
        yaw[m] = self._carry_yaw[m]
        self._turn_aside(mode == CARRY, ee, goal)
        over = np.where((self._tall & (mode == CARRY))[:, None], goal[:, :2], over)
        low = (mode == CARRY) & (ee[:, 2] < carry - 0.02)
        slow = np.clip(1.0 - (carry - 0.02 - ee[:, 2]) / self._asked.rise_m, 0.0, 1.0)[:, None]
        goal[low, :2] = (ee[:, :2] + slow * (over - ee[:, :2]))[low]

        m = np.isin(mode, (RELEASE, RETREAT))
        yaw[m] = self._carry_yaw[m]
        goal[mode == RETREAT, 2] += 0.06

        action = command(self._settings, self._share(), goal - ee, jaw_rotation(yaw), ee_rotation, close)
        action[mode == FAILED, :6] = 0.0
        return action

    def _transitions(self, view, ee, obj, grip, grasp_yaw, yaw_now, goal_xy, fingers) -> None:
        mode, wait = self.mode, self._wait
        there = (np.linalg.norm(grip[:, :2] - ee[:, :2], axis=1) < _ALIGNED_M) & (np.abs(grip[:, 2] - ee[:, 2]) < _ALIGNED_M)
        ready = (mode == APPROACH) & there & (np.abs(grasp_yaw - yaw_now) < 0.08)
        mode[ready], wait[ready] = GRASP, 0
        grasping = (mode == GRASP) & ~ready
        wait[grasping] += 1
        squeezed = self._asked.squeeze_steps
        closed = grasping & (((wait >= 2 + squeezed) & fingers) | (wait >= _GRASP_STEPS + squeezed))
        caught = closed & fingers
        mode[caught] = CARRY
        self._held[caught] = (ee - obj)[caught]
        self._carry_yaw[caught] = yaw_now[caught]
        for w in np.flatnonzero(caught):
            self._turn_to_goal(int(w), float(yaw_now[w]), goal_xy[w])
        lost = (closed & ~fingers) | (np.isin(mode, (CARRY, LOWER)) & ~fingers & (np.asarray(view.gripper_opening) < 0.002))
        lost |= np.isin(mode, (CARRY, LOWER)) & (np.linalg.norm(ee - obj - self._held, axis=1) > 0.04)
        for w in np.flatnonzero(lost):
            self._retry(int(w), view)
        over = np.linalg.norm(goal_xy + self._held_now(ee, obj) - ee[:, :2], axis=1)
        carry = self._carry_height()
        turned = ~self._exact | (np.abs(self._carry_yaw - yaw_now) < _TURNED_RAD)
        arrived = (mode == CARRY) & (over < 0.03) & (ee[:, 2] > carry - 0.03) & turned
        mode[arrived] = LOWER
        down = (mode == LOWER) & ~arrived & (obj[:, 2] < self._goal_z + (self._drop + self._play)) & (over < 0.02)
        mode[down], wait[down] = RELEASE, 0
        releasing = (mode == RELEASE) & ~down
        wait[releasing] += 1
        open_now = np.asarray(view.gripper_opening) > 0.06
        rest = self._asked.rest_steps
        gone = releasing & (((wait >= _RELEASE_STEPS + rest) & open_now) | (wait >= 2 * _RELEASE_STEPS + rest))
        mode[gone], wait[gone] = RETREAT, 0
        retreating = (mode == RETREAT) & ~gone
        wait[retreating] += 1
        placed = (np.linalg.norm(goal_xy - obj[:, :2], axis=1) < _PLACED_M) & (np.abs(obj[:, 2] - self._goal_z) < _PLACED_M)
        for w in np.flatnonzero(retreating & ~self._last & placed & (wait > _BETWEEN_STEPS)):
            self._begin(int(w), int(self._number[w]) + 1, view)
        for w in np.flatnonzero(retreating & (mode == RETREAT) & (wait > 12)):  # at rest, released, and still not what was asked: try again
            self._retry(int(w), view)

    def _retry(self, w: int, view: WorldView) -> None:
        self._attempt[w] += 1
        self._wait[w] = 0
        if self._attempt[w] >= self._settings.attempts:
            self.mode[w], self.cause[w] = FAILED, f"{GAVE_UP} {self._settings.attempts} attempts"
            return
        self.mode[w] = APPROACH
        self._choose(w, view)
