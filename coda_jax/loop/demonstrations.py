"""Stage "demonstrations": the planner runs on training scenes until enough certified demonstrations are stored."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ConfigDict, NonNegativeInt, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.evaluation.terminal import Progress
from coda_jax.evaluation.wording import counted
from coda_jax.learning.dataset import Demonstration, check_demonstration
from coda_jax.loop import parts, recordings, supervisors
from coda_jax.loop.journal import Commit, file_sha256
from coda_jax.loop.run import Run
from coda_jax.loop.seed_scenes import SceneSource
from coda_jax.programs.refusal import first_error
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.demonstrate import Trajectory, demonstrate, success_by_category
from coda_jax.sim.observe import words_and_roles
from coda_jax.sim.recording import observed
from coda_jax.sim.simulator import Episode
from coda_jax.sim.supervision.batch import Tries
from coda_jax.sim.supervision.scene_tries import SceneTries
from coda_jax.sim.supervision.tally import Tally
from coda_jax.types import ACTION_DIM, WorldView

NAME = "demonstrations"
_JUDGED_AFTER, _LEAST_SUCCESS = 64, 0.1  # scenes after which a planner that solves a smaller share stops the run


class Orders(Tries):
    """Scenes for exactly ``wanted`` successes: another one is handed out for every scene that was given up, and none otherwise.

    A failure is tried again with a changed plan before its scene is given up. Unlike a plain iterator it goes on after it had nothing to
    hand out. Every scene that is begun is also finished, so that short episodes are not favoured.

    tries_of: the tries of a scene and its number. given_up: how many scenes were.
    """

    def __init__(
        self,
        source: SceneSource,
        first: int,
        wanted: int,
        horizon: Callable[[SceneSpec], int],
        tries_of: Callable[[SceneSpec, int], SceneTries],
    ):
        super().__init__((), horizon)
        self._source, self._tries_of = source, tries_of
        self.next, self._allowed, self.given_up = first, wanted, 0

    def __next__(self) -> Episode:
        if not self._waiting and self._allowed:
            self._allowed -= 1
            self.tries[self.next] = self._tries_of(self._source.get(self.next).spec, self.next)
            self._waiting.append((self.next, 0))
            self.next += 1
        return super().__next__()

    def ended(self, trajectory: Trajectory) -> Trajectory:
        """Note the end of a try; it comes back with the revisions that it took."""
        waiting = len(self._waiting)
        ended = super().ended(trajectory)
        if not trajectory.success and len(self._waiting) == waiting:
            self._allowed, self.given_up = self._allowed + 1, self.given_up + 1
        return ended


def to_demonstration(trajectory: Trajectory, catalogue: Catalogue) -> Demonstration:
    """What the policy learns from: fields of the observation, clean labels, words and the roles' tokens."""
    return Demonstration(
        observed(trajectory.views), trajectory.actions, trajectory.mask, *words_and_roles(trajectory.episode.spec, catalogue)
    )


def run(run: Run) -> dict[str, Any]:
    """Collect ``demos.count`` demonstrations, a commit for every wave; returns what the stage's row says."""
    config = run.config
    sim = parts.native_simulator(config, run.everything, parts.training_bucket(config, run.train))
    with SceneSource(run) as source, Progress(NAME, config.demos.count, "demos") as progress:
        progress.skip(run.state.demos)
        while run.state.demos < config.demos.count:
            _wave(run, sim, source, min(config.demos.wave, config.demos.count - run.state.demos), progress)
    for category, (k, n) in sorted(run.state.planner.items()):
        run.metrics.write("planner", category=category, k=k, n=n)
    for cause, n in sorted(run.state.causes.items()):
        run.metrics.write("planner_failure", cause=cause, n=n)
    tally = run.state.supervised
    run.metrics.write("supervised", stage=NAME, **tally.row())
    run.say("planner, first try, by category: " + ", ".join(f"{c} {k}/{n}" for c, (k, n) in sorted(run.state.planner.items())))
    run.say(f"of {counted(tally.scenes, 'scene')} the planner failed in {tally.failures()}")
    return {"done": run.state.demos, "unit": "demos"}


def _wave(run: Run, sim: Any, source: SceneSource, wanted: int, progress: Progress) -> None:
    config, state = run.config, run.state
    orders = Orders(source, state.used, wanted, parts.horizon_of(config), lambda spec, number: supervisors.tries_of(run, spec, 1, number))
    steps = sim.physics_steps
    finished: list[Trajectory] = []
    kept = 0
    planner = {name: list(counts) for name, counts in state.planner.items()}
    for trajectory in demonstrate(
        sim, run.everything, orders, parts.planner_of(config), parts.noise_of(config), config.seed, orders.parameters
    ):
        runtime.check_stop()  # what this wave did is done again
        finished.append(orders.ended(trajectory))
        kept += trajectory.success
        _judge(finished, kept, orders.given_up)
        solved = f"{100 * kept / max(kept + orders.given_up, 1):.0f} % of scenes"  # at the first try or after a revision
        progress.update(state.demos + kept, solved=solved)
    finished.sort(key=lambda t: t.episode.key)
    first = [t for t in finished if t.episode.key[1] == 0]  # what the planner does by itself
    for category, (k, n) in success_by_category(first, run.everything, len(settings.families(config)) > 1).items():
        before = planner.get(category, [0, 0])
        planner[category] = [before[0] + k, before[1] + n]
    causes = collections.Counter(state.causes) + collections.Counter(t.cause for t in first if not t.success)
    tally = state.supervised + Tally.of(orders.tries.values())
    changes = source.store()
    files = changes["files"]
    name = f"episodes/demos_{sum(n.startswith('episodes/demos_') for n in files):04d}.npz"
    store(run.folder / name, [t for t in finished if t.success], run.everything)
    files[name] = file_sha256(run.folder / name)
    steps = sim.physics_steps - steps
    run.charge(NAME, steps, len(finished))
    changes |= {"used": orders.next, "demos": state.demos + kept, "planner": planner, "causes": dict(causes)}
    changes["supervised"] = tally
    run.commit(**changes, sim_steps=state.sim_steps + steps)


def _judge(finished: list[Trajectory], kept: int, given_up: int) -> None:
    scenes = kept + given_up  # each after all of its tries
    if scenes >= _JUDGED_AFTER and kept < _LEAST_SUCCESS * scenes:
        causes = collections.Counter(t.cause for t in finished if not t.success).most_common(3)
        listed = "; ".join(f"{n} times {cause}" for cause, n in causes)
        raise InputError(f"the planner solved {kept} of {scenes} scenes ({listed}): check config.planner, config.noise and horizon")


@dataclasses.dataclass(frozen=True)
class Stored:
    """A demonstration as it is kept. executed: [t, 7] what was carried out, where the labels of ``demonstration`` are clean.

    views: the t + 1 moments (sim/recording.py). qpos: [t, q] after each step. revisions: of the planner's plan, after failures.
    """

    scene_id: str
    demonstration: Demonstration
    executed: np.ndarray
    views: WorldView
    qpos: np.ndarray
    revisions: int = 0


def file_of_round(round_number: int) -> str:
    """Where a round's certified demonstrations are, below the run's folder."""
    return f"episodes/demos_r{round_number:02d}.npz"


def store(path: Path, trajectories: list[Trajectory], catalogue: Catalogue) -> None:
    """One npz of a wave: time axes joined, one JSON row of words and roles per episode, generalised coordinates to render again."""
    demos = [to_demonstration(t, catalogue) for t in trajectories]
    arrays: dict[str, np.ndarray] = {"length": np.array([len(d.actions) for d in demos])}
    arrays |= recordings.packed([t.views for t in trajectories])
    arrays["actions"], arrays["mask"] = np.concatenate([d.actions for d in demos]), np.concatenate([d.mask for d in demos])
    arrays["executed"], arrays["qpos"] = (np.concatenate([getattr(t, name) for t in trajectories]) for name in ("executed", "qpos"))
    rows = [
        {"scene_id": t.episode.spec.scene_id, "names": d.names, "instruction": d.instruction, "roles": d.roles, "revisions": t.revisions}
        for t, d in zip(trajectories, demos, strict=True)
    ]
    arrays["rows"] = np.frombuffer(json.dumps(rows).encode(), np.uint8)
    recordings.write(path, arrays)


def load(folder: Path, state: Commit) -> list[Demonstration]:
    """Demonstrations of a commit, and successes of the policy itself to learn from, file by file.

    Raises:
      InputError: a file is not as ``store`` writes it; it is named with what is wrong.
    """
    names = sorted(n for n in state.files if n.startswith(("episodes/demos_", "episodes/own_")))
    return [stored.demonstration for name in names for stored in load_file(folder / name)]


def load_file(path: Path) -> list[Stored]:
    """What one file of demonstrations holds, in the order written.

    Raises:
      InputError: the file is not as ``store`` writes it; it is named with what is wrong.
    """
    try:
        return _unpacked(recordings.read(path))
    except recordings.UNREADABLE as error:
        remedy = "restore it from a copy, or begin anew in another --workdir"
        raise InputError(f"{path} is no file of demonstrations ({error}); {remedy}") from None


def _unpacked(arrays: dict[str, np.ndarray]) -> list[Stored]:
    found, rows, length = [], _checked(arrays), arrays["length"]
    every = zip(rows, np.cumsum(length), length, recordings.unpacked(arrays, length), strict=True)
    for i, (row, end, t, views) in enumerate(every):
        part = slice(end - t, end)
        demo = Demonstration(observed(views), arrays["actions"][part], arrays["mask"][part], row.names, row.instruction, row.roles)
        check_demonstration(i, demo)
        found.append(Stored(row.scene_id, demo, arrays["executed"][part], views, arrays["qpos"][part], row.revisions))
    return found


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class _Row:
    scene_id: str
    names: tuple[str | None, ...]
    instruction: str
    roles: tuple[int, ...]
    revisions: NonNegativeInt = 0


_ROWS: TypeAdapter[list[_Row]] = TypeAdapter(list[_Row])


def _checked(arrays: dict[str, np.ndarray]) -> list[_Row]:
    """The rows of a file whose arrays have the keys, kinds of numbers and lengths that belong together; ValueError where not."""
    kinds = {"actions": np.floating, "executed": np.floating, "qpos": np.floating}
    kinds |= {"length": np.signedinteger, "rows": np.uint8, "mask": np.bool_}
    if missing := sorted(kinds.keys() - arrays.keys()):
        raise ValueError(f"it lacks {', '.join(missing)}")
    for name, kind in kinds.items():
        if not np.issubdtype(arrays[name].dtype, kind):
            raise ValueError(f"{name} holds {arrays[name].dtype} where {kind.__name__} is needed")
    length = arrays["length"]
    if length.ndim != 1 or (length < 1).any():
        raise ValueError("length is no list of positive numbers of control steps")
    try:
        rows = _ROWS.validate_json(arrays["rows"].tobytes())
    except ValidationError as error:
        raise ValueError(f"rows: {first_error(error, '')}") from None
    n = int(length.sum())
    for name in ("actions", "executed", "mask", "qpos"):
        if arrays[name].ndim < 1 or len(arrays[name]) != n:
            raise ValueError(f"{name} has shape {arrays[name].shape}; {n} rows belong to its {len(length)} episodes")
    if arrays["executed"].shape != (n, ACTION_DIM) or not np.abs(arrays["executed"]).max(initial=0.0) <= 1.0:  # NaN fails too
        raise ValueError(f"executed must be {n} actions in [-1, 1]")
    if len(rows) != len(length):
        raise ValueError(f"it has {len(rows)} rows of words for {len(length)} episodes")
    return rows
