"""Which share of careless scenes is mended, by check: ``python -m benchmarks.repairs [--scenes=400] [--mistakes=1] [--factors=spatial]``.

Of every family, drawn scenes with mistakes of a careless author (broken_scenes.py) are checked and mended, at most --repairs times, within
the factors allowed. For each check that a scene failed at first: how many scenes, and the share of them valid in the end. A table goes to
stderr, one JSON object a line to stdout.
"""

from __future__ import annotations

import collections
import json
import sys
import time

import numpy as np
from absl import app, flags

from benchmarks.broken_scenes import MISTAKES, broken
from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.loop import parts
from coda_jax.loop.mending import Checked, checked
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.scenes.spec import FACTORS
from coda_jax.sim.checks.record import CHECKS

_SCENES = flags.DEFINE_integer("scenes", 400, "Broken scenes of each family.", lower_bound=1)
_MISTAKES = flags.DEFINE_integer("mistakes", 1, "Mistakes in each.", lower_bound=1, upper_bound=len(MISTAKES))
_START = flags.DEFINE_integer("start", 0, "Seed of the first scene, and of the mistakes.", lower_bound=0)
_REPAIRS = flags.DEFINE_integer("repairs", -1, "Most attempts at a scene; engine.repairs if left out.")
_FACTORS = flags.DEFINE_list("factors", list(FACTORS), "Factors that may be changed.")
_FAMILIES = flags.DEFINE_list("families", list(settings.FAMILIES), "Families.")


def main(argv: list[str]) -> None:
    del argv
    runtime.setup()
    config, train = settings.default(), Catalogue("train")
    limits, engine = parts.validity_of(config), parts.engine_of(train)
    repairs = config.engine.repairs if _REPAIRS.value < 0 else _REPAIRS.value
    began, found = time.process_time(), []
    made: list[tuple[str, ...]] = []
    for family in _FAMILIES.value:
        rng = np.random.default_rng(_START.value)
        specs = []
        for seed in range(_START.value, _START.value + _SCENES.value):
            spec, mistakes = broken(sample_spec(train, family, "id", "train", seed), rng, _MISTAKES.value)
            specs.append(spec)
            made.append(mistakes)
        found += checked(specs, [_FACTORS.value] * len(specs), Catalogue.all(), train, limits, engine, repairs)
    total, first, after = len(found), sum(c.first.valid for c in found), sum(c.valid for c in found)
    print(f"{total} scenes: {first / total:.1%} valid at first, {after / total:.1%} after at most {repairs} repairs", file=sys.stderr)
    print("| check | scenes that failed it | mended | then failed |\n|---|---|---|---|", file=sys.stderr)
    rows = {"all": {"scenes": total, "first": first, "after": after}}
    for check in CHECKS:
        own = [c for c in found if any(f.check == check for f in c.first.failures)]
        if own:
            rows[check] = {"scenes": len(own), "mended": sum(c.valid for c in own)}
            print(f"| {check} | {len(own)} | {rows[check]['mended'] / len(own):.1%} | {_left(own)} |", file=sys.stderr)
    for mistake in MISTAKES:
        own = [c for c, names in zip(found, made, strict=True) if mistake in names]
        if own:
            print(f"{mistake:18} {sum(c.first.valid for c in own):4} {sum(c.valid for c in own):4} of {len(own)}", file=sys.stderr)
    print(f"{1000 * (time.process_time() - began) / total:.1f} ms of CPU a scene", file=sys.stderr)
    print(json.dumps({"name": "repairs", "value": rows, "unit": "scenes", "mistakes": _MISTAKES.value, "repairs": repairs}))


def _left(own: list[Checked]) -> str:
    counts = collections.Counter(c.report.failures[0].check for c in own if not c.valid)
    return ", ".join(f"{n} {check}" for check, n in counts.most_common())


if __name__ == "__main__":
    app.run(main)
