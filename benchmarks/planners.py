"""How many valid scenes of a family its planner certifies, by itself and under the supervisor:

``python -m benchmarks.planners [--families=put_inside] [--scenes=256] [--edits=0] [--each=1] [--noise] [--out=planners.jsonl]``

For every family: the share of drawn scenes that is valid, and of the valid ones the share solved in one try, after at most
``planner.revisions`` tries with plans that the supervisor changed, and, as control, after as many plain repeats with other noise; by
category of what is moved, what failed and the inspector's remarks, certified demonstrations a minute of wall and of CPU time. With
``--each=4`` also the share of scenes that give four demonstrations. ``--edits=3`` asks for harder scenes: three edits by random verbs of
magnitude 0.5 to 1. One JSON object for each family and setting goes to ``--out``; what stands there already is not measured again.
``--tables=planners.jsonl`` prints Markdown tables of such a file.
"""

from __future__ import annotations

import collections
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags

from benchmarks.planner_tables import family_of_row, tables
from coda_jax import config as settings
from coda_jax import runtime

_FAMILIES = flags.DEFINE_list("families", [], "Families; all registered ones if left out.")
_SCENES = flags.DEFINE_integer("scenes", 256, "Seed scenes drawn of each family.", lower_bound=1)
_START = flags.DEFINE_integer("start", 0, "Seed of the first one.", lower_bound=0)
_SUITE = flags.DEFINE_string("suite", "id", "Suite that the scenes are drawn for.")
_SPLIT = flags.DEFINE_string("split", "train", "Split of the suite: train (of id), validation or test.")
_EDITS = flags.DEFINE_integer("edits", 0, "Edits by random verbs that make each scene harder.", lower_bound=0)
_EACH = flags.DEFINE_integer("each", 1, "Demonstrations asked of each scene.", lower_bound=1)
_NOISE = flags.DEFINE_bool("noise", False, "Disturb executed actions as for demonstrations.")
_CONTROL = flags.DEFINE_bool("control", True, "Also measure plain repeats; without noise a repeat is what it was, so only with it.")
_OUT = flags.DEFINE_string("out", "", "File of JSON lines that results are appended to; standard output if left out.")
_TABLES = flags.DEFINE_string("tables", "", "Print tables of this file and do nothing else.")


def edited(spec: Any, seed: int, catalogue: Any, count: int) -> Any:
    """A scene after ``count`` edits by random verbs of magnitude 0.5 to 1, each of another factor where there are enough."""
    from coda_jax.scenes.edits.verbs import applied, verbs_of
    from coda_jax.scenes.spec import FACTORS

    rng = np.random.default_rng([seed, count])
    for n in range(count):
        factors = list(rng.permutation(list(FACTORS)))
        for name in rng.permutation(verbs_of((spec.task.family,), str(factors[n % len(factors)]))):
            found = applied(spec, str(name), catalogue, round(float(rng.uniform(0.5, 1.0)), 3), int(rng.integers(2**31)))
            if found is not None:
                spec = found[1]
                break
    return spec


def measure(family: str) -> dict[str, Any] | None:
    """One family in the setting of the flags; None where no scene is valid."""
    from coda_jax.loop import parts
    from coda_jax.scenes.catalogue import Catalogue
    from coda_jax.scenes.families import read_goal
    from coda_jax.scenes.generate import sample_spec
    from coda_jax.sim import validity
    from coda_jax.sim.supervision.batch import supervised
    from coda_jax.sim.supervision.inspector import ScriptedInspector
    from coda_jax.sim.supervision.plain import PlainRepeats
    from coda_jax.sim.supervision.scene_tries import SceneTries
    from coda_jax.sim.supervision.supervisor import ScriptedSupervisor

    config, everything = settings.default(), Catalogue.all()
    config.sim.threads = 1
    catalogue = Catalogue("train") if _SPLIT.value == "train" else everything
    revisions, each = int(config.planner.revisions), _EACH.value
    noise = parts.noise_of(config) if _NOISE.value else None
    seeds = range(_START.value, _START.value + _SCENES.value)
    drawn = [edited(sample_spec(catalogue, family, _SUITE.value, _SPLIT.value, i), i, catalogue, _EDITS.value) for i in seeds]
    reports = validity.check(drawn, everything, parts.validity_of(config))
    valid = [spec for spec, report in zip(drawn, reports, strict=True) if report.valid]
    if not valid:
        return None
    sim = parts.native_simulator(config, everything, parts.common_bucket(valid, everything))
    inspector = ScriptedInspector(everything)
    row: dict[str, Any] = {"name": f"planner.{family}", **_setting(), "drawn": len(drawn), "valid": len(valid)}
    row["refused"] = dict(collections.Counter(r.failures[0].check for r in reports if not r.valid))
    arms = {"supervised": ScriptedSupervisor(revisions)} | ({"plain": PlainRepeats()} if _controlled() else {})
    for arm, supervisor in arms.items():
        tries = [SceneTries(spec, each, revisions, inspector, supervisor) for spec in valid]
        began, cpu = time.perf_counter(), time.process_time()
        found = list(supervised(sim, everything, tries, parts.planner_of(config), noise, config.seed, parts.horizon_of(config)))
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        solved = [t for t in found if t.success]
        categories: dict[str, list[int]] = {}
        for own in tries:
            category = everything.get(own.spec.attribute(read_goal(own.spec).target).asset).category
            counts = categories.setdefault(category, [0, 0, 0])
            for i, counted in enumerate((own.solved_at == 0, own.solved_at is not None, True)):
                counts[i] += counted
        failed = [t for t in found if not t.success]
        row[arm] = {
            "first": sum(t.solved_at == 0 for t in tries),
            "solved": sum(t.solved_at is not None for t in tries),
            "all": sum(t.successes >= each for t in tries),
            "by_revision": dict(collections.Counter(str(t.solved_at) for t in tries)),
            "tries": len(found),
            "demonstrations": sum(min(t.successes, each) for t in tries),
            "a_minute": round(60 * len(solved) / wall_s, 1),
            "a_cpu_minute": round(60 * len(solved) / cpu_s, 1),
            "steps": round(sum(len(t.actions) for t in solved) / max(len(solved), 1), 1),
            "by_category": dict(sorted(categories.items())),
            "causes": dict(collections.Counter(t.cause for t in failed if t.episode.key[1] < each).most_common()),
            "remarks": dict(collections.Counter(k for t in tries for c in t.critiques for k in c.kinds).most_common()),
        }
    return row | {"revisions": revisions, "versions": runtime.versions()}


def _controlled() -> bool:
    return _NOISE.value and _CONTROL.value


def _setting() -> dict[str, Any]:
    flags_ = {"suite": _SUITE, "split": _SPLIT, "scenes": _SCENES, "start": _START, "edits": _EDITS, "each": _EACH, "noise": _NOISE}
    return {name: flag.value for name, flag in flags_.items()}


def _rows(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()] if path and Path(path).exists() else []


def main(argv: list[str]) -> None:
    del argv
    if _TABLES.value:
        print(tables(_rows(_TABLES.value)))
        return
    runtime.setup()
    from coda_jax.scenes import families

    wanted = _setting()
    done = {family_of_row(r) for r in _rows(_OUT.value) if {k: r[k] for k in wanted} == wanted and ("plain" in r or not _controlled())}
    for family in _FAMILIES.value or families.names():
        if family in done:
            continue
        row = measure(family)
        if row is None:
            print(f"{family}: no drawn scene is valid", file=sys.stderr)
            continue
        further = ", ".join(f"{arm} {row[arm]['solved']}" for arm in ("supervised", "plain") if arm in row)
        print(f"{family}: of {row['valid']} scenes {row['supervised']['first']} at first, after further tries: {further}", file=sys.stderr)
        if _OUT.value:
            with Path(_OUT.value).open("a") as file:
                file.write(json.dumps(row) + "\n")
        else:
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    app.run(main)
