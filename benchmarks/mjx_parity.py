"""Whether MJX judges episodes as native MuJoCo does: ``python -m benchmarks.mjx_parity --out=parity.jsonl [--family=pick_place]
[--bucket=f2g7] [--episodes=200] [--worlds=32] [--arms=twin,shaken,native,mjx]``

The scripted planner acts in the same scenes under several arms, closed loop in each: policies are closed loops too, and a recorded plan
replayed without looking measures how fast contacts forget their past, not whether a backend leans to one side.

twin: native MuJoCo with MJX's shapes, fingers and friction cone. shaken: the same with noise of a thousandth of an action unit, which says
how often verdicts differ between two runs of one simulator. native: the catalogue's own shapes, fingers and cone. mjx: float32.

Every episode is a line of ``--out``; what stands there is not simulated again. A table of equal verdicts goes to stderr, one JSON
object for each family, bucket and pair of arms to stdout.
"""

from __future__ import annotations

import collections
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from absl import app, flags

from coda_jax import config as settings
from coda_jax import runtime

ARMS = ("twin", "shaken", "native", "mjx")
PAIRS = (("twin", "mjx"), ("twin", "shaken"), ("native", "twin"), ("native", "mjx"))
_FAMILY = flags.DEFINE_list("family", [], "Families; all registered ones if left out.")
_BUCKET = flags.DEFINE_string("bucket", "", "MJX bucket of the scenes; every scene's own if left out.")
_EPISODES = flags.DEFINE_integer("episodes", 200, "Scenes of each family.", lower_bound=1)
_WORLDS = flags.DEFINE_integer("worlds", 32, "Worlds of a batch.", lower_bound=1)
_ARMS = flags.DEFINE_list("arms", list(ARMS), f"Of {', '.join(ARMS)}.")
_OUT = flags.DEFINE_string("out", None, "File of JSON lines, one an episode.", required=True)


def scenes(family: str, count: int, bucket: str) -> Iterator[tuple[int, Any, Any]]:
    """(seed, spec, MJX bucket) of the first ``count`` training scenes of a family, of one bucket where it is named."""
    from coda_jax.scenes.catalogue import Catalogue
    from coda_jax.scenes.generate import sample_spec
    from coda_jax.sim.compile import bucket_of
    from coda_jax.sim.mjx_buckets import declared

    train, found, seed = Catalogue("train"), 0, 0
    while found < count:
        spec = sample_spec(train, family, "id", "train", seed)
        mine = declared(bucket_of(spec, train))
        if bucket in ("", mine.name):
            found += 1
            yield seed, spec, mine
        seed += 1


def simulator(arm: str, bucket: Any, worlds: int) -> Any:
    """The backend of an arm."""
    from coda_jax.scenes.catalogue import Catalogue
    from coda_jax.sim import mjx_model
    from coda_jax.sim.mjx import MjxSimulator
    from coda_jax.sim.native import NativeSimulator

    everything = Catalogue.all()
    if arm == "mjx":
        return MjxSimulator(everything, bucket, worlds, chunk=1)
    if arm == "native":
        return NativeSimulator(everything, bucket, worlds, threads=1)
    return NativeSimulator(everything, bucket, worlds, threads=1, robot=mjx_model.ROBOT, build=mjx_model.compiled)


def judged(arm: str, family: str, bucket: Any, jobs: list[tuple[int, Any]], worlds: int) -> Iterator[list[dict[str, Any]]]:
    """Rows of episodes, a batch at a time: no world is refilled, for MJX settles all of them for each refill."""
    from coda_jax.loop import parts
    from coda_jax.sim.demonstrate import NoiseSettings, demonstrate
    from coda_jax.sim.simulator import episode_of

    config = settings.default()
    noise = NoiseSettings(action_std=1e-3, push_probability=0.0, push_steps=1, push_size=0.0) if arm == "shaken" else None
    sim = simulator(arm, bucket, worlds)
    for start in range(0, len(jobs), worlds):
        part, began = jobs[start : start + worlds], time.perf_counter()
        episodes = [episode_of(spec, parts.horizon_of(config)(spec), (seed, 0)) for seed, spec in part]
        rows = []
        for t in demonstrate(sim, sim.catalogue, episodes, parts.planner_of(config), noise, config.seed):
            row = {"family": family, "bucket": bucket.name, "seed": t.episode.key[0], "arm": arm}
            rows.append(row | {"success": t.success, "steps": len(t.actions), "cause": t.cause, "attempts": t.attempts})
        wall_s = round(time.perf_counter() - began, 1)
        print(f"{family} {bucket.name} {arm}: {sum(r['success'] for r in rows)} of {len(rows)} in {wall_s} s", file=sys.stderr, flush=True)
        yield rows


def summaries(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One object for each family and pair of arms, over the scenes that both have judged."""
    from coda_jax.evaluation.statistics import mcnemar, wilson

    verdicts: dict[str, dict[str, dict[tuple[str, int], bool]]] = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in rows:
        verdicts[row["family"]][row["arm"]][row["bucket"], row["seed"]] = row["success"]
    for family, arms in verdicts.items():
        for first, second in PAIRS:
            both = sorted(arms[first].keys() & arms[second].keys())
            if not both:
                continue
            table = collections.Counter((arms[first][k], arms[second][k]) for k in both)
            equal = table[True, True] + table[False, False]
            yield {
                "name": f"mjx_parity.{family}.{first}_{second}",
                "unit": "share of equal verdicts",
                "value": round(equal / len(both), 4),
                "interval": [round(x, 4) for x in wilson(equal, len(both))],
                "episodes": len(both),
                "both": table[True, True],
                "neither": table[False, False],
                f"only_{first}": table[True, False],
                f"only_{second}": table[False, True],
                "mcnemar_p": round(mcnemar(table[True, False], table[False, True]), 4),
                **runtime.versions(),
            }


def main(argv: list[str]) -> None:
    del argv
    if unknown := set(_ARMS.value) - set(ARMS):
        raise app.UsageError(f"--arms={', '.join(sorted(unknown))}: use of {', '.join(ARMS)}")
    runtime.setup()
    from coda_jax.scenes import families

    path = Path(_OUT.value)
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known = {(r["family"], r["bucket"], r["seed"], r["arm"]) for r in rows}
    for family in _FAMILY.value or families.names():
        jobs: dict[Any, list[tuple[int, Any]]] = collections.defaultdict(list)
        for seed, spec, bucket in scenes(family, _EPISODES.value, _BUCKET.value):
            jobs[bucket].append((seed, spec))
        for arm in _ARMS.value:
            for bucket, mine in sorted(jobs.items()):
                missing = [(seed, spec) for seed, spec in mine if (family, bucket.name, seed, arm) not in known]
                for fresh in judged(arm, family, bucket, missing, _WORLDS.value) if missing else ():
                    rows += fresh
                    with path.open("a") as out:
                        out.writelines(json.dumps(row) + "\n" for row in fresh)
    for summary in summaries(rows):
        differ = ", ".join(f"{k} {summary[k]}" for k in summary if k.startswith("only_"))
        print(
            f"{summary['name']:42s} {summary['value']:.3f} of {summary['episodes']} ({differ}; p = {summary['mcnemar_p']})", file=sys.stderr
        )
        print(json.dumps(summary))


if __name__ == "__main__":
    app.run(main)
