"""Evaluation rollouts on LIBERO's own initial states in the record format of the official runner (docs/libero.md)."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from coda_jax import config as settings
from coda_jax.evaluation.libero import records
from coda_jax.evaluation.libero.records import Episode
from coda_jax.evaluation.metrics import Moment
from coda_jax.evaluation.records import EvalRecord
from coda_jax.runtime import package_version
from coda_jax.scenes.libero import package, states, tasks, things
from coda_jax.scenes.libero.bddl import Problem
from coda_jax.scenes.libero.importing import model_of
from coda_jax.scenes.libero.suites import BY_NAME, seed_of
from coda_jax.scenes.spec import SceneSpec
from coda_jax.types import HEALTH_NAN

FOLDER = "libero"
_VERSIONS = ("coda_jax", "jax", "mujoco", "numpy", package.DISTRIBUTION)


def file_of(suite: str, moment: Moment) -> str:
    """Path of a suite's records, relative to the run folder."""
    return f"{FOLDER}/{moment}_{suite}.jsonl"


def fingerprint(*trees: Any, settings: str = "") -> str:
    """SHA-256 of everything in some trees of arrays, and of what else decides how they act."""
    digest = hashlib.sha256(settings.encode())
    for leaf in jax.tree.leaves(trees):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()


@functools.cache
def _versions() -> dict[str, str]:
    return {name: found for name in _VERSIONS if (found := package_version(name)) is not None}


@dataclasses.dataclass(frozen=True)
class _Files:
    """What a task's files hold. sha256: of the task file."""

    problem: Problem
    sha256: str
    states: np.ndarray


@functools.cache
def _files(task: tasks.Task) -> _Files:
    return _Files(task.problem(), hashlib.sha256(task.bddl.read_bytes()).hexdigest(), states.read(task.init))


def write(
    folder: Path, config: settings.Config, suite: str, moment: Moment, specs: Sequence[SceneSpec], done: Sequence[EvalRecord], policy: str
) -> Path | None:
    """Write the records of a suite; None where its scenes are no initial states. Of a scene's rollouts the first counts.

    Args:
      done: every rollout, scene by scene. policy: its fingerprint.
    """
    by_id = {spec.scene_id: spec for spec in specs}
    first = [(by_id[r.scene_id], r) for r in done if r.seed == 0]
    episodes = [episode(config, suite, spec, r, policy) for spec, r in first if tasks.state_index(spec.spatial.layout) is not None]
    if not episodes:
        return None
    path = folder / file_of(suite, moment)
    path.unlink(missing_ok=True)
    records.append(path, episodes)
    return path


def episode(config: settings.Config, suite: str, spec: SceneSpec, done: EvalRecord, policy: str) -> Episode:
    """One rollout that began in an initial state of a suite."""
    layout = spec.spatial.layout
    task, number = tasks.task(layout), tasks.state_index(layout)
    assert number is not None, "only initial states have a number"
    files = _files(task)
    alike = files.problem.language == task.prompt_from_name
    return Episode(
        format=records.FORMAT,
        stack="mjx" if config.sim.backend == "mjx" else "native",
        policy=policy,
        observes=config.obs,
        seed=config.seed,
        settle_steps=tasks.SETTLE_STEPS,
        replan_steps=config.evaluate.executed,
        most_steps=0,
        versions=_versions(),
        suite=task.suite,
        task=task.number,
        name=task.name,
        bddl_sha256=files.sha256,
        init_index=number,
        init_sha256=hashlib.sha256(np.ascontiguousarray(files.states[number], "<f8").tobytes()).hexdigest(),
        prompt=spec.task.instruction,
        prompt_source="both" if alike else "filename" if suite.endswith(BY_NAME) else "bddl",
        step_limit=settings.horizon(config, spec.task.family),
        fixture_seed=seed_of(layout),
        fixtures=_fixtures(spec, files.problem),
        steps=done.steps,
        decisions=math.ceil(done.steps / config.evaluate.executed),
        solved_by_settling=done.success and not done.steps,
        outcome="error" if done.health else "success" if done.success else "failure",
        error=None if not done.health else "NaN in the state" if done.health & HEALTH_NAN else "too many contacts",
        final_qpos=None,
        wall_s=0.0,
    )


def _fixtures(spec: SceneSpec, problem: Problem) -> dict[str, tuple[float, ...]]:
    """Position (m) and quaternion (wxyz) of every fixture's root, world frame."""
    origin, found = things.ARENAS[problem.name].origin_m, {}
    for thing in spec.attributes.objects:
        model, place = model_of(thing.asset), spec.placement(thing.object)
        if not model.free and model.category != things.DRAWER:
            root, quat = things.root_of(model, place.pos_m, place.yaw_rad)
            found[thing.object] = (*(float(a + b) for a, b in zip(root, origin, strict=True)), *quat)
    return found
