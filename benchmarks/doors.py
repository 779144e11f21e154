"""What the doors cost: ``python -m benchmarks.doors [--worlds=64] [--steps=60]``.

Control steps of all worlds a second by the raw simulator, by the plain functions and by the gymnasium environment, under the same random
actions and through as many ends of episodes, in one process. ``overhead`` is the share of CPU time that is not the simulator's stepping
and refilling. A table goes to stderr, one JSON object a line to stdout.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np
from absl import app, flags

from coda_jax import config as settings
from coda_jax import runtime

_WORLDS = flags.DEFINE_integer("worlds", 64, "Worlds stepped together.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 60, "Control steps timed.", lower_bound=1)
_HORIZON = flags.DEFINE_integer("horizon", 20, "Of an episode: every world begins anew after so many.", lower_bound=2)


def measure(step: Callable[[int], None], steps: int) -> tuple[float, float, float]:
    """Wall and CPU seconds of ``steps`` calls, after one round of episodes that compiles and settles; and that round's wall seconds."""
    began = time.perf_counter()
    for i in range(_HORIZON.value + 2):
        step(i)
    first = time.perf_counter() - began
    wall, cpu = time.perf_counter(), time.process_time()
    for i in range(steps):
        step(i)
    return time.perf_counter() - wall, time.process_time() - cpu, first


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]!r}")
    runtime.setup()
    from gymnasium.vector import AutoresetMode

    from coda_jax.doors.functions import Worlds, suite_scenes
    from coda_jax.doors.gym import SuiteVectorEnv
    from coda_jax.loop import parts
    from coda_jax.scenes.catalogue import Catalogue
    from coda_jax.sim.simulator import episode_of

    config, worlds, steps = settings.default(), _WORLDS.value, _STEPS.value
    config.sim.worlds, config.horizon.pick_place = worlds, _HORIZON.value
    scenes, catalogue = suite_scenes("pick_place", "id"), Catalogue.all()
    chosen = [scenes[w % len(scenes)] for w in range(worlds)]
    actions = np.random.default_rng(0).uniform(-1, 1, (16, worlds, 7)).astype(np.float32)

    sim = parts.simulator(config, catalogue, parts.common_bucket(list(scenes), catalogue))
    episodes = [episode_of(spec, _HORIZON.value, (0, 0)) for spec in chosen]
    batch = sim.compile(episodes)
    raw = {"batch": batch, "state": sim.reset(batch)}

    def raw_step(i: int) -> None:
        raw["state"], trace = sim.step_chunk(raw["batch"], raw["state"], actions[i % 16, :, None])
        ended = np.flatnonzero(np.asarray(trace.terminated) | np.asarray(trace.truncated) | (np.asarray(raw["state"].health) != 0)).tolist()
        if ended:
            raw["batch"], raw["state"] = sim.replace(raw["batch"], raw["state"], ended, [episodes[w] for w in ended])

    door = Worlds(scenes, worlds, config)
    held = {"state": door.place(chosen)[0]}

    def function_step(i: int) -> None:
        held["state"], _, _ = door.step(held["state"], actions[i % 16])
        ended = held["state"].ended
        if ended.any():
            held["state"], _ = door.restart(held["state"], ended, [chosen[w] for w in np.flatnonzero(ended)])

    env = SuiteVectorEnv(worlds, config=config, autoreset_mode=AutoresetMode.SAME_STEP)
    env.reset(seed=0)
    plans = {"simulator": raw_step, "functions": function_step, "gymnasium": lambda i: env.step(actions[i % 16])}
    found = {name: measure(step, steps) for name, step in plans.items()}
    peer = found["simulator"]
    for name, (wall, cpu, first) in found.items():
        record = {
            "name": f"doors_{name}",
            "value": round(worlds * steps / wall, 1),
            "unit": "control steps/s",
            "device": runtime.device_summary(),
            "substeps": 20,
            "worlds": worlds,
            "versions": runtime.versions(),
            "compile_s": round(first, 2),
            "per_cpu_s": round(worlds * steps / cpu, 1),
        }
        if name != "simulator":
            record |= {
                "peer": "the simulator alone",
                "peer_value": round(worlds * steps / peer[0], 1),
                "ratio": round(peer[0] / wall, 3),
                "overhead": round(1 - peer[1] / cpu, 3),
            }
        print(json.dumps(record), flush=True)
        print(
            f"{name:<10} {record['value']:>9} control steps/s, {record['per_cpu_s']:>9} per CPU-s, overhead {record.get('overhead', '-')}",
            file=sys.stderr,
        )


if __name__ == "__main__":
    app.run(main)
