"""What the sandbox costs: ``python -m benchmarks.sandbox [--programs=400]``.

Programs a second in the quickest of twenty rounds and the median of one program, through the whole door of each kind (verbs, program,
strict records) with one and with two workers, and of the interpreter alone with its worker confined and as it is; how long a worker takes
to start, confined and as it is; and what an endless program costs. One JSON object a line.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from absl import app, flags

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.loop import parts
from coda_jax.programs import confine
from coda_jax.programs import sandbox as sandbox_module
from coda_jax.programs.errors import ProgramError
from coda_jax.programs.sandbox import Sandbox
from coda_jax.programs.training.program import evaluate_training
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generation import evaluate_generation
from coda_jax.scenes.program import evaluate_scene

_PROGRAMS = flags.DEFINE_integer("programs", 400, "Programs timed for each row.", lower_bound=1)
_STARTS = flags.DEFINE_integer("starts", 10, "Starts timed for each way to start a worker.", lower_bound=1)

ROUNDS = 20  # of which the quickest counts: the neighbours on a shared machine come and go

SCENE = """
things = [thing("mug_1", asset="mug_00", at=(0.45, 0.1), role="target", colour="red"),
          thing("plate_1", category="plate", instance=1, at=(0.55, -0.1), role="reference")]
for i in range(2):
    things.append(thing("can_%d" % (i + 1), category="can", instance=i, at=(0.35 + 0.1 * i, 0.3)))
result = scene(instruction="put the red mug on the plate", objects=things, goal=on("mug_1", "plate_1"))
"""
GENERATION = """
result = generation(
    factor="spatial",
    roles=[role("target", affordance="graspable"), role("obstacle", kind="object")],
    relations=[relation("near", "obstacle", "target")],
    edits=[edit("approach_obstacle", low=0.2, high=1.0)],
    level=0.6,
)
"""
TRAINING = """
result = training(
    subgoal("near", done=at_most(distance("gripper", "target"), 0.05), progress=ramp(distance("gripper", "target"), 0.4, 0.02)),
    subgoal("lifted", done=at_least(lifted("target"), 0.05), progress=grasped("target")),
    subgoal("placed", done=success(), progress=success()),
    tools(demo_share=0.3),
)
"""


def report(name: str, value: float, unit: str, **more: object) -> None:
    row = {"name": name, "value": value, "unit": unit, **more, "device": runtime.device_summary(), "versions": runtime.versions()}
    print(json.dumps(row), flush=True)


def throughput(evaluate: Callable[[], object], workers: int) -> tuple[float, float]:
    """Programs a second in the quickest round, and the median seconds of one in all rounds, with as many threads as workers."""
    for _ in range(2 * workers):
        evaluate()
    seconds: list[float] = []

    def one(_: int) -> None:
        began = time.perf_counter()
        evaluate()
        seconds.append(time.perf_counter() - began)

    best, each = 0.0, max(1, _PROGRAMS.value // ROUNDS)
    with ThreadPoolExecutor(workers) as threads:
        for _ in range(ROUNDS):
            began = time.perf_counter()
            list(threads.map(one, range(each)))
            best = max(best, each / (time.perf_counter() - began))
    return best, statistics.median(seconds)


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]!r}")
    runtime.setup()
    limits = parts.limits_of(settings.default())
    catalogue = Catalogue("train")
    doors: dict[str, Callable[[Sandbox], object]] = {
        "scene": lambda box: evaluate_scene(SCENE, box, catalogue),
        "generation": lambda box: evaluate_generation(GENERATION, box, catalogue),
        "training": lambda box: evaluate_training(TRAINING, box),
        "bare": lambda box: box.evaluate("result = [1, 2, 3]"),
    }
    for workers in (1, 2):
        with Sandbox(limits, workers) as box:
            for kind, door in doors.items():
                rate, median_s = throughput(lambda door=door, box=box: door(box), workers)
                report(f"sandbox_{kind}_{workers}", round(rate, 1), "programs/s", median_ms=round(1e3 * median_s, 3), workers=workers)
    with Sandbox(limits) as box:
        box.evaluate("result = 1")
        confined = (box.layers_left_out, next((path for left, path in confine.launchers() if left == box.layers_left_out), None))
        began = time.perf_counter()
        try:
            box.evaluate("while True: pass")
        except ProgramError:
            report("sandbox_endless", round(time.perf_counter() - began, 3), "s", limit_s=limits.time_s)
    as_it_is = (",".join(confine.LAYERS), None)
    for name, settled in (("confined", confined), ("as_it_is", as_it_is)):
        sandbox_module._settled = settled
        seconds = []
        for _ in range(_STARTS.value):
            with Sandbox(limits) as box:
                began = time.perf_counter()
                box.evaluate("result = 1")
                seconds.append(time.perf_counter() - began)
        report(f"sandbox_start_{name}", round(1e3 * statistics.median(seconds), 1), "ms", left_out=settled[0])
        with Sandbox(limits) as box:
            rate, median_s = throughput(lambda box=box: doors["bare"](box), 1)
            report(f"sandbox_bare_{name}", round(rate, 1), "programs/s", median_ms=round(1e3 * median_s, 3))


if __name__ == "__main__":
    app.run(main)
