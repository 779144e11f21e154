"""The native LIBERO simulator beside the official environment: ``python -m benchmarks.libero [--parts=parity,predicates,steps] [--out=F]``

Needs the extra ``libero`` and one core. ``parity_*``: largest difference of a coordinate over 100 policy steps of random actions with
contact. ``predicates``: checks of single predicates that differ, each policy step begun at the official state, over --episodes episodes.
``steps_*``: policy steps a CPU-second, with the official environment as the peer, and beside 25 mj_steps alone on the same states. A table
goes to stderr, one JSON object a line to stdout or ``--out``.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from absl import app, flags

from coda_jax import runtime

_PARTS = flags.DEFINE_list("parts", ["parity", "predicates", "steps"], "What to measure.")
_EPISODES = flags.DEFINE_integer("episodes", 200, "Episodes of the predicates' comparison.", lower_bound=5)
_SEEDS = flags.DEFINE_integer("seeds", 1, "Episodes of each task in the states' comparison.", lower_bound=1)
_MOTION = flags.DEFINE_float("motion", 1.0, "Largest action of the states' comparison.", lower_bound=0.0, upper_bound=1.0)
_WORLDS = flags.DEFINE_integer("worlds", 40, "Worlds of the native simulator.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 60, "Official policy steps of each round.", lower_bound=1)
_OUT = flags.DEFINE_string("out", "", "File of JSON lines that results are appended to.")


def _parity() -> Iterator[tuple[dict[str, Any], str]]:
    from benchmarks.libero import parity

    for seed in range(_SEEDS.value):
        for suite, number in parity.TASKS:
            p = parity.compare(suite, number, seed, motion=_MOTION.value)
            said = f"{p.worst:.1e} apart, official against itself {p.own:.1e}, one step {p.step:.1e}, robot touches in {p.contacts} steps"
            record = {"name": f"parity_{suite}_{number}_{seed}", "value": p.worst, "unit": "m or rad", "worlds": 1, "peer_value": p.own}
            yield (
                record
                | {
                    "peer": "the official environment from a start 1e-15 rad away",
                    "step": p.step,
                    "contacts": p.contacts,
                    "motion": _MOTION.value,
                },
                said,
            )


def _predicates() -> Iterator[tuple[dict[str, Any], str]]:
    from benchmarks.libero import predicates

    tally = predicates.Tally()
    for i, (suite, number) in enumerate(predicates.TASKS):
        share = _EPISODES.value // len(predicates.TASKS) + (i < _EPISODES.value % len(predicates.TASKS))
        predicates.compare(suite, number, share, 0, tally)
        print(f"{suite} {number}: {tally.episodes} episodes, {tally.unequal} of {tally.checks} unequal", file=sys.stderr, flush=True)
    print("\n".join(tally.wrong), file=sys.stderr)
    fields = {f.name: getattr(tally, f.name) for f in dataclasses.fields(tally) if f.name != "wrong"}
    kinds = ", ".join(f"{k} {tally.kinds[k]} ({tally.changed[k]})" for k in sorted(tally.held))
    said = f"unequal of {tally.checks:,} in {tally.steps:,} steps; episodes in which they held, and changes: {kinds}"
    yield {"name": "predicates", "value": tally.unequal, "unit": "checks", "worlds": 1} | fields, said


def _steps() -> Iterator[tuple[dict[str, Any], str]]:
    from benchmarks.libero import steps
    from coda_jax.scenes.libero import tasks

    for suite in tasks.FAMILIES:
        r = steps.measure(suite, _WORLDS.value, _STEPS.value)
        record = {"name": f"steps_{suite}", "value": round(1e3 / r.native, 1), "unit": "policy steps/CPU-s", "worlds": _WORLDS.value}
        record |= {"compile_s": round(r.compile_s, 1), "peer": "official env.step, state only", "peer_value": round(1e3 / r.official, 1)}
        record |= {"ratio": round(r.official / r.native, 2), "of_bare": round(r.bare / r.native, 3), "tasks": r.tasks}
        said = f"{r.native:.2f} ms, official {r.official:.2f} ({record['ratio']} times), 25 mj_steps {r.bare:.2f} ({record['of_bare']:.0%})"
        yield record | {"ms": dataclasses.asdict(r)}, said


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]!r}")
    parts = {"parity": _parity, "predicates": _predicates, "steps": _steps}
    if unknown := [p for p in _PARTS.value if p not in parts]:
        raise app.UsageError(f"unknown part {unknown[0]!r}: use {', '.join(parts)}")
    runtime.setup()
    for part in _PARTS.value:
        for record, said in parts[part]():
            whole = record | {"device": runtime.device_summary(), "substeps": 25, "versions": runtime.versions()}
            line = json.dumps(whole, default=float)
            if _OUT.value:
                with Path(_OUT.value).open("a") as file:
                    file.write(line + "\n")
            else:
                print(line, flush=True)
            print(f"{record['name']:<28} {record['value']:>12.6g} {record['unit']}: {said}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    app.run(main)
