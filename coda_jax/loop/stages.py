"""The named stages of a run, in order. Each goes on from the last commit and leaves everything it made in commits."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from coda_jax import config as settings
from coda_jax.evaluation.metrics import Moment
from coda_jax.evaluation.records import records_name
from coda_jax.loop import cloning, demonstrations, evaluation, guides, parts, seed_scenes, starting_memory
from coda_jax.loop.journal import Commit, file_sha256
from coda_jax.loop.rounds import collect, control, critic, diagnose, environments, measure, potentials, practice, propose, training
from coda_jax.loop.run import Finished, Run
from coda_jax.loop.strategies import STRATEGIES


@dataclasses.dataclass(frozen=True)
class Stage:
    """``run`` does the work; what it has not committed itself is committed together with the stage's end.

    It returns that, or only the fields of the stage's row in ``metrics.jsonl``. charge: whom the ledger books it to.
    """

    name: str
    charge: str
    run: Callable[[Run], Finished | dict[str, Any]]


def evaluate(run: Run, moment: Moment) -> dict[str, Any]:
    """Evaluate the present policy, a commit for every suite."""
    state = cloning.trained(run)
    prefix = f"{moment}/"

    def store(outcome: evaluation.SuiteOutcome) -> None:
        run.say(evaluation.describe(outcome))
        row = {"k": outcome.tally.k, "n": outcome.tally.n, "clipped": outcome.clipped} | (
            {"shared": outcome.shared} if outcome.shared else {}
        )
        row |= outcome.measured
        run.metrics.write("evaluate", suite=outcome.suite, moment=moment, **row)
        run.charge(evaluation.NAME, outcome.sim_steps, outcome.tally.n - outcome.shared)
        name = records_name(outcome.suite, moment)
        run.commit(
            suites=[*run.state.suites, prefix + outcome.suite],
            files=run.state.files | {name: file_sha256(run.folder / name)},
            sim_steps=run.state.sim_steps + outcome.sim_steps,
        )

    done = [s.removeprefix(prefix) for s in run.state.suites if s.startswith(prefix)]
    evaluation.each_suite(
        run.config, run.folder, done, state.ema, run.encoder, run.everything, store, moment, guides.guide_of(run, "evaluate")
    )
    rollouts = run.config.evaluate.seeds * sum(len(specs) for specs in evaluation.chosen_scenes(run.config).values())
    return {"done": rollouts, "unit": "rollouts"}


def _first(config: settings.Config) -> list[Stage]:
    stages = [Stage(starting_memory.NAME, starting_memory.NAME, starting_memory.run_stage)] if starting_memory.wanted(config) else []
    stages += [
        Stage(seed_scenes.NAME, seed_scenes.NAME, seed_scenes.run),
        Stage(demonstrations.NAME, demonstrations.NAME, demonstrations.run),
        Stage(cloning.NAME, cloning.NAME, cloning.run),
    ]
    if config.rounds.count:
        stages.append(Stage("evaluate.before", evaluation.NAME, functools.partial(evaluate, moment="before")))
    return stages


def _round(config: settings.Config, number: int) -> list[Stage]:
    """Everything of a round before its training."""
    works = [("collect", collect.run_stage)]
    if STRATEGIES[config.strategy].diagnoses:
        works += [("diagnose", diagnose.run_stage), ("propose", propose.run_stage), ("control", control.run_stage)]
    works += [("environments", environments.run_stage), ("before", measure.run_before)]
    if parts.learns(config):
        works += [("potentials", potentials.run_stage)]
        works += [("practice", practice.run_stage)] if parts.practises(config) else []
        works += [("critic", critic.run_stage)]
    return [Stage(f"r{number}.{name}", f"round_{number}", functools.partial(work, round_number=number)) for name, work in works]


def _block(number: int, block: int) -> list[Stage]:
    """One block of a round's training, and what it changed."""
    charge = f"round_{number}"
    return [
        Stage(f"r{number}.train{block}", charge, functools.partial(training.run_stage, round_number=number)),
        Stage(f"r{number}.after{block}", charge, functools.partial(measure.run_after, round_number=number, block=block)),
    ]


def next_stage(config: settings.Config, state: Commit) -> Stage | None:
    """The first stage that is not done, or None at the end. How many blocks a round has shows itself while it runs."""
    known = _first(config)
    for number in range(1, config.rounds.count + 1):
        known += _round(config, number)
        block = 1
        while True:
            known += _block(number, block)
            if known[-1].name not in state.done or state.ended_rounds >= number:
                break
            block += 1
        if state.ended_rounds < number:
            break
    else:
        known.append(Stage(evaluation.NAME, evaluation.NAME, functools.partial(evaluate, moment="after")))
    return next((stage for stage in known if stage.name not in state.done), None)


def run_stage(run: Run, stage: Stage) -> None:
    """Run a stage and commit that it is done."""
    run.begin_stage(stage.name, stage.charge)
    built = run.state.compiles
    before = run.ledger.stages.get(stage.charge)
    earlier = before.wall_s if before else 0.0
    result = stage.run(run)
    finished = result if isinstance(result, Finished) else Finished(result)
    run.charge(stage.charge, finished.physics_steps, finished.rollouts)
    spent = run.ledger.stages[stage.charge].wall_s - earlier
    compiles = run.state.compiles + run.new_compiles - built
    run.metrics.write("stage", name=stage.name, wall_s=round(spent, 2), compiles=compiles, **finished.row)
    if compiles:
        run.say(f"{stage.name}: {compiles} executables were built after the warm-up")
    changes = {"sim_steps": run.state.sim_steps + finished.physics_steps} | finished.changes
    run.end_stage(stage.name, finished.rows, changes)
