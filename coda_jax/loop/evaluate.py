"""``--mode=evaluate``: the trained policy of a run again, under other ``evaluate`` settings; the run's own results stay as they are.

A remote policy is evaluated in the same way, in a folder of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from coda_jax import config as settings
from coda_jax.evaluation.metrics import METRICS, MetricsWriter, Summary, write_summary
from coda_jax.evaluation.records import read_records, records_name, tally
from coda_jax.evaluation.report import write_report
from coda_jax.evaluation.terminal import print_suites
from coda_jax.learning.policies.base import Params
from coda_jax.loop import cloning, evaluation, foreign_suites, guides, own_families, parts, requirements
from coda_jax.loop import workdir as folders
from coda_jax.loop.evaluated import Evaluated, SuiteDone
from coda_jax.loop.journal import Commit, file_sha256, read_commits
from coda_jax.loop.ledger import Ledger
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue

if TYPE_CHECKING:
    from coda_jax.learning.policies.remote import RemotePolicy


def folder_name(config: settings.Config) -> str:
    """One folder for each set of ``evaluate`` settings, e.g. "test-e4" or "validation-e8-id+tasks-20scenes-2seeds"."""
    chosen = config.evaluate
    name = f"{chosen.split}-e{chosen.executed}"
    if tuple(chosen.suites) != settings.suites(config):
        name += "-" + "+".join(chosen.suites)
    if chosen.scenes:
        name += f"-{chosen.scenes}scenes"
    return name + (f"-{chosen.seeds}seeds" if chosen.seeds > 1 else "")


def run(config: settings.Config, workdir: Path, dry_run: bool) -> None:
    """Evaluate into ``workdir/evaluations/NAME``: records, films, summary and report. Suites that are done are not rolled out again.

    Raises:
      InputError: the run has no finished policy, no policy server answers, or a suite is missing. Stopped: a signal came; the same
        command goes on.
    """
    with parts.mendable(), contextlib.ExitStack() as connected:
        own_families.add(config)
        remote = config.policy.kind == "remote"
        # asked first: LIBERO's scenes take a while to draw, and a server that is not there should be known before
        policy = connected.enter_context(parts.remote_of(config)) if remote and not dry_run else None
        scenes = evaluation.chosen_scenes(config)
        requirements.check(config)
        commits = [] if remote else read_commits(workdir)
        if not remote and (not commits or cloning.NAME not in commits[-1].done):
            raise InputError(f"{workdir} has no trained policy yet: let --mode=run finish with this workdir first")
        folder = workdir / folders.EVALUATIONS / folder_name(config)
        if dry_run:
            counts = ", ".join(f"{suite} {len(specs) * config.evaluate.seeds}" for suite, specs in scenes.items())
            print(f"rollouts on {config.evaluate.split}: {counts}; {config.evaluate.executed} actions of each chunk; results in {folder}")
            return
        if policy is not None:
            _evaluate(config, folder, Evaluating(policy.identity, remote=policy))
        else:
            _evaluate(config, folder, _own(config, workdir, commits[-1]))


@dataclasses.dataclass(frozen=True)
class Evaluating:
    """Who is evaluated. sha256: tells whether it is still the same. accepted, rejected: environments of its training."""

    sha256: str
    params: Params = None
    guide: evaluation.Guide | None = None
    remote: RemotePolicy | None = None
    accepted: int = 0
    rejected: Mapping[str, int] = dataclasses.field(default_factory=dict)


def _own(config: settings.Config, workdir: Path, commit: Commit) -> Evaluating:
    chooses = config.actor.evaluate != "policy" and commit.critic is not None
    return Evaluating(
        commit.checkpoint_sha256 + (f"+{commit.critic_sha256}" if chooses else ""),
        cloning.committed_state(config, workdir, commit).ema,
        guides.committed_guide(config, workdir, commit),
        accepted=commit.accepted,
        rejected=commit.rejected,
    )


def _evaluate(config: settings.Config, folder: Path, who: Evaluating) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    done = Evaluated.of(folder, who.sha256)
    done.store(folder)  # what no longer counts is forgotten before its files go
    for suite in config.evaluate.suites:
        if suite not in done.suites:
            (folder / records_name(suite, "after")).unlink(missing_ok=True)
    ledger = Ledger(folder, parts.platform_of(config).timestep_s)

    def store(outcome: evaluation.SuiteOutcome) -> None:
        nonlocal done
        print(evaluation.describe(outcome), flush=True)
        wall_s = ledger.charge(evaluation.NAME, outcome.sim_steps, outcome.tally.n - outcome.shared)
        k, n = dataclasses.astuple(outcome.tally)
        sha256 = file_sha256(folder / records_name(outcome.suite, "after"))
        done = done.with_suite(outcome.suite, SuiteDone(sha256, k, n, outcome.clipped, outcome.sim_steps, wall_s))
        done.store(folder)
        ledger.save()

    if done.suites:
        print(f"done already: {', '.join(done.suites)}", flush=True)
    evaluation.each_suite(
        config,
        folder,
        tuple(done.suites),
        who.params,
        parts.encoder_of(),
        Catalogue.all(),
        store,
        guide=who.guide,
        remote=who.remote,
    )
    with MetricsWriter(folder / METRICS, 0) as metrics:
        for suite in config.evaluate.suites:
            own = done.suites[suite]
            metrics.write("evaluate", suite=suite, k=own.k, n=own.n, clipped=own.clipped)
        metrics.commit()
    summary = Summary(
        seed=config.seed,
        wall_s=round(sum(own.wall_s for own in done.suites.values()), 1),
        accepted=who.accepted,
        rejected=dict(who.rejected),
        compiles_per_round=[],
        sim_steps=sum(own.sim_steps for own in done.suites.values()),
        suites=tally(read_records(folder), config.evaluate.split),
        robot=parts.robot_of(config).name,
        within_reach=foreign_suites.within_reach(config),
    )
    write_summary(folder, summary)
    print_suites(summary.suites, title=f"Success by suite, {config.evaluate.split} split, {config.evaluate.executed} actions of each chunk")
    if text := foreign_suites.describe(summary.robot, summary.within_reach):
        print(text)
    print(f"report: {write_report(folder)}")
