"""The suites of LIBERO and LIBERO-Pro and their tasks, in the package's own order."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from coda_jax.runtime import InputError
from coda_jax.scenes.libero import bddl, package
from coda_jax.scenes.libero.bddl import BddlError, Problem

FAMILIES = ("libero_object", "libero_goal", "libero_spatial")  # whose scenes are co-evolved
BENCHMARKS = (*FAMILIES, "libero_10")
PERTURBATIONS = {"standard": "", "pos": "_swap", "task": "_task", "object": "_object", "lan": "_lan"}  # to the ending of the suite's name
SUITES = tuple(b + ending for b in BENCHMARKS for ending in PERTURBATIONS.values())
STEPS = {"libero_spatial": 220, "libero_object": 280, "libero_goal": 300, "libero_10": 520}  # policy steps of an official episode, at 20 Hz
SETTLE_STEPS = 10  # steps without a command that come before them
TASKS = 10  # of a suite

_SCENE = re.compile(r"^[A-Z_]+SCENE\d+_")


@dataclasses.dataclass(frozen=True)
class Task:
    """One task of a suite. number: in the package's order, from 0. bddl, init: its files, which may be missing until they are read."""

    suite: str
    number: int
    name: str
    bddl: Path
    init: Path

    @property
    def key(self) -> str:
        """Suite and name, as a scene's layout says it."""
        return f"{self.suite}/{self.name}"

    @property
    def prompt_from_name(self) -> str:
        """The instruction as runners make it from the file's name; in some suites another than the file's own."""
        return _SCENE.sub("", self.name).replace("_", " ")

    def problem(self) -> Problem:
        """The task as its file says it. Raises BddlError: the file is missing or damaged; says how to get it back."""
        try:
            return bddl.read(self.bddl)
        except BddlError as error:
            raise BddlError(f"{error}; to have the package's file again: {package.REINSTALL}") from error


def family_of(suite: str) -> str:
    """The benchmark a suite belongs to. Raises InputError for an unknown suite."""
    _known(suite)
    return next(b for b in BENCHMARKS if suite.startswith(b))


def perturbation_of(suite: str) -> str:
    """Which of PERTURBATIONS a suite is. Raises InputError for an unknown suite."""
    ending = suite.removeprefix(family_of(suite))
    return next(k for k, e in PERTURBATIONS.items() if e == ending)


def _known(suite: str) -> None:
    if suite not in SUITES:
        raise InputError(f"unknown LIBERO suite {suite[:60]!r}: use one of {', '.join(SUITES)}")


def tasks(suite: str, found: package.Package | None = None) -> tuple[Task, ...]:
    """The tasks of a suite in the package's order.

    Args:
      found: the package's folders; None for the installed one.

    Raises:
      InputError: the suite is unknown, or the package is missing or lists none of its tasks.
    """
    _known(suite)
    found = found or package.find()
    names = package.task_names(found.task_map).get(suite, ())
    if len(names) != TASKS or any(not re.fullmatch(r"[A-Za-z0-9_]{1,200}", n) for n in names):
        raise InputError(f"the package lists {len(names)} tasks of {suite}, not {TASKS}: install it again: {package.REINSTALL}")
    return tuple(
        Task(suite, i, n, found.bddl / suite / f"{n}.bddl", found.init / suite / f"{n}.pruned_init.npz") for i, n in enumerate(names)
    )


def task(key: str, found: package.Package | None = None) -> Task:
    """The task of a key "suite/name", with or without the "@17" of an initial state.

    Raises:
      InputError: no suite has such a task.
    """
    suite, _, name = key.partition("@")[0].partition("/")
    listed = tasks(suite, found)
    for candidate in listed:
        if candidate.name == name:
            return candidate
    raise InputError(f"suite {suite} has no task {name[:80]!r}: it has {', '.join(t.name for t in listed)}")


def state_index(key: str) -> int | None:
    """Number of the suite's initial state in a layout such as "libero_goal/turn_on_the_stove@17", None without one.

    Raises:
      InputError: what follows the @ is no number.
    """
    _, at, number = key.partition("@")
    if not at:
        return None
    if not re.fullmatch(r"[0-9]{1,6}", number):
        raise InputError(f"layout {key[:120]!r}: write the number of an initial state after @")
    return int(number)
