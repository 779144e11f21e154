"""The set of scenes: edited fresh training scenes that the clone solves now and then."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.improvement.plan import say
from coda_jax.agents.base import Trial
from coda_jax.evaluation.trials import by_scene
from coda_jax.loop import cloning
from coda_jax.loop.rounds.collect import random_variants
from coda_jax.loop.rounds.rollouts import Rollouts
from coda_jax.loop.rounds.variants import Base, Batch
from coda_jax.loop.run import Run
from coda_jax.loop.seed_scenes import SceneSource
from coda_jax.scenes.spec import from_json, to_json


def choose_scenes(run: Run, folder: Path, count: int) -> list[Base]:
    """The set: edited fresh training scenes that the clone solves once or twice in four rollouts, drawn once and kept in the folder."""
    path = folder / "scenes.jsonl"
    if path.exists():
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return [Base(row["number"], from_json(row["spec"])) for row in rows]
    chosen: list[Base] = []
    rollouts, first = Rollouts(run, cloning.trained(run).ema), run.state.used
    while len(chosen) < count:
        with SceneSource(run) as source:
            bases = [Base(first + i, source.get(first + i).spec) for i in range(count)]
        first += count
        variants = [Base(m.base.number, m.spec) for m in random_variants(run, bases, Batch(), "improvement", first)]
        trials = [Trial(b.spec, (b.number, repeat)) for b in variants for repeat in range(4)]
        with rollouts.runner("search", 900, len(trials), "scenes of the set") as rollout_fn:
            counts = by_scene(rollout_fn(trials))
        chosen += [b for b in variants if counts[b.number][0] in (1, 2)]
        say(f"{len(chosen)} of {count} scenes")
    chosen = chosen[:count]
    path.write_text("".join(json.dumps({"number": b.number, "spec": to_json(b.spec)}) + "\n" for b in chosen))
    return chosen
