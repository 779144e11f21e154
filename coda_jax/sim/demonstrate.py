"""Certified demonstrations: the planner runs in a fixed number of worlds, finished worlds are refilled, nu decides what is kept."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families import family_of
from coda_jax.sim import recording
from coda_jax.sim.planner import PlannerSettings
from coda_jax.sim.planners import Planners
from coda_jax.sim.refill import Refill
from coda_jax.sim.simulator import Episode, SceneBatch, Simulator
from coda_jax.sim.supervision.parameters import FIRST, PlanParameters
from coda_jax.types import ACTION_DIM, SimState, WorldView

_TURN = 0.3  # share of the noise on rotations: more of it twists cans out of the jaws
DIVERGED = "the simulation diverged"  # the cause of a try that ended so
_LINGER_STEPS = 3  # steps a failed world keeps running before it is refilled


@dataclasses.dataclass(frozen=True)
class NoiseSettings:
    """Disturbance of the executed action; labels stay clean.

    action_std: white noise on the six motion entries. push_probability: chance per step that a push starts. push_steps: its length in
    control steps. push_size: its length in action units.
    """

    action_std: float
    push_probability: float
    push_steps: int
    push_size: float


@dataclasses.dataclass(frozen=True)
class Trajectory:
    """One planner episode of ``t`` control steps: every moment, the clean labels, and how it ended.

    views: the t + 1 moments (recording.py). actions: [t, 7] labels. executed: [t, 7] float32, what was carried out, with the noise.
    mask: [t] bool, the label counts. qpos: [t, q] after each step. predicates: [t, p] float32, the episode's table after each step.
    skills: [t] str, what the planner was doing. cause: why it failed, empty where nu was met. parameters: of its plan. grasps: its
    parameter ``grasp`` asks for the same again after so many. revisions: of the plan after failures before it.
    """

    episode: Episode
    views: WorldView
    actions: np.ndarray
    executed: np.ndarray
    mask: np.ndarray
    qpos: np.ndarray
    predicates: np.ndarray
    skills: np.ndarray
    success: bool
    cause: str
    attempts: int
    parameters: PlanParameters = FIRST
    grasps: int = 1
    revisions: int = 0


def disturbance(settings: NoiseSettings, horizon: int, key: tuple[int, int], seed: int) -> np.ndarray:
    """Noise [horizon, 7] of one episode, a function of its key alone; the gripper entry is 0."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, *key]))
    noise = np.zeros((horizon, ACTION_DIM))
    noise[:, :6] = settings.action_std * rng.standard_normal((horizon, 6)) * (1, 1, 1, _TURN, _TURN, _TURN)
    starts = np.flatnonzero(rng.random(horizon) < settings.push_probability)
    for start in starts:
        direction = rng.standard_normal(3)
        noise[start : start + settings.push_steps, :3] += settings.push_size * direction / np.linalg.norm(direction)
    return noise


@dataclasses.dataclass(frozen=True)
class RecordedStep:
    """A control step of every world: the view before it, label, action carried out, whether the label counts, qpos and predicates after
    it, and what the planner was doing."""

    view: WorldView
    actions: np.ndarray
    executed: np.ndarray
    mask: np.ndarray
    qpos: np.ndarray
    predicates: np.ndarray
    skills: np.ndarray


SKILL = np.dtype("U16")  # the name of what a planner does
_SERIES = [f.name for f in dataclasses.fields(RecordedStep) if f.name != "view"]


class Recorder:
    """Remembers the views of running episodes once for the whole batch; episodes are cut out when they end."""

    def __init__(self, worlds: int):
        self._history: collections.deque[RecordedStep] = collections.deque()
        self._first = 0  # absolute number of the oldest step kept
        self._start = np.zeros(worlds, np.int64)

    def append(self, step: RecordedStep) -> None:
        self._history.append(step)

    def cut(self, world: int, last: WorldView) -> tuple[WorldView, dict[str, Any]]:
        """Moments (``last`` is the view after the last step) and, by name, everything else of the world's steps since its start; the world
        starts anew."""
        steps = [self._history[i] for i in range(int(self._start[world]) - self._first, len(self._history))]
        views = recording.of_world([*[step.view for step in steps], last], world)
        series = {name: np.stack([getattr(step, name)[world] for step in steps]) for name in _SERIES}
        self._start[world] = self._first + len(self._history)
        return views, series

    def forget(self, idle: np.ndarray) -> None:
        """Drop what no running world needs."""
        now = self._first + len(self._history)
        self._start[idle] = now
        while self._history and self._first < self._start.min():
            self._history.popleft()
            self._first += 1


def demonstrate(
    sim: Simulator,
    catalogue: Catalogue,
    episodes: Iterable[Episode],
    planner_settings: PlannerSettings,
    noise: NoiseSettings | None,
    seed: int,
    plan_of: Callable[[Episode], PlanParameters] | None = None,
) -> Iterator[Trajectory]:
    """Yield the trajectory of every episode, failures too, in the order in which they end.

    plan_of: the parameters of an episode's plan, asked when it begins; the planners' first choice without.

    The same episodes, settings and seed give the same trajectories at any thread count.
    """
    refill = Refill(sim, episodes)
    started = refill.start()
    if started is None:
        return
    batch, state, first = started
    planner = Planners(catalogue, sim.worlds, planner_settings)
    recorder = Recorder(sim.worlds)
    disturbances: list[np.ndarray | None] = [None] * sim.worlds
    chosen = [FIRST] * sim.worlds
    idle = np.zeros(sim.worlds, np.int64)  # steps since the planner gave up

    def begin(worlds: list[int], jobs: list[Episode]) -> None:
        for w, e in zip(worlds, jobs, strict=True):
            chosen[w] = plan_of(e) if plan_of else FIRST
        planner.restart(worlds, [e.spec for e in jobs], state.view, [chosen[w] for w in worlds])
        for w, e in zip(worlds, jobs, strict=True):
            disturbances[w] = disturbance(noise, e.horizon, e.key, seed) if noise else None
            idle[w] = 0

    begin(list(range(len(first))), first)
    while batch.mask.any():
        view = state.view
        clean = planner.act(view)
        executed = clean.copy()
        scale = planner_settings.speed * planner.tolerance(view)
        for w in np.flatnonzero(batch.mask & (scale > 0)):
            d = disturbances[w]
            if d is not None:
                executed[w] += scale[w] * d[min(int(view.control_step[w]), len(d) - 1)]
        counts = ~planner.failed
        skills = np.array([planner.mode_name(w) if active else "" for w, active in enumerate(batch.mask)], SKILL)
        executed = np.clip(executed, -1.0, 1.0).astype(np.float32)  # before it is carried out: the record repeats it bit for bit
        state, trace = sim.step_chunk(batch, state, executed[:, None])
        after = (np.asarray(trace.qpos[:, 0]), np.asarray(trace.predicates[:, 0], np.float32))
        recorder.append(RecordedStep(view, clean.astype(np.float32), executed, counts, *after, skills))
        idle[planner.failed] += 1
        ended = np.flatnonzero(batch.mask & (trace.terminated | trace.truncated | (state.health != 0) | (idle > _LINGER_STEPS)))
        if not len(ended):
            continue
        for w in ended:
            yield _finish(int(w), batch, state, planner, recorder, bool(trace.terminated[w]), chosen[w])
        batch, state, worlds, jobs = refill.replace(batch, state, ended)
        begin(worlds, jobs)
        recorder.forget(~batch.mask)


def _finish(
    w: int, batch: SceneBatch, state: SimState, planner: Planners, recorder: Recorder, success: bool, parameters: PlanParameters
) -> Trajectory:
    views, series = recorder.cut(w, state.view)
    episode = batch.episodes[w]
    assert episode is not None
    cause = "" if success else DIVERGED if state.health[w] else planner.cause_of(w) or f"ran out of time in {planner.mode_name(w)}"
    attempts, grasps = planner.attempts_of(w), planner.grasps_of(w)
    return Trajectory(episode, views, **series, success=success, cause=cause, attempts=attempts, parameters=parameters, grasps=grasps)


def success_by_category(trajectories: Iterable[Trajectory], catalogue: Catalogue, by_family: bool = False) -> dict[str, tuple[int, int]]:
    """(successes, episodes) by what scenes count as: the category of what is moved first, e.g. "mug"; ``by_family``: "put_inside mug"."""
    counts: dict[str, list[int]] = {}
    for t in trajectories:
        family = family_of(t.episode.spec)
        category = family.counted_as(t.episode.spec, catalogue)
        k = counts.setdefault(f"{family.name} {category}" if by_family else category, [0, 0])
        k[0] += t.success
        k[1] += 1
    return {name: (k, n) for name, (k, n) in sorted(counts.items())}
