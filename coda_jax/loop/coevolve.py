"""The main job: every stage of the run, from the last commit on."""

from __future__ import annotations

from pathlib import Path

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.evaluation.comparison import before_and_after
from coda_jax.evaluation.metrics import METRICS, read_metrics, write_summary
from coda_jax.evaluation.mode_history import mode_histories
from coda_jax.evaluation.records import read_records
from coda_jax.evaluation.report import write_report
from coda_jax.evaluation.terminal import duration, print_modes, print_rounds, print_suites
from coda_jax.learning.encoders.minilm import weights_folder
from coda_jax.loop import estimate, evaluation, foreign_suites, language, own_families, parts, starting_memory, user_scenes
from coda_jax.loop.run import Run, opened
from coda_jax.loop.stages import next_stage, run_stage
from coda_jax.loop.summary import summary_of
from coda_jax.loop.warm_up import warm_up


def run(config: settings.Config, workdir: Path, dry_run: bool) -> None:
    """Do the whole job of ``config`` in the locked folder ``workdir``, or with ``dry_run`` say what it would be.

    Raises:
      InputError: something that the user can mend. Stopped: a signal came; the same command goes on.
    """
    with parts.mendable():
        own_families.add(config)
        own_programs = user_scenes.texts(config)
        parts.robot_of(config)  # one that cannot be used is refused before any work, and by a dry run too
        evaluation.chosen_scenes(config)
        weights_folder()
        starting_memory.check(config, workdir)
        if dry_run:
            print(estimate.describe(config, workdir))
            return
        with opened(config, workdir) as job:
            user_scenes.check(config, own_programs, job.state.own_programs)
            _stages(job)


def _stages(job: Run) -> None:
    job.say(f"{runtime.device_summary()}; {job.folder}")
    stage = next_stage(job.config, job.state)
    if stage is not None:
        if job.state.done or job.state.files:
            job.say(f"going on with {stage.name}")
        warm_up(job)
        job.warmed_up()
        runtime.check_stop()
    while stage is not None:
        run_stage(job, stage)
        stage = next_stage(job.config, job.state)
    finish(job)


def finish(job: Run) -> None:
    """Write summary and report, print the table."""
    state, config = job.state, job.config
    records = read_records(job.folder)
    summary = summary_of(job, records)
    write_summary(job.folder, summary)
    report = write_report(job.folder)
    print_suites(summary.suites, title=f"Success by suite, {config.evaluate.split} split")
    if text := foreign_suites.describe(summary.robot, summary.within_reach):
        print(text)
    changes = before_and_after(records, config.evaluate.split)
    if changes:
        several = len({row.family for row in changes}) > 1
        lines = [f"{row.family} {row.text}" if several else row.text for row in changes]
        print("What the rounds changed, paired by scene, 95 % intervals\n  " + "\n  ".join(lines))
    if summary.rounds:
        print_rounds(summary)
        print_modes(mode_histories(read_metrics(job.folder / METRICS)))
    if state.asked:
        llm = config.agents.llm
        print(f"language model {language.describe(llm.model, state.asked, llm.tokens, parts.prices_of(config))}")
    costs = ", ".join(f"{name} {duration(cost.wall_s)}" for name, cost in job.ledger.stages.items())
    print(f"{state.demos} demonstrations, {state.compiles} compilations after the warm-up; time: {costs}")
    print(f"report: {report}")
