"""The named stages of a run, in order. Each goes on from the last commit and leaves everything it made in commits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from coda_jax.loop import cloning, demonstrations, evaluation, seed_scenes
from coda_jax.loop.run import Run


@dataclasses.dataclass(frozen=True)
class Stage:
    """``run`` does the work and returns the fields of the stage's row in ``metrics.jsonl``."""

    name: str
    run: Callable[[Run], dict[str, Any]]


def evaluate(run: Run) -> dict[str, Any]:
    """Evaluate the cloned policy, a commit for every suite."""
    template = cloning.template(run.config)
    state = cloning.restore(run, template)
    assert state is not None, "cloning commits its last state"

    def store(outcome: evaluation.SuiteOutcome) -> None:
        run.say(evaluation.describe(outcome))
        run.metrics.write("evaluate", suite=outcome.suite, k=outcome.tally.k, n=outcome.tally.n, clipped=outcome.clipped)
        run.charge(evaluation.NAME, outcome.sim_steps, outcome.tally.n)
        run.commit(suites=[*run.state.suites, outcome.suite], sim_steps=run.state.sim_steps + outcome.sim_steps)

    evaluation.each_suite(run.config, run.folder, run.state.suites, state.ema, run.encoder, run.everything, store)
    rollouts = run.config.evaluate.seeds * sum(len(specs) for specs in evaluation.chosen_scenes(run.config).values())
    return {"done": rollouts, "unit": "rollouts"}


STAGES: tuple[Stage, ...] = (
    Stage(seed_scenes.NAME, seed_scenes.run),
    Stage(demonstrations.NAME, demonstrations.run),
    Stage(cloning.NAME, cloning.run),
    Stage(evaluation.NAME, evaluate),
)


def run_stage(run: Run, stage: Stage) -> None:
    """Run a stage unless it is done, and commit that it is."""
    if stage.name in run.state.done:
        return
    built = run.state.compiles
    row = stage.run(run)
    run.charge(stage.name)
    cost = run.ledger.stages[stage.name]
    compiles = run.state.compiles + run.new_compiles - built
    run.metrics.write("stage", name=stage.name, wall_s=round(cost.wall_s, 2), compiles=compiles, **row)
    if compiles:
        run.say(f"{stage.name}: {compiles} executables were built after the warm-up")
    run.commit(done=[*run.state.done, stage.name])
