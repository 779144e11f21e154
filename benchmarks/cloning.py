"""What demonstrations give, family by family: ``python -m benchmarks.cloning [--folder=runs/cloning] [--seeds=3] [--families=put_inside]``.

Clones are trained as the main job trains them and rolled out on the frozen validation suites: one policy for each family, and one for all
of them. ``--recipe`` asks instead what each part of the recipe gives, on the first family. Every result is a line of ``results.jsonl`` in
the folder; a second start skips what is there. Tables go to stdout, progress to stderr. ``--tables`` only prints.
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
_COUNTS = flags.DEFINE_list("counts", ["100", "300", "1280"], "Demonstrations of the curve.")
_FAMILIES = flags.DEFINE_list(
    "families", list(settings.FAMILIES), "Families of the curve; with two or more, one policy for all of them too."
)
_RECIPE = flags.DEFINE_bool("recipe", False, "Leave out parts of the recipe, one at a time, instead of the curve.")
_ROLLOUTS = flags.DEFINE_integer("rollouts", 2, "Rollouts of each suite scene.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 0, "Updates of a clone, 0 for the default.", lower_bound=0)
_TABLES = flags.DEFINE_bool("tables", False, "Print the tables of the results that are there and stop.")

HELD_OUT = tuple(s for s in settings.SUITES if s != "id")
RECIPE_COUNT = 300  # demonstrations of the leave-one-out table, and of each family of the policy for all
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
    """One clone and the ways it is rolled out: (suite, executed actions) pairs. families: of its demonstrations, ``count`` of each."""

    families: tuple[str, ...]
    variant: str
    count: int
    seed: int
    rollouts: tuple[tuple[str, int], ...]

    def key(self, suite: str, executed: int) -> str:
        return f"{'+'.join(self.families)}/{self.variant}/{self.count}/{self.seed}/{suite}/{executed}"


def curve(families: list[str], counts: list[int], seeds: int) -> Iterator[Cell]:
    """A clone for each family and count, then one for all, seed by seed so that an early stop leaves whole repeats; the largest of each
    family meets every suite."""
    executed = settings.default().evaluate.executed
    whole = tuple((suite, executed) for suite in settings.SUITES)
    for seed in range(seeds):
        for count in sorted(counts):
            for family in families:
                yield Cell((family,), "default", count, seed, whole if count == max(counts) else (("id", executed),))
        if len(families) > 1:
            yield Cell(tuple(families), "default", RECIPE_COUNT, seed, (("id", executed),))


def recipe(family: str, seeds: int) -> Iterator[Cell]:
    """The default clone, rolled out with three lengths of executed actions, and one without each part of the recipe."""
    default = settings.default().evaluate.executed
    for seed in range(seeds):
        for variant in VARIANTS:
            lengths = sorted({2, default, 8}) if variant == "default" else [default]
            yield Cell((family,), variant, RECIPE_COUNT, seed, tuple(("id", e) for e in lengths))


def configured(families: tuple[str, ...], variant: str, count: int, seed: int) -> settings.Config:
    """The default configuration with one variant, ``count`` demonstrations and the updates of a clone for each family, and seed."""
    config = settings.default()
    for path, value in VARIANTS[variant].items():
        settings.override(config, path, str(value))
    config.family, config.demos.count = ",".join(families), count * len(families)
    config.seed, config.evaluate.seeds, config.evaluate.films = seed, _ROLLOUTS.value, 4
    config.clone.steps = (_STEPS.value or config.clone.steps) * len(families)
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
        """The first ``cell.count`` demonstrations of each family, of collections that every cell of their recipe and seed shares."""
        from coda_jax.loop import demonstrations, seed_scenes, workdir
        from coda_jax.loop.run import opened

        changed = {k: v for k, v in VARIANTS[cell.variant].items() if k.startswith(_DEMO_SETTINGS)}
        variant = next(name for name, values in VARIANTS.items() if values == changed)
        found = []
        for family in cell.families:
            config = configured((family,), variant, most, cell.seed)
            folder = self.folder / "demonstrations" / f"{family}_{_slug(variant)}_{most}_{cell.seed}"
            with workdir.open_run(folder, config), opened(config, folder) as run:
                if run.state.demos < config.demos.count:
                    seed_scenes.run(run)
                    demonstrations.run(run)
                found += demonstrations.load(folder, run.state)[: cell.count]
        return found

    def measure(self, cell: Cell, most: int, done: Mapping[str, Any]) -> bool:
        """Train the cell's clone and append a result for each of its rollouts that is not there yet; False where all are."""
        from coda_jax.evaluation.terminal import Progress
        from coda_jax.learning import clone
        from coda_jax.loop import cloning, evaluation, parts

        wanted = [(s, e) for s, e in cell.rollouts if cell.key(s, e) not in done]
        if not wanted:
            return False
        config = configured(cell.families, cell.variant, cell.count, cell.seed)
        policy, training = parts.policy_of(config), parts.training_of(config)
        data = cloning.dataset(config, self.demonstrations(cell, most), self.encoder)
        words = cloning.language(config, self.train, self.encoder)
        name = "+".join(cell.families)
        began = time.monotonic()
        with Progress(f"{name}, {cell.variant}, {cell.count}, seed {cell.seed}", training.steps, "updates") as progress:
            state = clone.clone(policy, training, data, words, cell.seed, progress=lambda p: progress.update(p.step, loss=p.motor_loss))
        train_s = time.monotonic() - began
        scenes = evaluation.chosen_scenes(config)
        bucket = parts.common_bucket([s for specs in scenes.values() for s in specs], self.everything)
        for suite, executed in wanted:
            config.evaluate.executed = executed
            sim = parts.simulator(config, self.everything, bucket)
            films = self.folder / "films" / f"{name}_{_slug(cell.variant)}_{cell.count}_{cell.seed}_{executed}"
            films.mkdir(parents=True, exist_ok=True)
            outcome = evaluation.run_suite(config, films, suite, scenes[suite], sim, state.ema, self.encoder, self.everything)
            row = {"key": cell.key(suite, executed), "policy": name, "variant": cell.variant, "count": cell.count, "seed": cell.seed}
            row |= {"suite": suite, "executed": executed, "train_s": train_s}
            row |= {"families": {family: _counted([r for r in outcome.records if r.family == family]) for family in cell.families}}
            with self.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{row['key']}: {evaluation.describe(outcome)}", file=sys.stderr, flush=True)
        return True


def _counted(records) -> dict[str, Any]:
    success, n = [r.success for r in records], _ROLLOUTS.value
    by_scene = [sum(success[i : i + n]) for i in range(0, len(success), n)]
    return {"k": sum(success), "n": len(success), "by_scene": by_scene, "phases": _phases(records)}


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
    """ "75 % | 70 .. 80 | 67, 77, 80": all seeds, an interval over resampled scenes, and each seed's rate."""
    from coda_jax.evaluation.statistics import cluster_bootstrap

    k = [sum(r["by_scene"][i] for r in rows) for i in range(len(rows[0]["by_scene"]))]
    n = [sum(r["n"] // len(r["by_scene"]) for r in rows)] * len(k)
    low, high = cluster_bootstrap(k, n)
    each = ", ".join(f"{100 * r['k'] / r['n']:.0f}" for r in sorted(rows, key=lambda r: r["seed"]))
    return f"{100 * sum(k) / sum(n):.0f} % | {100 * low:.0f} .. {100 * high:.0f} | {each}"


def paired(rows: list[dict[str, Any]], reference: list[dict[str, Any]]) -> str:
    """Mean difference of success to the reference in points, scene by scene over the seeds that both have, with its 95 % interval."""
    from coda_jax.evaluation.statistics import paired_difference

    base = {r["seed"]: r for r in reference}
    both = [(r, base[r["seed"]]) for r in rows if r["seed"] in base]
    if not both:
        return ""
    per_scene = [
        sum(a["by_scene"][i] - b["by_scene"][i] for a, b in both) / sum(a["n"] // len(a["by_scene"]) for a, _ in both)
        for i in range(len(both[0][0]["by_scene"]))
    ]
    d = paired_difference(per_scene)
    return f"{100 * d.mean:+.0f} ({100 * d.low:+.0f} .. {100 * d.high:+.0f})"


class Results:
    """Results by what was measured."""

    def __init__(self, results: Mapping[str, dict[str, Any]]):
        self._rows = [
            {**{k: v for k, v in r.items() if k != "families"}, "family": family, **counted}
            for r in results.values()
            for family, counted in r["families"].items()
        ]

    def values(self, name: str, **chosen: Any) -> list[Any]:
        """What occurs of a field among the chosen results, in the order of their first appearance."""
        return list(dict.fromkeys(r[name] for r in self.rows(**chosen)))

    def rows(self, **chosen: Any) -> list[dict[str, Any]]:
        """Results with the chosen values, one a seed."""
        return [r for r in self._rows if all(r[k] == v for k, v in chosen.items())]


def _failed_in(rows: list[dict[str, Any]]) -> str:
    failed: dict[str, int] = {}
    for r in rows:
        for phase, n in r["phases"].items():
            failed[phase] = failed.get(phase, 0) + n
    return ", ".join(f"{p} {n}" for p, n in sorted(failed.items(), key=lambda item: -item[1]))


def curve_tables(results: Mapping[str, dict[str, Any]]) -> str:
    """Markdown: success by family, demonstrations and suite, and one policy for all families beside one for each."""
    found = Results(results)
    executed = settings.default().evaluate.executed
    lines = ["| family | demonstrations | suite | success | 95 % | each seed | failed in |", "|---|---|---|---|---|---|---|"]
    for family in found.values("family"):
        for count in sorted(found.values("count", policy=family)):
            for suite in settings.SUITES:
                if rows := found.rows(policy=family, variant="default", count=count, suite=suite, executed=executed):
                    lines.append(f"| `{family}` | {count} | {suite} | {pooled(rows)} | {_failed_in(rows)} |")
    together = [name for name in found.values("policy") if "+" in name]
    if together:
        lines += ["", "| family | one policy for all | 95 % | each seed | difference to its own, points (95 %) |", "|---|---|---|---|---|"]
    for name in together:
        for family in name.split("+"):
            chosen = {"family": family, "count": RECIPE_COUNT, "suite": "id", "executed": executed}
            rows, own = found.rows(policy=name, **chosen), found.rows(policy=family, variant="default", **chosen)
            lines.append(f"| `{family}` | {pooled(rows)} | {paired(rows, own)} |")
    return "\n".join(lines)


def recipe_tables(results: Mapping[str, dict[str, Any]], family: str) -> str:
    """Markdown: lengths of executed actions, and the recipe without each of its parts."""
    found = Results(results)
    default = settings.default().evaluate.executed
    chosen = {"policy": family, "count": RECIPE_COUNT, "suite": "id"}
    lines = ["| executed | success | 95 % | each seed | failed in |", "|---|---|---|---|---|"]
    for executed in sorted(found.values("executed", variant="default", **chosen)):
        rows = found.rows(variant="default", executed=executed, **chosen)
        lines.append(f"| {executed} | {pooled(rows)} | {_failed_in(rows)} |")
    lines += ["", "| recipe | success | 95 % | each seed | difference to the default, points (95 %) |", "|---|---|---|---|---|"]
    reference = found.rows(variant="default", executed=default, **chosen)
    for variant in VARIANTS:
        if rows := found.rows(variant=variant, executed=default, **chosen):
            lines.append(f"| {variant} | {pooled(rows)} | {paired(rows, reference) if variant != 'default' else ''} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]}")
    folder = Path(_FOLDER.value).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.jsonl"
    families = _FAMILIES.value
    if not _TABLES.value:
        logging.set_verbosity(logging.WARNING)
        runtime.setup()
        from coda_jax.loop.parts import mendable

        counts = [int(c) for c in _COUNTS.value]
        cells = list(recipe(families[0], _SEEDS.value) if _RECIPE.value else curve(families, counts, _SEEDS.value))
        most = RECIPE_COUNT if _RECIPE.value else max(*counts, RECIPE_COUNT)
        began, measured = time.monotonic(), 0
        with mendable():
            bench = Bench(folder)
            for number, cell in enumerate(cells, 1):
                fresh = bench.measure(cell, most, read(results))
                measured += fresh
                spent = (time.monotonic() - began) / 60
                left = f", {spent / measured * (len(cells) - number):.0f} min left" if measured else ""
                print(f"cell {number} of {len(cells)}, {spent:.0f} min{left}", file=sys.stderr, flush=True)
    print(recipe_tables(read(results), families[0]) if _RECIPE.value else curve_tables(read(results)))


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    app.run(main)
