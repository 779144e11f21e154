"""What demonstrations and each part of the recipe give: ``python -m benchmarks.cloning [--folder=runs/cloning] [--seeds=3]``.

Clones are trained as the main job trains them and rolled out on the frozen validation suites. Every result is a line of
``results.jsonl`` in the folder; a second start skips what is there. Tables go to stdout, progress to stderr. ``--tables`` only prints.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from absl import app, flags, logging

from coda_jax import config as settings
from coda_jax import runtime

_FOLDER = flags.DEFINE_string("folder", "runs/cloning", "Where demonstrations, film strips and results are kept.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Repeats, each with demonstrations and a training of its own.", lower_bound=1)
_COUNTS = flags.DEFINE_list("counts", ["100", "300", "1000"], "Demonstrations of the curve.")
_ROLLOUTS = flags.DEFINE_integer("rollouts", 2, "Rollouts of each suite scene.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 0, "Updates of a clone, 0 for the default.", lower_bound=0)
_TABLES = flags.DEFINE_bool("tables", False, "Print the tables of the results that are there and stop.")

HELD_OUT = tuple(s for s in settings.SUITES if s != "id")
RECIPE_COUNT = 300  # demonstrations of the leave-one-out table
# what is left out: settings that differ from the default
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "no noise in demonstrations": {"noise.action_std": 0.0, "noise.push_probability": 0.0},
    "demonstrations at normal speed": {"planner.speed": 1.0},
    "no yaw-frame features": {"policy.yaw_frame": False},
    "no multi-scale features": {"policy.multi_scale": False},
    "chunks not cumulative": {"policy.cumulative": False},
    "no distractor dropout": {"policy.distractor_dropout": 0.0},
    "no grounding loss": {"policy.grounding_weight": 0.0, "clone.language_batch": 0},
    "no instructions without scenes": {"clone.language_batch": 0},
    "soft attention": {"policy.hard_attention": False},
    "roles given away": {"policy.given_roles": True},
}
_DEMO_SETTINGS = ("noise.", "planner.")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One clone and the ways it is rolled out: (suite, executed actions) pairs."""

    variant: str
    count: int
    seed: int
    rollouts: tuple[tuple[str, int], ...]

    def key(self, suite: str, executed: int) -> str:
        return f"{self.variant}/{self.count}/{self.seed}/{suite}/{executed}"


def plan(counts: list[int], seeds: int) -> Iterator[Cell]:
    """The cells, seed by seed so that an early stop leaves whole repeats; the largest clone of each seed meets every suite."""
    default = settings.default().evaluate.executed
    lengths = sorted({2, default, 8})
    for seed in range(seeds):
        for count in sorted({*counts, RECIPE_COUNT}):
            suites = [("id", e) for e in (lengths if count == RECIPE_COUNT else [default])]
            suites += [(s, default) for s in HELD_OUT if count == max(counts)]
            yield Cell("default", count, seed, tuple(suites))
        for variant in VARIANTS:
            if variant != "default":
                yield Cell(variant, RECIPE_COUNT, seed, (("id", default),))


def configured(variant: str, count: int, seed: int) -> settings.Config:
    """The default configuration with one variant, count and seed."""
    config = settings.default()
    for path, value in VARIANTS[variant].items():
        settings.override(config, path, str(value))
    config.seed, config.demos.count, config.evaluate.seeds, config.evaluate.films = seed, count, _ROLLOUTS.value, 4
    if _STEPS.value:
        config.clone.steps = _STEPS.value
    settings.validate(config)
    return config


class Bench:
    """Demonstrations, clones and rollouts of one results folder."""

    def __init__(self, folder: Path):
        from coda_jax.loop import parts
        from coda_jax.scenes.catalogue import Catalogue

        self.folder, self.results = folder, folder / "results.jsonl"
        self.train, self.everything = Catalogue("train"), Catalogue.all()
        self.encoder = parts.encoder_of()

    def demonstrations(self, cell: Cell, most: int) -> list:
        """The first ``cell.count`` demonstrations of a collection that is shared by every cell of its recipe and seed."""
        from coda_jax.loop import demonstrations, seed_scenes, workdir
        from coda_jax.loop.run import opened

        changed = {k: v for k, v in VARIANTS[cell.variant].items() if k.startswith(_DEMO_SETTINGS)}
        recipe = next(name for name, values in VARIANTS.items() if values == changed)
        config = configured(recipe, most if recipe == "default" else RECIPE_COUNT, cell.seed)
        folder = self.folder / "demonstrations" / f"{_slug(recipe)}_{cell.seed}"
        with workdir.open_run(folder, config), opened(config, folder) as run:
            if run.state.demos < config.demos.count:
                seed_scenes.run(run)
                demonstrations.run(run)
            return demonstrations.load(folder, run.state)[: cell.count]

    def measure(self, cell: Cell, most: int, done: Mapping[str, Any]) -> None:
        """Train the cell's clone and append a result for each of its rollouts that is not there yet."""
        from coda_jax.evaluation.terminal import Progress
        from coda_jax.learning import clone
        from coda_jax.loop import cloning, evaluation, parts

        wanted = [(s, e) for s, e in cell.rollouts if cell.key(s, e) not in done]
        if not wanted:
            return
        config = configured(cell.variant, cell.count, cell.seed)
        policy, training = parts.policy_of(config), parts.training_of(config)
        data = cloning.dataset(config, self.demonstrations(cell, most), self.encoder)
        words = cloning.language(config, self.train, self.encoder)
        began = time.monotonic()
        with Progress(f"{cell.variant}, {cell.count} demonstrations, seed {cell.seed}", training.steps, "updates") as progress:
            state = clone.clone(policy, training, data, words, cell.seed, progress=lambda p: progress.update(p.step, loss=p.motor_loss))
        train_s = time.monotonic() - began
        scenes = evaluation.chosen_scenes(config)
        bucket = parts.common_bucket([s for specs in scenes.values() for s in specs], self.everything)
        for suite, executed in wanted:
            config.evaluate.executed = executed
            sim = parts.simulator(config, self.everything, bucket)
            films = self.folder / "films" / f"{_slug(cell.variant)}_{cell.count}_{cell.seed}_{executed}"
            films.mkdir(parents=True, exist_ok=True)
            outcome = evaluation.run_suite(config, films, suite, scenes[suite], sim, state.ema, self.encoder, self.everything)
            success, n = [r.success for r in outcome.records], _ROLLOUTS.value
            row = {"key": cell.key(suite, executed), "variant": cell.variant, "count": cell.count, "seed": cell.seed}
            row |= {"suite": suite, "executed": executed, "k": outcome.tally.k, "n": outcome.tally.n, "train_s": train_s}
            row |= {"by_scene": [sum(success[i : i + n]) for i in range(0, len(success), n)], "phases": _phases(outcome.records)}
            with self.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{row['key']}: {evaluation.describe(outcome)}", file=sys.stderr, flush=True)


def _slug(text: str) -> str:
    return text.replace(" ", "_").replace("-", "_")


def _phases(records) -> dict[str, int]:
    counts: dict[str, int] = {}
    for record in records:
        if record.phase_failed:
            counts[record.phase_failed] = counts.get(record.phase_failed, 0) + 1
    return counts


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Results by key, the last one of each."""
    return {row["key"]: row for row in map(json.loads, path.read_text().splitlines())} if path.exists() else {}


def pooled(rows: list[dict[str, Any]]) -> str:
    """ "75 % (70 .. 80)  67, 77, 80": all seeds, an interval over resampled scenes, and each seed's rate."""
    from coda_jax.evaluation.statistics import cluster_bootstrap

    k = [sum(r["by_scene"][i] for r in rows) for i in range(len(rows[0]["by_scene"]))]
    n = [sum(r["n"] // len(r["by_scene"]) for r in rows)] * len(k)
    low, high = cluster_bootstrap(k, n)
    each = ", ".join(f"{100 * r['k'] / r['n']:.0f}" for r in sorted(rows, key=lambda r: r["seed"]))
    return f"{100 * sum(k) / sum(n):.0f} % | {100 * low:.0f} .. {100 * high:.0f} | {each}"


def paired(rows: list[dict[str, Any]], reference: list[dict[str, Any]]) -> str:
    """Mean difference of success to the reference, scene by scene over the seeds that both have, with its 95 % interval."""
    from coda_jax.evaluation.statistics import paired_difference

    base = {r["seed"]: r for r in reference}
    both = [(r, base[r["seed"]]) for r in rows if r["seed"] in base]
    per_scene = [
        sum(a["by_scene"][i] - b["by_scene"][i] for a, b in both) / sum(a["n"] // len(a["by_scene"]) for a, _ in both)
        for i in range(len(both[0][0]["by_scene"]))
    ]
    d = paired_difference(per_scene)
    return f"{100 * d.mean:+.0f} ({100 * d.low:+.0f} .. {100 * d.high:+.0f})"


def tables(results: Mapping[str, dict[str, Any]]) -> str:
    """Markdown: the curve, the held-out suites, the recipe without each of its parts."""
    default = settings.default().evaluate.executed

    def rows(variant: str, count: int, suite: str, executed: int) -> list[dict[str, Any]]:
        chosen = (variant, count, suite, executed)
        return [r for r in results.values() if (r["variant"], r["count"], r["suite"], r["executed"]) == chosen]

    counts = sorted({r["count"] for r in results.values() if r["variant"] == "default"})
    lines = ["| demonstrations | suite | executed | success | 95 % | each seed | failed in |", "|---|---|---|---|---|---|---|"]
    for count in counts:
        for suite in settings.SUITES:
            for executed in (2, 4, 8):
                if found := rows("default", count, suite, executed):
                    failed: dict[str, int] = {}
                    for r in found:
                        for phase, n in r["phases"].items():
                            failed[phase] = failed.get(phase, 0) + n
                    where = ", ".join(f"{p} {n}" for p, n in sorted(failed.items(), key=lambda item: -item[1]))
                    lines.append(f"| {count} | {suite} | {executed} | {pooled(found)} | {where} |")
    lines += ["", "| recipe | success | 95 % | each seed | difference to the default, points (95 %) |", "|---|---|---|---|---|"]
    reference = rows("default", RECIPE_COUNT, "id", default)
    for variant in VARIANTS:
        if found := rows(variant, RECIPE_COUNT, "id", default):
            difference = paired(found, reference) if variant != "default" and reference else ""
            lines.append(f"| {variant} | {pooled(found)} | {difference} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]}")
    folder = Path(_FOLDER.value).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.jsonl"
    if not _TABLES.value:
        logging.set_verbosity(logging.WARNING)
        runtime.setup()
        from coda_jax.loop.parts import mendable

        counts = [int(c) for c in _COUNTS.value]
        cells = list(plan(counts, _SEEDS.value))
        began = time.monotonic()
        with mendable():
            bench = Bench(folder)
            for number, cell in enumerate(cells, 1):
                bench.measure(cell, max(*counts, RECIPE_COUNT), read(results))
                spent = time.monotonic() - began
                print(f"cell {number} of {len(cells)}, {spent / 60:.0f} min", file=sys.stderr, flush=True)
    print(tables(read(results)))


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    app.run(main)
