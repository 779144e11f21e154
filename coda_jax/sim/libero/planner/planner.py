"""LIBERO's scripted planner: closed loop, batched, and never trusted: a demonstration counts only where the goal says so.

A world runs the steps of its goal (steps.py) one after the other. What is picked goes through approach, grasp, carry, lower, release and
retreat; a drawer's handle or a knob through approach, grasp, move, release and retreat; what is pushed through approach, push and retreat.
Inside a mode the command is a function of the measured state (a funnel: the hand comes nearer only as far as it is aligned), so that a push
or a slip is corrected and the labels of noisy episodes stay clean (DART, Laskey et al. 2017).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.libero import tasks
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim import control
from coda_jax.sim.libero import layout, models
from coda_jax.sim.libero.planner import hand
from coda_jax.sim.libero.planner.known import Known, highest_between
from coda_jax.sim.libero.planner.plans import Plans, plan_of
from coda_jax.sim.libero.planner.steps import Put, Step, steps_of
from coda_jax.sim.plan import GAVE_UP, Moded, NoPlan
from coda_jax.sim.planner import PlannerSettings, command
from coda_jax.sim.state import rotation_matrices
from coda_jax.sim.supervision.parameters import ByWorld, PlanParameters
from coda_jax.types import ENTITIES, POSITION_SCALE_M, WorldView

APPROACH, GRASP, CARRY, LOWER, RELEASE, RETREAT, MOVE, PUSH, FAILED = range(9)
MODES = ("approach", "grasp", "carry", "lower", "release", "retreat", "move", "push", "failed")

_ALIGNED_M, _ALIGNED_RAD = 0.006, 0.08
_FUNNEL = 4.0  # metres backwards per metre of error to the side
_FUNNEL_RAD = 0.15  # of error in orientation, that keep the hand _UNTURNED_M away
_UNTURNED_M = 0.05
_AWAY_M = 0.06  # sideways; farther away the hand flies over everything
_BEHIND_M = 0.12  # where a tilted approach begins
_GRASP_STEPS = (3, 14)  # policy steps the jaws get before the lift: at least, and without a touch of both fingers
_RELEASE_STEPS = 4
_RETREAT_STEPS = 14
_RETREAT_M = 0.08
_LOST_M = 0.04  # what was held is this far from where it should be
_STUCK_STEPS = 20  # without progress
_STUCK_NEAR_M, _STUCK_NEAR_STEPS = 0.012, 8  # so near, the jaws may close all the same
_NEARER_M, _RADIUS_M = 0.004, 0.1  # what counts as progress; a turn counts as the way of a point so far away
_PLACED_M = 0.012
_LOAD_CLEARANCE_M, _HAND_CLEARANCE_M = 0.025, 0.035  # over everything; the hand sags a little while it turns
_REACH_M = 0.06  # of hand or load to the side of the way
_LEAD_RAD = 0.35
_EASE = 7.0  # metres that the fingers are raised per metre that a pushed thing is pressed in
_PUSH_M, _PRESS_M = 0.02, 0.002  # ahead of and below the hand, while it pushes: slow enough for the fingers to stay on it
_FREE_HEIGHT_M = 0.05
_LEAST_TOLERANCE = 0.15
_MOVING_TOLERANCE = 0.3


@functools.lru_cache(maxsize=512)
def regions_of(task: str) -> Mapping[str, int]:
    """Numbers of a scene's regions in its views, by the task that its layout names. Raises InputError as ``models.load``."""
    index = layout.of(models.load(tasks.task(task))).index
    return {name: i - ENTITIES for name, i in index.items() if i >= ENTITIES}


class LiberoPlanner(Moded):
    """Runs one plan per world; ``restart`` gives a world a new scene.

    Args:
      worlds: W.
    """

    modes = MODES

    def __init__(self, catalogue: Catalogue | None, worlds: int, settings: PlannerSettings):
        del catalogue  # the things are the package's
        self._settings = settings
        self.mode = np.full(worlds, FAILED, np.int32)
        self.cause: list[str] = [""] * worlds
        self._known: list[Known | None] = [None] * worlds
        self._steps: list[tuple[Step, ...]] = [()] * worlds
        self._number = np.zeros(worlds, np.int32)  # of the steps, how many are done
        self._attempt, self._wait = np.zeros(worlds, np.int32), np.zeros(worlds, np.int32)
        self._period = np.ones(worlds, np.int32)
        self._asked = ByWorld(worlds)
        self._plan = Plans(worlds)
        self._travel_z = np.zeros(worlds)  # the finger tips, or the load's underside, stay above it on the way
        self._held = np.zeros((worlds, 3))  # grip point minus the load's centre
        self._kept = np.tile(np.eye(3), (worlds, 1, 1))  # orientation of the hand while it carries and lets go
        self._best = np.zeros(worlds)  # smallest distance from the aim so far
        self._left = np.zeros((worlds, 3))  # where the hand let go
        self._rows = np.arange(worlds)

    def restart(self, worlds: Sequence[int], specs: Sequence[SceneSpec], view: WorldView, parameters: Sequence[PlanParameters]) -> None:
        """Plan the given worlds anew; one without a plan goes to mode FAILED with its cause."""
        self._asked.put(worlds, parameters)
        for w, spec in zip(worlds, specs, strict=True):
            self.cause[w], self._steps[w], self._period[w] = "", (), 1
            try:
                self._known[w] = known = Known(spec, regions_of(spec.spatial.layout.partition("@")[0]))
                self._steps[w] = steps_of(known, view, int(w))
            except NoPlan as error:
                self.mode[w], self.cause[w] = FAILED, str(error)
                continue
            self._begin(int(w), 0, view)

    def _begin(self, w: int, number: int, view: WorldView) -> None:
        self._number[w], self._attempt[w] = number, 0
        self._choose(w, view)

    def _choose(self, w: int, view: WorldView) -> None:
        """Plan a world's present step from where everything is now, each attempt with another grasp."""
        known = self._known[w]
        assert known is not None
        try:
            plan, ways = plan_of(known, self._steps[w][int(self._number[w])], view, w, int(self._asked.grasp[w]) + int(self._attempt[w]))
        except NoPlan as error:
            self.mode[w], self.cause[w], self._period[w] = FAILED, str(error), error.grasps
            return
        self._period[w] = math.lcm(int(self._period[w]), ways)
        self._plan.put(w, plan)
        self.mode[w], self._wait[w], self._best[w] = APPROACH, 0, np.inf
        grip, rotation, _ = self._grip(view)
        self._travel(w, view, grip[w] - rotation[w, :, 2] * _BEHIND_M * float(plan.tilted), ())

    def _travel(self, w: int, view: WorldView, to: np.ndarray, without: Sequence[str]) -> None:
        """Find the height that clears everything on the straight way to a point."""
        known = self._known[w]
        assert known is not None
        boxes = [box for name, found in known.boxes(view, w).items() if name not in without for box in found]
        clearance = _LOAD_CLEARANCE_M if without else _HAND_CLEARANCE_M
        self._travel_z[w] = highest_between(np.asarray(view.ee_pos[w], float), to, boxes, _REACH_M) + clearance

    def tolerance(self, view: WorldView) -> np.ndarray:
        """[b] in 0..1: how much disturbance the motion takes; 0 while the jaws move or nothing is planned."""
        grip = self._grip(view)[0]
        away = np.linalg.norm(np.asarray(view.ee_pos) - grip, axis=1)
        carried = np.asarray(view.pos[self._rows, self._plan.target, 2]) - self._goal(view)[:, 2]
        height = np.select([self.mode == APPROACH, np.isin(self.mode, (CARRY, LOWER))], [away, carried], 0.0)
        free = np.isin(self.mode, (APPROACH, CARRY, LOWER, RETREAT))
        near = np.clip(height / _FREE_HEIGHT_M, _LEAST_TOLERANCE, 1.0)
        return np.select([np.isin(self.mode, (MOVE, PUSH)), free], [_MOVING_TOLERANCE, near], 0.0) * self._share()

    def _share(self) -> np.ndarray:
        """[b] of the settings' speed, by what each world does."""
        asked, mode = self._asked, self.mode
        moves = [np.isin(mode, (APPROACH, GRASP)), np.isin(mode, (CARRY, MOVE, PUSH)), mode == LOWER]
        return np.select(moves, [asked.approach_speed, asked.carry_speed, asked.lower_speed], 1.0)

    def _value(self, view: WorldView) -> np.ndarray:
        """[b] of the joint that a world moves."""
        plan = self._plan
        own = np.asarray(view.articulation[self._rows, plan.token], float)
        assert view.regions is not None
        low = np.asarray(view.regions.joint[self._rows, np.maximum(plan.joint_region, 0)], float)
        value = np.where(plan.joint_region >= 0, low, own)
        # A refilled world still has its old plan here, whose region may move with nothing now.
        return np.where(np.isfinite(value), value, 0.0)

    def _grip(self, view: WorldView, ahead: np.ndarray | float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where to hold now: grip points [b, 3], orientations [b, 3, 3], joint values [b]; of joints that are ``ahead`` of now."""
        plan, rows = self._plan, self._rows
        matrix = rotation_matrices(np.asarray(view.quat[rows, plan.target], float))
        thing = np.asarray(view.pos[rows, plan.target], float) + (matrix @ plan.grip[:, :, None])[..., 0]
        closing = (matrix @ hand.level(plan.yaw)[:, :, None])[..., 0]
        yaw = hand.nearest(np.arctan2(closing[:, 1], closing[:, 0]), plan.neutral)
        value = self._value(view)
        joint = plan.grip + plan.axis * (value + ahead)[:, None]
        yaw = np.where(plan.turns, plan.yaw + value + ahead, np.where(plan.pushes, plan.neutral, yaw))
        closing = hand.level(yaw)
        closing -= (closing * plan.approach).sum(1, keepdims=True) * plan.approach
        down = hand.rotation(closing / np.linalg.norm(closing, axis=1, keepdims=True), plan.approach)
        rotation = np.where(plan.tilted[:, None, None], plan.rotation, down)
        return np.where(plan.moves[:, None], joint, thing), rotation, value

    def _goal(self, view: WorldView) -> np.ndarray:
        """[b, 3] where the centre of what is carried is to be."""
        plan = self._plan
        token = np.asarray(view.pos[self._rows, np.maximum(plan.goal_token, 0)], float)
        assert view.regions is not None
        region = np.asarray(view.regions.pos[self._rows, np.maximum(plan.goal_region, 0)], float)
        at = np.where((plan.goal_region >= 0)[:, None], region, np.where((plan.goal_token >= 0)[:, None], token, 0.0))
        return at + plan.offset

    def _heights(self, goal: np.ndarray, above: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[b] heights of the grip point, which is ``above`` [b] the load's centre: of the carrying hand, and at the end."""
        plan = self._plan
        rim = goal[:, 2] - plan.offset[:, 2] + plan.rim + 0.006 - hand.PALM_M
        final = np.maximum(goal[:, 2] + above + self._asked.drop_m, np.where(np.isfinite(plan.rim), rim, -np.inf))
        carry = np.maximum(self._travel_z + plan.under + above, final + 0.03) + self._asked.lift_m
        return carry, final

    def act(self, view: WorldView) -> np.ndarray:
        """Clean actions [b, 7] for the measured state; moves the modes on."""
        ee = np.asarray(view.ee_pos, float)
        turn = rotation_matrices(np.asarray(view.ee_quat, float))
        grip, rotation, value = self._grip(view)
        obj = np.asarray(view.pos[self._rows, self._plan.target], float)
        place = self._goal(view)
        self._transitions(view, ee, turn, grip, rotation, value, obj, place)
        grip, rotation, value = self._grip(view)  # of the steps that began just now
        obj = np.asarray(view.pos[self._rows, self._plan.target], float)
        place = self._goal(view)
        mode, plan = self.mode, self._plan
        goal, wanted = ee.copy(), turn.copy()

        m = mode == APPROACH
        goal[m], wanted[m] = self._approach(ee, turn, grip, rotation)[m], rotation[m]
        m = mode == GRASP
        goal[m], wanted[m] = grip[m], rotation[m]

        m = (mode == CARRY) | (mode == LOWER)
        held = ee - obj  # as it is now: what slips a little is still carried over everything
        over = place[:, :2] + held[:, :2]
        carry, final = self._heights(place, held[:, 2])
        error = np.linalg.norm(over - ee[:, :2], axis=1)
        down = np.clip(final + _FUNNEL * self._asked.funnel * np.maximum(error - 0.008, 0.0), final, carry)
        height = np.where(mode == LOWER, down, carry)
        goal[m] = np.concatenate([over, height[:, None]], 1)[m]
        low = (mode == CARRY) & (ee[:, 2] < carry - 0.01)
        slow = np.clip(1.0 - (carry - 0.01 - ee[:, 2]) / (0.4 * self._asked.rise_m), 0.0, 1.0)[:, None]
        goal[low, :2] = (ee[:, :2] + slow * (over - ee[:, :2]))[low]
        wanted[m] = self._kept[m]

        m = mode == MOVE
        step = np.where(plan.turns, _LEAD_RAD, POSITION_SCALE_M)
        ahead, turned, _ = self._grip(view, np.clip(plan.aim - value, -step, step))
        goal[m], wanted[m] = ahead[m], turned[m]
        m = mode == PUSH
        way = place - obj
        way *= np.minimum(1.0, _PUSH_M / np.maximum(np.linalg.norm(way[:, :2], axis=1), 1e-9))[:, None]
        sunk = np.maximum(place[:, 2] - obj[:, 2], 0.0)  # into the table, by fingers that press too hard for it to slide
        height = grip[:, 2] - _PRESS_M + _EASE * sunk
        goal[m] = np.concatenate([ee[:, :2] + way[:, :2], height[:, None]], 1)[m]
        wanted[m] = rotation[m]

        m = np.isin(mode, (RELEASE, RETREAT))
        wanted[m] = self._kept[m]
        goal[mode == RELEASE] = self._left[mode == RELEASE]
        m = mode == RETREAT
        goal[m] = (self._left - self._kept[:, :, 2] * _RETREAT_M)[m]
        close = np.isin(mode, (GRASP, CARRY, LOWER, MOVE)) | ((mode == RELEASE) & (self._wait < self._asked.rest_steps)) | plan.pushes
        action = command(self._settings, self._share(), goal - ee, wanted, turn, close)
        action[mode == FAILED, :6] = 0.0
        return action

    def _approach(self, ee: np.ndarray, turn: np.ndarray, grip: np.ndarray, rotation: np.ndarray) -> np.ndarray:
        """[b, 3] next point of the way to the grip: from behind it along the approach, from above everything where it is far."""
        plan = self._plan
        forward = rotation[:, :, 2]
        error = grip - ee
        along = (error * forward).sum(1)
        side = error - along[:, None] * forward
        far = np.linalg.norm(side, axis=1)
        hover = np.maximum(self._travel_z + hand.TIP_M, grip[:, 2] + 0.05) + self._asked.hover_m
        depth = np.where(plan.tilted, _BEHIND_M, hover - grip[:, 2])
        back = np.clip(_FUNNEL * self._asked.funnel * np.maximum(far - 0.005, 0.0), 0.0, depth)
        off = np.linalg.norm(control.rotation_error(rotation, turn), axis=1)
        back = np.where(off > _FUNNEL_RAD, np.maximum(back, np.minimum(depth, _UNTURNED_M)), back)
        goal = grip - forward * back[:, None]
        away = np.linalg.norm((goal - ee)[:, :2], axis=1) > _AWAY_M
        goal[away, 2] = np.maximum(goal[:, 2], hover)[away]
        behind = np.where(away, goal[:, 2] - ee[:, 2], back - along)
        aside = np.where(away[:, None], (goal - ee) * (1.0, 1.0, 0.0), side)
        slow = np.clip(1.0 - (behind - 0.01) / (0.4 * self._asked.rise_m), 0.0, 1.0)  # up or back first, then to the side
        goal -= (1.0 - slow)[:, None] * aside
        return goal

    def _transitions(self, view, ee, turn, grip, rotation, value, obj, place) -> None:
        mode, wait, plan, rows = self.mode, self._wait, self._plan, self._rows
        wait += 1
        fingers = np.asarray(view.finger_contact[rows, plan.token])
        both = fingers.all(1)
        opened = np.asarray(view.gripper_opening)
        off = np.linalg.norm(control.rotation_error(rotation, turn), axis=1)
        near = np.linalg.norm(grip - ee, axis=1)

        self._progress(mode == APPROACH, near + _RADIUS_M * off, _NEARER_M)
        ready = (mode == APPROACH) & (near < _ALIGNED_M + np.where(plan.pushes, 0.006, 0.0)) & (off < _ALIGNED_RAD)
        ready |= (mode == APPROACH) & (near < _STUCK_NEAR_M) & (wait > _STUCK_NEAR_STEPS) & (off < 2 * _ALIGNED_RAD)
        self._enter(ready & ~plan.pushes, GRASP)
        self._enter(ready & plan.pushes, PUSH)
        self._best[ready] = np.inf

        least, most = _GRASP_STEPS
        squeezed = self._asked.squeeze_steps
        grasping = (mode == GRASP) & ~ready
        closed = grasping & (((wait >= least + squeezed) & both) | (wait >= most + squeezed))
        caught = closed & both
        self._held[caught], self._kept[caught] = (ee - obj)[caught], turn[caught]
        self._best[caught] = np.inf
        self._enter(caught & plan.moves, MOVE)
        self._enter(caught & ~plan.moves, CARRY)
        for w in np.flatnonzero(caught & ~plan.moves):
            self._load(int(w), view, place[w])
        self._retry(closed & ~both, "the jaws closed beside it", view)

        holding = np.isin(mode, (CARRY, LOWER)) & ~caught
        lost = holding & ((np.linalg.norm(ee - obj - self._held, axis=1) > _LOST_M) | (~both & (opened < 0.002)))
        self._retry(lost, "it slipped out of the jaws", view)
        over = np.linalg.norm((place - obj)[:, :2], axis=1)
        carry, final = self._heights(place, ee[:, 2] - obj[:, 2])
        self._progress((mode == CARRY) & ~caught, over + np.maximum(carry - ee[:, 2], 0.0), _NEARER_M)
        self._enter((mode == CARRY) & ~caught & (over < 0.03) & (ee[:, 2] > carry - 0.03), LOWER, np.inf)
        lowering = (mode == LOWER) & (wait > 0)
        self._progress(lowering, ee[:, 2] - final, 0.003)
        touch = np.asarray(view.contact[rows, plan.target, plan.touch]) & (obj[:, 2] < place[:, 2] + 0.02)
        down = lowering & (over < 0.02) & (touch | (ee[:, 2] < final + 0.006) | (wait > 8))
        self._let_go(down, ee, turn)

        moving = (mode == MOVE) & ~caught
        left = np.abs(plan.aim - value)
        self._progress(moving, left, np.where(plan.turns, 0.02, 0.002))
        done = moving & (left < plan.near)
        self._let_go(done, ee, turn)
        self._retry(moving & ~done & ((near > _LOST_M) | (~fingers.any(1) & (opened < 0.002))), "the jaws slipped off", view)
        self._retry((mode == MOVE) & moving & (wait > _STUCK_STEPS), "it does not move", view)

        pushing = (mode == PUSH) & ~ready
        away = np.linalg.norm((place - obj)[:, :2], axis=1)
        self._progress(pushing, away, 0.002)
        self._let_go(pushing & (away < _PLACED_M), ee, turn)
        self._retry((mode == PUSH) & pushing & (wait > _STUCK_STEPS), "the push does not move it", view)

        releasing = (mode == RELEASE) & (wait > 0)
        rest = self._asked.rest_steps
        gone = releasing & (((wait >= _RELEASE_STEPS + rest) & ((opened > 0.06) | plan.pushes)) | (wait >= 3 * _RELEASE_STEPS + rest))
        self._enter(gone, RETREAT)
        back = (mode == RETREAT) & ~gone
        away = np.linalg.norm(ee - self._left, axis=1)
        for w in np.flatnonzero(back & (away > 0.6 * _RETREAT_M) & (self._number + 1 < [len(s) for s in self._steps])):
            self._begin(int(w), int(self._number[w]) + 1, view)
        self._retry((mode == RETREAT) & back & (wait > _RETREAT_STEPS), "it is not where it was to be", view)
        self._retry(np.isin(mode, (APPROACH, CARRY)) & (wait > _STUCK_STEPS), "the way is blocked", view)

    def _enter(self, worlds: np.ndarray, mode: int, best: float | None = None) -> None:
        self.mode[worlds], self._wait[worlds] = mode, 0
        if best is not None:
            self._best[worlds] = best

    def _progress(self, worlds: np.ndarray, left: np.ndarray, least: np.ndarray | float) -> None:
        """Count the steps since what is ``left`` last became smaller by more than the least."""
        better = worlds & (left < self._best - least)
        self._best[better], self._wait[better] = left[better], 0

    def _let_go(self, worlds: np.ndarray, ee: np.ndarray, turn: np.ndarray) -> None:
        self._left[worlds], self._kept[worlds] = ee[worlds], turn[worlds]
        self._enter(worlds, RELEASE)

    def _load(self, w: int, view: WorldView, place: np.ndarray) -> None:
        """Find how high the load travels."""
        known, step = self._known[w], self._steps[w][int(self._number[w])]
        assert known is not None and isinstance(step, Put)
        self._travel(w, view, place, (known.spec.object_ids[step.target],))

    def _retry(self, worlds: np.ndarray, why: str, view: WorldView) -> None:
        for w in np.flatnonzero(worlds):
            self._attempt[w] += 1
            if self._attempt[w] >= self._settings.attempts:
                self.mode[w], self.cause[w] = FAILED, f"{GAVE_UP} {self._settings.attempts} attempts: {why}"
                continue
            self._choose(int(w), view)
