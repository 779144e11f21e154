"""What LIBERO's surrogates change: the planner's episodes with the official shapes, with few primitives, and with these on MJX.

``python -m benchmarks.libero_surrogates --states=5 --out=F [--arms=official,few,replayed,mjx] [--suites=...] [--tasks=bowl] [--worlds=10]``

The planner acts closed loop in each arm, from the same initial states; ``replayed`` carries out in the surrogate, open loop, the
actions that succeeded with the official shapes. One JSON object for each arm and task goes to ``--out``, a suite at a time; what stands
there already is not measured again, so that a stopped run goes on. ``--speed`` measures physics steps per CPU second in place of
episodes. ``--tables=F`` prints Markdown tables of such files. MJX compiles for half a minute to minutes for each suite.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags

from benchmarks.libero_surrogate_tables import tables
from coda_jax import runtime

ARMS = ("official", "few", "replayed", "mjx")
_ARMS = flags.DEFINE_list("arms", list(ARMS), "Arms, of official, few, replayed, mjx.")
_SUITES = flags.DEFINE_list("suites", ["libero_object", "libero_goal", "libero_spatial"], "Suites.")
_TASKS = flags.DEFINE_string("tasks", "", "Only tasks with this in their name.")
_STATES = flags.DEFINE_integer("states", 5, "First initial states of each task.", lower_bound=1)
_WORLDS = flags.DEFINE_integer("worlds", 10, "Worlds at a time.", lower_bound=1)
_SPEED = flags.DEFINE_bool("speed", False, "Measure physics steps per CPU second instead.")
_STEPS = flags.DEFINE_integer("steps", 20, "Policy steps of a measurement of speed.", lower_bound=1)
_OUT = flags.DEFINE_string("out", "", "File of JSON lines that results are appended to; standard output if left out.")
_TABLES = flags.DEFINE_list("tables", [], "Print tables of these files and do nothing else.")


def simulator(arm: str, worlds: int) -> Any:
    from coda_jax.sim.libero.simulator import LiberoSimulator

    return LiberoSimulator(worlds, 1, few=arm in ("few", "replayed"), mjx=arm == "mjx")


def episodes_of(task: Any, count: int, number: int = 0) -> list[Any]:
    """Of the first initial states; their keys are (number, state)."""
    from coda_jax.scenes.libero import importing, states, tasks
    from coda_jax.sim.simulator import episode_of

    rows = states.read(task.init)
    specs = [importing.initial_scene(task, n, n, rows) for n in range(min(count, len(rows)))]
    return [episode_of(spec, tasks.STEPS[tasks.family_of(task.suite)], (number, n)) for n, spec in enumerate(specs)]


def planned(episodes: Sequence[Any], sim: Any) -> list[Any]:
    """Trajectories of the planner, in the order of the episodes."""
    from coda_jax.scenes.catalogue import Catalogue
    from coda_jax.sim.demonstrate import demonstrate
    from coda_jax.sim.planner import PlannerSettings

    found = demonstrate(sim, Catalogue("train"), episodes, PlannerSettings(1.0, 3, 1.6, 0), None, seed=0)
    return sorted(found, key=lambda t: t.episode.key)


def replayed(episodes: Sequence[Any], actions: Sequence[np.ndarray], sim: Any) -> list[bool]:
    """Whether each episode succeeds under actions [t, 7] that are given beforehand; what is left of the horizon does nothing."""
    from coda_jax.sim.libero.simulator import NO_COMMAND

    found = []
    for first in range(0, len(episodes), sim.worlds):
        own = slice(first, first + sim.worlds)
        batch = sim.compile(episodes[own])
        state, done = sim.reset(batch), np.zeros(sim.worlds, bool)
        length = max(len(a) for a in actions[own])
        chunk = np.tile(NO_COMMAND, (sim.worlds, length, 1))
        for w, a in enumerate(actions[own]):
            chunk[w, : len(a)] = a
        for t in range(length):
            state, trace = sim.step_chunk(batch, state, chunk[:, t : t + 1])
            done |= np.asarray(trace.terminated)
        found += list(done[: len(episodes[own])])
    return found


def measured(arm: str, chosen: Sequence[Any]) -> list[dict[str, Any]]:
    """One arm of tasks that share the worlds; a row for each task."""
    episodes = [e for number, task in enumerate(chosen) for e in episodes_of(task, _STATES.value, number)]
    sim = simulator(arm, min(_WORLDS.value, len(episodes)))
    if arm == "replayed":
        kept = [t for t in planned(episodes, simulator("official", sim.worlds)) if t.success]
        success = dict(zip([t.episode.key for t in kept], replayed([t.episode for t in kept], [t.actions for t in kept], sim), strict=True))
        causes: dict[Any, str] = {}
    else:
        found = planned(episodes, sim)
        success = {t.episode.key: t.success for t in found}
        causes = {t.episode.key: t.cause for t in found if not t.success}
    return [
        {
            "arm": arm,
            "task": task.key,
            "success": {state: bool(ok) for (own, state), ok in success.items() if own == number},
            "causes": {state: cause for (own, state), cause in causes.items() if own == number},
        }
        for number, task in enumerate(chosen)
    ]


def speed(arm: str, suite: str) -> dict[str, Any]:
    """Physics steps per CPU second of ``worlds`` worlds of a suite's first task, under random actions with the hand among the things."""
    from coda_jax.scenes.libero import tasks
    from coda_jax.sim.libero import models
    from coda_jax.sim.libero.control import SUBSTEPS
    from coda_jax.sim.libero.surrogates.model import surrogate

    episodes = episodes_of(tasks.tasks(suite)[0], _WORLDS.value)
    sim = simulator(arm, len(episodes))
    batch = sim.compile(episodes)
    began = time.perf_counter()
    state = sim.reset(batch)
    reset_s = time.perf_counter() - began
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (len(episodes), _STEPS.value + 1, 7))
    state, _ = sim.step_chunk(batch, state, actions[:, :1])
    wall, cpu = time.perf_counter(), time.process_time()
    state, trace = sim.step_chunk(batch, state, actions[:, 1:])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    count = int(np.asarray(trace.executed).sum()) * SUBSTEPS
    model = models.load(tasks.tasks(suite)[0]).model
    few = surrogate(models.load(tasks.tasks(suite)[0])).model
    return {
        "speed": arm,
        "suite": suite,
        "worlds": len(episodes),
        "geoms": [int(model.ngeom), int(few.ngeom)],
        "pairs": int(few.npair),
        "physics_steps_per_cpu_s": round(count / cpu),
        "physics_steps_per_s": round(count / wall),
        "first_reset_s": round(reset_s, 1),
    }


def told(rows: Sequence[dict[str, Any]]) -> str:
    if "speed" in rows[0]:
        return f"{rows[0]['physics_steps_per_cpu_s']} physics steps a CPU second"
    return f"{sum(sum(r['success'].values()) for r in rows)}/{sum(len(r['success']) for r in rows)}"


def main(argv: list[str]) -> None:
    del argv
    if _TABLES.value:
        print(tables([json.loads(line) for path in _TABLES.value for line in Path(path).read_text().splitlines() if line]))
        return
    if unknown := sorted(set(_ARMS.value) - set(ARMS)):
        raise app.UsageError(f"--arms has {', '.join(unknown)}: use some of {', '.join(ARMS)}")
    runtime.setup()
    from coda_jax.scenes.libero import families, tasks

    families.add()
    out = Path(_OUT.value) if _OUT.value else None
    done = [json.loads(line) for line in out.read_text().splitlines() if line] if out and out.exists() else []
    if _SPEED.value:
        have = {(r["speed"], r["suite"], r["worlds"]) for r in done if "speed" in r}
        arms = [a for a in _ARMS.value if a != "replayed"]
        work = [(a, s) for s in _SUITES.value for a in arms if (a, s, _WORLDS.value) not in have]
        jobs = [(f"{a} {s}", lambda a=a, s=s: [speed(a, s)]) for a, s in work]
    else:
        have = {(r["arm"], r["task"]) for r in done if "arm" in r}
        jobs = []
        for arm in _ARMS.value:
            for suite in _SUITES.value:
                chosen = [t for t in tasks.tasks(suite) if _TASKS.value in t.name and (arm, t.key) not in have]
                if chosen:
                    jobs.append((f"{arm} {suite}", lambda arm=arm, chosen=chosen: measured(arm, chosen)))
    began = time.perf_counter()
    for i, (label, job) in enumerate(jobs):
        rows = job()
        for row in rows:
            if out is None:
                print(json.dumps(row), flush=True)
            else:
                with out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        left = (time.perf_counter() - began) / (i + 1) * (len(jobs) - i - 1)
        print(f"{i + 1}/{len(jobs)} {label}: {told(rows)}, {left / 60:.0f} min left", file=sys.stderr, flush=True)


if __name__ == "__main__":
    app.run(main)
