"""How many initial states of LIBERO's source tasks the planner certifies:

``python -m benchmarks.libero_planner [--suites=libero_object,libero_goal,libero_spatial] [--tasks=bowl] [--states=50] [--noise] [--out=F]``

For every task of the suites: the initial states that it solves within the suite's steps, steps of a demonstration, how the others failed,
and CPU time. One JSON object for each task goes to ``--out``; what stands there already is not measured again, so that a stopped run goes
on. ``--tables=F`` prints Markdown tables of such a file.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags

from benchmarks.libero_planner_tables import tables
from coda_jax import runtime

_SUITES = flags.DEFINE_list("suites", ["libero_object", "libero_goal", "libero_spatial"], "Suites.")
_TASKS = flags.DEFINE_string("tasks", "", "Only tasks with this in their name.")
_STATES = flags.DEFINE_integer("states", 50, "Initial states of each task.", lower_bound=1)
_FIRST = flags.DEFINE_integer("first", 0, "Number of the first one.", lower_bound=0)
_WORLDS = flags.DEFINE_integer("worlds", 10, "Worlds at a time.", lower_bound=1)
_SPEED = flags.DEFINE_float("speed", 1.0, "The planner's speed; LIBERO's episodes are short.")
_GAIN = flags.DEFINE_float("gain", 1.6, "The planner's gain.")
_ATTEMPTS = flags.DEFINE_integer("attempts", 3, "Grasps tried before a state is given up.", lower_bound=1)
_NOISE = flags.DEFINE_bool("noise", False, "Disturb executed actions as for demonstrations.")
_THREADS = flags.DEFINE_integer("threads", 1, "Threads of the simulator; 0 for one per core.")
_OUT = flags.DEFINE_string("out", "", "File of JSON lines that results are appended to; standard output if left out.")
_TABLES = flags.DEFINE_string("tables", "", "Print tables of this file and do nothing else.")


def measured(task: Any, numbers: list[int], noise: bool) -> dict[str, Any]:
    """Run the planner from initial states of one task."""
    from coda_jax import config as settings
    from coda_jax.scenes import catalogue
    from coda_jax.scenes.libero import importing, states, tasks
    from coda_jax.sim.demonstrate import NoiseSettings, demonstrate
    from coda_jax.sim.libero.simulator import LiberoSimulator
    from coda_jax.sim.planner import PlannerSettings
    from coda_jax.sim.simulator import episode_of

    config = settings.default()
    rows = states.read(task.init)
    horizon = tasks.STEPS[tasks.family_of(task.suite)]
    specs = [importing.initial_scene(task, n, n, rows) for n in numbers if n < len(rows)]
    episodes = [episode_of(spec, horizon, (n, 0)) for n, spec in zip(numbers, specs, strict=False)]
    chosen = PlannerSettings(_SPEED.value, _ATTEMPTS.value, _GAIN.value, 0)
    disturbed = NoiseSettings(**config.noise) if noise else None
    wall, cpu = time.perf_counter(), time.process_time()
    sim = LiberoSimulator(min(_WORLDS.value, len(episodes)), _THREADS.value)
    found = list(demonstrate(sim, catalogue.Catalogue("train"), episodes, chosen, disturbed, seed=0))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    solved = [t for t in found if t.success]
    steps = sorted(len(t.actions) for t in solved)
    return {
        "task": task.key,
        "noise": noise,
        "states": len(found),
        "solved": len(solved),
        "first_grasp": sum(t.attempts <= 1 for t in solved),
        "steps": [steps[0], int(np.median(steps)), steps[-1]] if steps else [],
        "horizon": horizon,
        "failed": {int(t.episode.key[0]): t.cause for t in found if not t.success},
        "clipped": max((float(np.abs(t.actions).max()) for t in found), default=0.0),
        "cpu_s": round(cpu, 1),
        "wall_s": round(wall, 1),
        "control_steps": sum(len(t.actions) for t in found),
        "speed": _SPEED.value,
        "gain": _GAIN.value,
    }


def main(argv: list[str]) -> None:
    del argv
    if _TABLES.value:
        print(tables([json.loads(line) for line in Path(_TABLES.value).read_text().splitlines() if line]))
        return
    runtime.setup()
    from coda_jax.scenes.libero import families, tasks

    families.add()
    out = Path(_OUT.value) if _OUT.value else None
    done = [json.loads(line) for line in out.read_text().splitlines() if line] if out and out.exists() else []
    have = {(r["task"], r["noise"]) for r in done}
    chosen = [t for suite in _SUITES.value for t in tasks.tasks(suite) if _TASKS.value in t.name and (t.key, _NOISE.value) not in have]
    for i, task in enumerate(chosen):
        row = measured(task, list(range(_FIRST.value, _FIRST.value + _STATES.value)), _NOISE.value)
        line = json.dumps(row)
        if out is None:
            print(line, flush=True)
        else:
            with out.open("a") as file:
                file.write(line + "\n")
        print(f"{i + 1}/{len(chosen)} {row['task']}: {row['solved']}/{row['states']} in {row['wall_s']} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    app.run(main)
