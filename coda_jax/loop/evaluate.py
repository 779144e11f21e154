"""``--mode=evaluate``: the trained policy of a run again, under other ``evaluate`` settings; the run's own results stay as they are."""

from __future__ import annotations

from pathlib import Path

from coda_jax import config as settings
from coda_jax.evaluation.metrics import METRICS, MetricsWriter, Summary, write_summary
from coda_jax.evaluation.records import read_records, tally
from coda_jax.evaluation.report import write_report
from coda_jax.evaluation.terminal import print_suites
from coda_jax.loop import cloning, evaluation, parts
from coda_jax.loop.journal import Commit, read_commits
from coda_jax.loop.ledger import Ledger
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue

FOLDER = "evaluations"


def folder_name(config: settings.Config) -> str:
    """One folder for each set of ``evaluate`` settings, e.g. "test-e4" or "validation-e8-id+tasks-20scenes-2seeds"."""
    chosen = config.evaluate
    name = f"{chosen.split}-e{chosen.executed}"
    if tuple(chosen.suites) != settings.SUITES:
        name += "-" + "+".join(chosen.suites)
    if chosen.scenes:
        name += f"-{chosen.scenes}scenes"
    return name + (f"-{chosen.seeds}seeds" if chosen.seeds > 1 else "")


def run(config: settings.Config, workdir: Path, dry_run: bool) -> None:
    """Evaluate into ``workdir/evaluations/NAME``: records, films, summary and report.

    Raises:
      InputError: the run has no finished policy, or a suite is missing.
    """
    with parts.mendable():
        scenes = evaluation.chosen_scenes(config)
        commits = read_commits(workdir)
        if not commits or cloning.NAME not in commits[-1].done:
            raise InputError(f"{workdir} has no trained policy yet: let --mode=run finish with this workdir first")
        folder = workdir / FOLDER / folder_name(config)
        if dry_run:
            counts = ", ".join(f"{suite} {len(specs) * config.evaluate.seeds}" for suite, specs in scenes.items())
            print(f"rollouts on {config.evaluate.split}: {counts}; {config.evaluate.executed} actions of each chunk; results in {folder}")
            return
        _evaluate(config, workdir, folder, commits[-1])


def _evaluate(config: settings.Config, workdir: Path, folder: Path, commit: Commit) -> None:
    state = cloning.committed_state(config, workdir, commit)
    folder.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(folder)
    catalogue, steps = Catalogue.all(), 0
    with MetricsWriter(folder / METRICS, 0) as metrics:

        def store(outcome: evaluation.SuiteOutcome) -> None:
            nonlocal steps
            steps += outcome.sim_steps
            print(evaluation.describe(outcome), flush=True)
            metrics.write("evaluate", suite=outcome.suite, k=outcome.tally.k, n=outcome.tally.n, clipped=outcome.clipped)
            ledger.charge(evaluation.NAME, outcome.sim_steps, outcome.tally.n)

        evaluation.each_suite(config, folder, (), state.ema, parts.encoder_of(), catalogue, store)
        metrics.commit()
    ledger.save()
    summary = Summary(
        seed=config.seed,
        wall_s=round(ledger.stages[evaluation.NAME].wall_s, 1),
        accepted=commit.accepted,
        rejected=dict(commit.rejected),
        compiles_per_round=[],
        sim_steps=steps,
        suites=tally(read_records(folder), config.evaluate.split),
    )
    write_summary(folder, summary)
    print_suites(summary.suites, title=f"Success by suite, {config.evaluate.split} split, {config.evaluate.executed} actions of each chunk")
    print(f"report: {write_report(folder)}")
