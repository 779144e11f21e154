"""Scripted LIBERO episodes for comparing simulators: ``python -m coda_jax.loop.libero_scripted --suites=libero_goal --states=2``.

The planner acts in the native simulator from initial states of a suite. Kept are the records (native.jsonl) and the actions (actions.npz),
which the official runner carries out again with the same fixtures; ``python -m coda_jax.loop.libero_tables`` compares both.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.runtime import InputError
from coda_jax.scenes.spec import SceneSpec

PLANNER = hashlib.sha256(b"planner").hexdigest()  # in place of a policy's fingerprint
NATIVE, ACTIONS = "native.jsonl", "actions.npz"
EXECUTED = 5  # actions of a chunk that the official runner carries out by default; open loop they give the same


def run(suites: Sequence[str], states_each: int, worlds: int, folder: Path) -> str:
    """Plan, carry out and keep the first ``states_each`` initial states of every task; returns one line about the outcome.

    Raises:
      InputError: a suite is unknown or of another family than the three that are simulated, has not so many states, or the package or
        a file of it is missing.
    """
    from coda_jax.evaluation.libero import records
    from coda_jax.evaluation.records import EvalRecord
    from coda_jax.evaluation.terminal import Progress
    from coda_jax.loop import libero_records, own_families, parts
    from coda_jax.scenes.catalogue import Catalogue
    from coda_jax.scenes.libero import importing, tasks
    from coda_jax.scenes.libero.suites import seed_of
    from coda_jax.sim.demonstrate import DIVERGED, demonstrate
    from coda_jax.sim.simulator import episode_of
    from coda_jax.types import HEALTH_NAN

    families = tuple(dict.fromkeys(tasks.family_of(suite) for suite in suites))
    if not set(families) <= set(tasks.FAMILIES):
        raise InputError(f"suites are of {', '.join(families)}; the native simulator has {', '.join(tasks.FAMILIES)}")
    config = settings.default()
    config.family = ",".join(families)
    config.sim.worlds, config.evaluate.executed = worlds, EXECUTED
    config.evaluate.suites = tuple(dict.fromkeys(tasks.perturbation_of(suite) for suite in suites))
    own_families.add(config)
    chosen = [task for suite in suites for task in tasks.tasks(suite)]
    keys = [(task, n) for task, n in itertools.product(chosen, range(states_each))]
    specs = [importing.initial_scene(task, n, seed_of(f"{task.key}@{n}")) for task, n in keys]
    catalogue, horizon = Catalogue.all(), parts.horizon_of(config)
    sim = parts.native_simulator(config, catalogue, parts.common_bucket(specs, catalogue))
    jobs = [episode_of(spec, horizon(spec), (i, 0)) for i, spec in enumerate(specs)]
    path, actions, k = folder / NATIVE, {}, 0
    path.unlink(missing_ok=True)
    with Progress("scripted episodes", len(jobs), "episodes") as progress:
        for trajectory in demonstrate(sim, catalogue, jobs, parts.planner_of(config), None, config.seed):
            task, _ = keys[trajectory.episode.key[0]]
            spec = trajectory.episode.spec
            done = EvalRecord(
                family=spec.task.family,
                suite=task.suite,
                split="test",
                moment="before",
                scene_id=spec.scene_id,
                seed=0,
                success=trajectory.success,
                steps=len(trajectory.actions),
                phase_failed=None,
                instruction=spec.task.instruction,
                health=HEALTH_NAN if trajectory.cause == DIVERGED else 0,
            )
            row = libero_records.episode(config, task.suite, spec, done, PLANNER)
            ends = trajectory.qpos[-1][: _coordinates(spec)]
            row = dataclasses.replace(row, observes="nothing", prompt_source="bddl", final_qpos=tuple(map(float, ends)))
            records.append(path, [row])
            actions[spec.spatial.layout] = np.asarray(trajectory.executed, np.float64)
            k += trajectory.success
            progress.advance(success=f"{k}/{len(actions)}")
    np.savez_compressed(folder / ACTIONS, **actions)
    return f"{k} of {len(actions)} scripted episodes succeed in the native simulator; records and actions are in {folder}"


def _coordinates(spec: SceneSpec) -> int:
    """Of the official model; traces are padded."""
    from coda_jax.scenes.libero import tasks
    from coda_jax.sim.libero import models

    return models.load(tasks.task(spec.spatial.layout)).model.nq


def main(arguments: list[str]) -> int:
    """Run one command line; the exit code is returned."""
    parser = argparse.ArgumentParser(
        prog="python -m coda_jax.loop.libero_scripted",
        description="Scripted LIBERO episodes in the native simulator, for the official one to carry out again.",
    )
    parser.add_argument("--suites", default="libero_object,libero_goal,libero_spatial", help="separated by commas [%(default)s]")
    parser.add_argument("--states", type=int, default=1, help="first initial states of each task [%(default)s]")
    parser.add_argument("--worlds", type=int, default=10, help="stepped together [%(default)s]")
    parser.add_argument("--out", type=Path, default=Path("runs/libero_scripted"), help="folder [%(default)s]")
    given = parser.parse_args(arguments)
    if given.states < 1 or given.worlds < 1:
        parser.error("--states and --worlds must be at least 1")
    runtime.setup()
    try:
        given.out.mkdir(parents=True, exist_ok=True)
        print(run(tuple(dict.fromkeys(name.strip() for name in given.suites.split(","))), given.states, given.worlds, given.out))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(
        f"next: third_party/libero_pro/.venv/bin/python third_party/libero_pro/runner.py --actions={given.out / ACTIONS} "
        f"--fixtures={given.out / NATIVE} --suites={given.suites} --out={given.out / 'official.jsonl'}\n"
        f"then: python -m coda_jax.loop.libero_tables {given.out / NATIVE} {given.out / 'official.jsonl'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
