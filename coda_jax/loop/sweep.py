"""``--mode=sweep``: every kept checkpoint of some runs at several temperatures on the suites, all in one batch of worlds."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.evaluation.report.sweep import PAGE, write_sweep
from coda_jax.evaluation.results import Result
from coda_jax.evaluation.sweep import Cell, sweep_suite
from coda_jax.evaluation.sweep_results import FILE, CellResult, append_cell, difference, interval, read_cells
from coda_jax.evaluation.terminal import CHOSEN_ON_VALIDATION, Progress, print_table
from coda_jax.evaluation.wording import counted
from coda_jax.learning import lora
from coda_jax.learning.policies.base import Params
from coda_jax.loop import cloning, evaluation, own_families, parts, requirements
from coda_jax.loop import workdir as folders
from coda_jax.loop.checkpoint import CheckpointError, Checkpoints
from coda_jax.loop.run import CHECKPOINTS
from coda_jax.loop.shared_rollouts import rollout_key
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.simulator import episode_of

log = logging.getLogger(__name__)
NAME = "sweep"
FOLDER = "sweeps"  # in the run folder
_UNSAFE, _MOST_NAMED = re.compile(r"[^A-Za-z0-9.-]+"), 100  # characters of runs' names in the name of a page


@dataclasses.dataclass(frozen=True)
class Kept:
    """One checkpoint of a run. run: the name it is shown by. sha256: of its files, as sealed. config: of its run."""

    run: str
    folder: Path
    step: int
    sha256: str
    config: settings.Config


def kept(config: settings.Config, workdir: Path, against: Sequence[Path]) -> list[Kept]:
    """The intact checkpoints of the runs, the newest ``sweep.checkpoints`` of each, oldest first; damaged ones are named in a warning.

    Raises:
      InputError: a folder is no run, its policy, families or robot are others, or it has no intact checkpoint.
    """
    if config.obs == "pixels":
        raise InputError(f"{workdir} has a policy of pictures (config.obs=pixels), which sweeps cannot draw for yet: use --mode=evaluate")
    runs = {workdir: config} | {folder: folders.read_config(folder) for folder in against}
    names = {folder: folder.resolve().name for folder in runs}
    if len(set(names.values())) < len(names):
        names = {folder: str(folder) for folder in runs}
    found = []
    for folder, own in runs.items():
        _check_alike(folder, config, own)
        found += _intact(names[folder], folder, own, config.sweep.checkpoints)
    return found


def _check_alike(folder: Path, config: settings.Config, own: settings.Config) -> None:
    """Raises InputError where the policy of a run cannot stand beside the others."""
    folders.check_robot(folder, own)
    own_families.add(own)
    for name in ("family", "robot", "obs"):
        if config[name] != own[name]:
            raise InputError(f"{folder} is of config.{name}={own[name]}, not {config[name]}: sweep it by itself, as its own --workdir")
    first, second = dataclasses.asdict(parts.policy_of(config)), dataclasses.asdict(parts.policy_of(own))
    if changed := [f"policy.{name} {first[name]} -> {second[name]}" for name in first if first[name] != second[name]]:
        raise InputError(f"{folder} has another policy ({', '.join(changed)}): sweep it by itself, as its own --workdir")


def _intact(name: str, folder: Path, config: settings.Config, most: int) -> list[Kept]:
    if not (folder / CHECKPOINTS).is_dir():
        raise InputError(f"{folder} has no checkpoints yet: let --mode=run go on with this workdir")
    with Checkpoints(folder / CHECKPOINTS, config.checkpoint.keep) as checkpoints:
        found, problems = [], []
        for step in checkpoints.steps():
            if (problem := checkpoints.problem(step)) is None:
                found.append(Kept(name, folder, step, checkpoints.sealed_sha256(step), config))
            else:
                problems.append(problem)
    for problem in problems:
        log.warning("%s; it is left out", problem)
    if not found:
        raise InputError(f"{folder} has no intact checkpoint ({'; '.join(problems) or 'none was saved'}): let --mode=run go on with it")
    return found[-most:] if most else found


def parameters(one: Kept) -> Params:
    """What is evaluated of a checkpoint: the averaged parameters, adapters merged.

    Raises:
      CheckpointError: it is damaged, of other settings, or holds numbers that are not finite.
    """
    with Checkpoints(one.folder / CHECKPOINTS, one.config.checkpoint.keep) as checkpoints:
        params = lora.merged(checkpoints.restore(cloning.template(one.config, one.step), one.step).tree.ema)
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params)):
        raise CheckpointError(f"checkpoint {one.folder / CHECKPOINTS / str(one.step)} holds numbers that are not finite: remove it")
    return params


def conditions(config: settings.Config, suite: str, specs: Sequence[SceneSpec], bucket: Bucket) -> str:
    """Digest of what a cell's verdicts depend on, beside policy, suite and temperature."""
    horizon = parts.horizon_of(config)
    told = {
        "scenes": [(spec.scene_id, horizon(spec)) for spec in specs],
        "seeds": config.evaluate.seeds,
        "executed": config.evaluate.executed,
        "seed": config.seed,
        "backend": parts.backend(config, bucket),
        "bucket": bucket.name,
        "impl": config.sim.mjx_impl,
        "policy": dataclasses.asdict(parts.policy_of(config)),
        "robot": folders.robot_fingerprint(config),
        "block": config.sweep.block,
    }
    return hashlib.sha256(json.dumps([suite, told], sort_keys=True).encode()).hexdigest()[:16]


def run(config: settings.Config, workdir: Path, against: Sequence[Path], dry_run: bool) -> None:
    """Measure the cells that ``workdir/sweeps/cells.jsonl`` lacks, then print the tables and write the page.

    Raises:
      InputError: a run or suite cannot be used, or the test split is asked for without ``sweep.test``. Stopped: a signal came; the same
        command goes on.
    """
    if config.evaluate.split == "test" and not config.sweep.test:
        raise InputError(
            "config.evaluate.split is test: choosing among checkpoints and temperatures is tuning, which the validation split is for; "
            "choose there and evaluate the chosen one on test, or set config.sweep.test=true to look all the same"
        )
    with parts.mendable():
        own_families.add(config)
        scenes = evaluation.chosen_scenes(config)
        requirements.check(config)
        policies = kept(config, workdir, against)
        path = workdir / FOLDER / FILE
        have = {cell.key: cell for cell in read_cells(path)}
        bucket = parts.common_bucket([s for specs in scenes.values() for s in specs], Catalogue.all())
        wanted = {suite: _wanted(config, suite, specs, policies, bucket) for suite, specs in scenes.items()}
        missing = {suite: {key: cell for key, cell in keys.items() if key not in have} for suite, keys in wanted.items()}
        each = {suite: len(specs) * config.evaluate.seeds for suite, specs in scenes.items()}
        total = sum(each[suite] * len(cells) for suite, cells in missing.items())
        cells = sum(map(len, wanted.values()))
        print(
            f"{counted(len(policies), 'checkpoint')} x {counted(len(config.sweep.temperatures), 'temperature')} x "
            f"{counted(len(scenes), 'suite')} on {config.evaluate.split}: {counted(cells, 'cell')}, "
            f"{cells - sum(map(len, missing.values()))} done already, {counted(total, 'rollout')} to do",
            flush=True,
        )
        if dry_run:
            return
        if total:
            path.parent.mkdir(exist_ok=True)
            _measure(config, scenes, policies, missing, path, total, bucket)
            have = {cell.key: cell for cell in read_cells(path)}
        newest = [one for one in policies if one.folder == workdir][-1]
        shown = {suite: _of_every_checkpoint(config, suite, specs, policies, bucket, have) for suite, specs in scenes.items()}
        _show(workdir, shown, config, newest, page_of(policies, workdir))
        if any(parts.learns(one.config) and one.config.actor.evaluate != "policy" for one in policies):
            print(
                "The policy alone acts in a sweep. In a run's own evaluation after its rounds the critic chooses among candidates "
                "(config.actor.evaluate), so its figures are others."
            )


def _wanted(config: settings.Config, suite: str, specs: Sequence[SceneSpec], policies: Sequence[Kept], bucket: Bucket) -> dict[tuple, Cell]:
    """Every cell of a suite by the key of its result; checkpoints that hold the same are measured once, as the first of them."""
    told, found = conditions(config, suite, specs, bucket), {}
    for number, one in enumerate(policies):
        for temperature in map(float, config.sweep.temperatures):
            found.setdefault((one.sha256, suite, temperature, told), Cell(number, temperature))
    return found


def _of_every_checkpoint(
    config: settings.Config, suite: str, specs: Sequence[SceneSpec], policies: Sequence[Kept], bucket: Bucket, have: dict[tuple, CellResult]
) -> list[CellResult]:
    """Cells of a suite, one checkpoint after the other under the names that they have now, those that hold the same too."""
    told = conditions(config, suite, specs, bucket)
    return [
        dataclasses.replace(have[one.sha256, suite, float(temperature), told], run=one.run, step=one.step)
        for one in policies
        for temperature in config.sweep.temperatures
    ]


def _measure(
    config: settings.Config,
    scenes: dict[str, list[SceneSpec]],
    policies: Sequence[Kept],
    missing: dict[str, dict[tuple, Cell]],
    path: Path,
    total: int,
    bucket: Bucket,
) -> None:
    catalogue, encoder, policy, horizon = Catalogue.all(), parts.encoder_of(), parts.policy_of(config), parts.horizon_of(config)
    params = [parameters(one) for one in policies]
    sim, seeds = parts.simulator(config, catalogue, bucket), config.evaluate.seeds
    watched = evaluation.GivenRoles(sim, catalogue) if policy.given_roles else None
    with Progress(NAME, total, "rollouts") as progress:
        for suite, keys in missing.items():
            cells, digests = list(keys.values()), [key[-1] for key in keys]
            episodes = [episode_of(s, horizon(s), (i, seed)) for i, s in enumerate(scenes[suite]) for seed in range(seeds)]
            waiting: list[dict[tuple[int, int], Result]] = [{} for _ in cells]
            ended = sweep_suite(
                policy,
                params,
                cells,
                episodes,
                watched or sim,
                catalogue,
                encoder.encode,
                config.evaluate.executed,
                rollout_key(config.seed, suite),
                config.sweep.block,
                lambda: watched.roles if watched else None,
            )
            for number, result in ended:
                runtime.check_stop()
                waiting[number][result.episode.key] = result
                if len(waiting[number]) == len(episodes):
                    results = [waiting[number].pop(e.key) for e in episodes]
                    cell = cells[number]
                    append_cell(path, _cell(config, policies[cell.policy], suite, cell.temperature, digests[number], results))
                progress.advance(suite=suite)


def _cell(config: settings.Config, one: Kept, suite: str, temperature: float, told: str, results: Sequence[Result]) -> CellResult:
    return CellResult(
        run=one.run,
        step=one.step,
        sha256=one.sha256,
        suite=suite,
        split=config.evaluate.split,
        temperature=temperature,
        conditions=told,
        seeds=config.evaluate.seeds,
        verdicts="".join("1" if r.success else "0" for r in results),
        clipped=sum(r.clipped for r in results),
        unhealthy=sum(r.health != 0 for r in results),
        control_steps=sum(r.steps for r in results),
    )


def best_of(cells: Sequence[CellResult]) -> CellResult | None:
    """The cell with most successes; of equal ones the first. None where all of several are equal: there is nothing to choose."""
    if len(cells) > 1 and len({c.k / c.n for c in cells}) == 1:
        return None
    return max(cells, key=lambda c: c.k / c.n)


def page_of(policies: Sequence[Kept], workdir: Path) -> str:
    """Name of the page: sweep.html of the run alone, another one for each choice of runs beside it, so that none replaces another."""
    others = dict.fromkeys(one.run for one in policies if one.folder != workdir)
    named = "_".join(_UNSAFE.sub("-", name) for name in others)
    return f"sweep_{named[:_MOST_NAMED]}.html" if others else PAGE


def usual_of(cells: Sequence[CellResult], newest: Kept) -> CellResult:
    """The cell of the checkpoint ``newest`` at temperature 1, or at the last one where that was not swept."""
    own = [c for c in cells if (c.run, c.step) == (newest.run, newest.step)]
    return next((c for c in own if c.temperature == 1.0), own[-1])


def _show(workdir: Path, suites: dict[str, list[CellResult]], config: settings.Config, newest: Kept, page: str) -> None:
    temperatures = [float(t) for t in config.sweep.temperatures]
    for suite, cells in suites.items():
        rows = []
        for policy in dict.fromkeys(c.policy for c in cells):
            own = {c.temperature: c for c in cells if c.policy == policy}
            rows.append((policy, *(_text(own[t]) for t in temperatures)))
        header = ("policy", *(f"temperature {t:g}" for t in temperatures))
        print_table(header, rows, f"{suite}, {config.evaluate.split} split: success with 95 % interval", texts=1)
    best = {suite: best_of(cells) for suite, cells in suites.items()}
    for suite, cell in best.items():
        if cell is None:
            print(f"no best of {suite}: every cell has {suites[suite][0].k}/{suites[suite][0].n}")
            continue
        equal = sum(c.k * cell.n == cell.k * c.n for c in suites[suite])
        first = f", the first of {equal} equal ones" if equal > 1 else ""
        text = f"best of {suite}: {cell.policy} at temperature {cell.temperature:g}, {_text(cell)}{first}"
        usual = usual_of(suites[suite], newest)
        if usual.key != cell.key:
            d = difference(cell, usual)
            text += (
                f"; against {usual.policy} at temperature {usual.temperature:g} {100 * d.mean:+.0f} points "
                f"({100 * d.low:+.0f} .. {100 * d.high:+.0f}), paired by scene"
            )
        print(text)
    if any(best.values()):
        print(CHOSEN_ON_VALIDATION)
    print(f"page: {write_sweep(workdir / FOLDER, workdir.resolve().name, suites, best, page)}")


def _text(cell: CellResult) -> str:
    low, high = interval([cell])
    return f"{cell.k}/{cell.n} {100 * cell.k / cell.n:.0f} % ({100 * low:.0f} .. {100 * high:.0f})"
