"""Scene programs a second and core, from text to a simulator batch: ``python -m benchmarks.scenes [--programs=256]``.

For every family, texts of drawn scenes go through the sandbox, the refusal of held-out content, every physical check (one second of
settling included) and into batches of the native simulator, on one thread. Told are programs a second of CPU time (this process and the
sandbox's worker) and of wall time, and each stage's share. What is compiled once (executables, templates) is built before. A table goes to
stderr, one JSON object a line to stdout.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from absl import app, flags

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.loop import parts
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample
from coda_jax.scenes.leakage import refuse_held_out
from coda_jax.scenes.program import evaluate_scene
from coda_jax.sim import validity
from coda_jax.sim.simulator import episode_of

_PROGRAMS = flags.DEFINE_integer("programs", 256, "Programs of each family.", lower_bound=1)
_FAMILIES = flags.DEFINE_list("families", list(settings.FAMILIES), "Families.")
_START = flags.DEFINE_integer("start", 0, "Seed of the first scene.")
STAGES: tuple[str, ...] = ("sandbox", "held-out refusal", "validity", "batch")


def _children_s() -> float:
    """CPU time of child processes, those that ended (a worker may be replaced) and the living, s."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = ended.ru_utime + ended.ru_stime
    for task in Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text().split():
            fields = (Path("/proc") / pid / "stat").read_text().rsplit(")", 1)[1].split()
            found += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


class Clock:
    """CPU and wall time of each stage, s."""

    def __init__(self) -> None:
        self.cpu, self.wall = dict.fromkeys(STAGES, 0.0), dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        cpu, wall = time.process_time() + _children_s(), time.perf_counter()
        yield
        self.cpu[name] += time.process_time() + _children_s() - cpu
        self.wall[name] += time.perf_counter() - wall


def measured(texts: list[str], family: str, config: settings.Config, sandbox: Sandbox) -> tuple[Clock, int]:
    """Times of all stages over the programs of a family, and how many were valid."""
    clock, train, everything = Clock(), Catalogue("train"), Catalogue.all()
    limits = dataclasses.replace(parts.validity_of(config), threads=1)
    with clock.stage("sandbox"):
        specs = [evaluate_scene(text, sandbox, train) for text in texts]
    with clock.stage("held-out refusal"):
        for spec in specs:
            refuse_held_out(spec, train)
    with clock.stage("validity"):
        reports = validity.check(specs, everything, limits)
    valid = [spec for spec, report in zip(specs, reports, strict=True) if report.valid]
    with clock.stage("batch"):
        sim = parts.native_simulator(config, everything, parts.common_bucket(valid, everything))
        for first in range(0, len(valid), sim.worlds):
            some = valid[first : first + sim.worlds]
            sim.compile([episode_of(spec, settings.horizon(config, family), (first + i, 0)) for i, spec in enumerate(some)])
    return clock, len(valid)


def main(argv: list[str]) -> None:
    del argv
    runtime.setup()
    config, train = settings.default(), Catalogue("train")
    config.sim.threads = 1
    n = _PROGRAMS.value
    print(
        f"{'family':14}{'valid':>6}{'/s of CPU':>11}{'/s of wall':>11}" + "".join(f"{s:>18}" for s in STAGES) + "  (ms of CPU)",
        file=sys.stderr,
    )
    with Sandbox(parts.limits_of(config)) as sandbox:
        for family in _FAMILIES.value:
            texts = [sample(train, family, "id", "train", _START.value + i) for i in range(n)]
            measured(texts[: 2 * config.sim.worlds], family, config, sandbox)  # executables, templates, caches of assets
            clock, valid = measured(texts, family, config, sandbox)
            cpu, wall = n / sum(clock.cpu.values()), n / sum(clock.wall.values())
            stages = {name: 1000 * clock.cpu[name] / n for name in STAGES}
            shown = "".join(f"{ms:>18.2f}" for ms in stages.values())
            print(f"{family:14}{valid:>6}{cpu:>11.1f}{wall:>11.1f}{shown}", file=sys.stderr)
            row = {
                "name": f"scene_programs.{family}",
                "value": round(cpu, 1),
                "unit": "programs / s of CPU",
                "per_s_of_wall": round(wall, 1),
            }
            row |= {"stages_ms": {k: round(v, 3) for k, v in stages.items()}, "programs": n, "valid": valid, "versions": runtime.versions()}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    app.run(main)
