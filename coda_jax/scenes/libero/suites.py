"""The scenes of LIBERO that a run meets: source tasks drawn afresh for training, and the suites that it is evaluated on.

Each suite is there twice: asked for in the words of its task files, and "by_name" in those that runners make of the files' names, which
in the suites with other tasks are the words of the task that was there before. The split "test" of a suite is the package's own initial
states, in which the simulator starts exactly; "validation" are fresh draws from the regions of the same tasks, so that nothing is tuned on
the states that are reported. Tasks take turns, so that the first scenes of a suite are as many of each.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import zlib

import numpy as np

from coda_jax.runtime import InputError
from coda_jax.scenes.libero import importing, placing, states, tasks
from coda_jax.scenes.libero.importing import scene
from coda_jax.scenes.libero.tasks import Task
from coda_jax.scenes.spec import SceneSpec

PERTURBATIONS = ("standard", "pos", "task")  # of tasks.PERTURBATIONS: those that the paper evaluates on
BY_NAME = "_by_name"
SUITES = (*PERTURBATIONS, *(name + BY_NAME for name in PERTURBATIONS))
SPLITS = ("validation", "test")
DRAWS = 10  # validation scenes of each task


def seed_of(*parts: object) -> int:
    """A number that stands for its parts, the same on every machine."""
    return zlib.crc32("/".join(map(str, parts)).encode())


@functools.cache
def frozen(family: str, suite: str, split: str) -> tuple[SceneSpec, ...]:
    """The scenes of a suite of a family, task by task in turn.

    Raises:
      InputError: there is no such suite or split, or the package or a file of it is missing.
    """
    if suite not in SUITES:
        raise InputError(f"{family} has no suite {suite[:60]!r}: use one of {', '.join(SUITES)}")
    if split not in SPLITS:
        raise InputError(f"{family} has no split {split[:60]!r}: use {' or '.join(SPLITS)}")
    perturbation = suite.removesuffix(BY_NAME)
    found = _initial(family, perturbation) if split == "test" else _drawn(family, perturbation)
    return found if perturbation == suite else tuple(by_name(spec) for spec in found)


def by_name(spec: SceneSpec) -> SceneSpec:
    """The same scene, asked for in the words of its task file's name."""
    prompt = tasks.task(spec.spatial.layout).prompt_from_name
    return dataclasses.replace(spec, task=dataclasses.replace(spec.task, instruction=prompt))


@functools.cache
def _initial(family: str, suite: str) -> tuple[SceneSpec, ...]:
    return _in_turn([_states(task) for task in tasks.tasks(family + tasks.PERTURBATIONS[suite])])


def _states(task: Task) -> list[SceneSpec]:
    """Every initial state; fixtures, which a state does not hold, stand where a seed of its own puts them."""
    problem, rows, family = task.problem(), states.read(task.init), tasks.family_of(task.suite)
    keys = [f"{task.key}@{n}" for n in range(len(rows))]
    return [scene(problem, family, key, placing.from_state(problem, row, seed_of(key))) for key, row in zip(keys, rows, strict=True)]


@functools.cache
def _drawn(family: str, suite: str) -> tuple[SceneSpec, ...]:
    return _in_turn([_draws(task) for task in tasks.tasks(family + tasks.PERTURBATIONS[suite])])


def _draws(task: Task) -> list[SceneSpec]:
    """None for a task whose regions lie in one another: in libero_goal_swap the stove of one stands under its bowl and plate."""
    try:
        return [importing.task_scene(task, seed_of("validation", task.key, n)) for n in range(DRAWS)]
    except placing.NoDraw:
        return []


def _in_turn(of_tasks: list[list[SceneSpec]]) -> tuple[SceneSpec, ...]:
    rounds = itertools.zip_longest(*of_tasks)
    return tuple(spec for one in rounds for spec in one if spec is not None)


def seed_scene(family: str, seed: int) -> tuple[str, SceneSpec]:
    """The training scene of a seed, and which source task it was drawn from. Ten seeds in a row, or every second or third of more, take
    the tasks of the suite in turn."""
    every = tasks.tasks(family)
    task = every[(seed + seed // len(every)) % len(every)]
    drawn = int(np.random.SeedSequence([seed_of("train", task.key), seed]).generate_state(1)[0])
    return f"# drawn from {task.key}, seed {drawn}\n", importing.task_scene(task, drawn)
