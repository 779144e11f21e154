"""What ``--dry_run`` expects of a run, beside what the run took: ``python -m benchmarks.estimate --run=runs/quickstart``.

Reads config.json, ledger.json and the evaluation's records of a finished run and prints one JSON object for each part, with seconds of wall
time and of CPU time. Where they differ on an idle machine, the rates in coda_jax/loop/estimate.py are due.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from absl import app, flags

from coda_jax import runtime

_RUN = flags.DEFINE_string("run", "runs/quickstart", "A finished run.")


def grouped(stages: dict[str, dict[str, float]], rounds: int) -> dict[str, dict[str, float]]:
    """Costs by the names of ``stage_seconds``: the rounds together."""
    from coda_jax.loop.estimate import rounds_together

    found: dict[str, dict[str, float]] = {}
    for name, cost in stages.items():
        own = found.setdefault(rounds_together(rounds) if name.startswith("round_") else name, {"wall_s": 0.0, "cpu_s": 0.0, "rollouts": 0})
        for key in own:
            own[key] += cost[key]
    return found


def compared(run: Path, cores: int) -> list[dict[str, Any]]:
    """One row for each part: name, estimated and measured seconds.

    Raises:
      InputError: the folder is no run.
    """
    from coda_jax.evaluation.records import read_records
    from coda_jax.loop import requirements
    from coda_jax.loop import workdir as folders
    from coda_jax.loop.estimate import stage_seconds
    from coda_jax.loop.ledger import Ledger

    config = folders.read_config(run)
    after = [r for r in read_records(run) if r.moment == "after"]
    films = 2 * config.evaluate.films * len({r.suite for r in after})
    expected = stage_seconds(config, len(after), films, requirements.products_of_a_chunk(config), cores)
    measured = grouped({name: vars(cost) for name, cost in Ledger(run).stages.items()}, config.rounds.count)
    return [{"name": name, "estimate_s": round(seconds, 1)} | measured.get(name, {}) for name, seconds in expected.items()]


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]!r}")
    runtime.setup()
    rows = compared(Path(_RUN.value), len(os.sched_getaffinity(0)))
    for row in rows:
        print(json.dumps(row | {"device": runtime.device_summary()}))
    total = {key: sum(row.get(key, 0.0) for row in rows) for key in ("estimate_s", "wall_s", "cpu_s")}
    print(json.dumps({"name": "total"} | {key: round(value, 1) for key, value in total.items()}))


if __name__ == "__main__":
    app.run(main)
