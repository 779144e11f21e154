"""``--mode=verify``: one control test of a generation program, by anybody, against the policy of a run. Nothing is stored in the run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from coda_jax import config as settings
from coda_jax.evaluation.control_test import ControlResult, wants_more
from coda_jax.loop import cloning, parts
from coda_jax.loop.check import read_program
from coda_jax.loop.rounds import collect
from coda_jax.loop.rounds.control import Pairs, judged, pair_counts, trials_of
from coda_jax.loop.rounds.rollouts import Rollouts
from coda_jax.loop.rounds.variants import Base, Batch
from coda_jax.loop.run import Run, opened
from coda_jax.loop.seed_scenes import SceneSource
from coda_jax.programs.errors import ProgramError
from coda_jax.programs.sandbox import Sandbox
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generation import GenerationProgram, evaluate_generation


def run(config: settings.Config, workdir: Path, path: Path) -> None:
    """Test the program at its own level and print one JSON object with the verdict.

    Raises:
      InputError: the program is refused, fits no scene, or the run has no trained policy yet.
    """
    with parts.mendable():
        with Sandbox(parts.limits_of(config)) as sandbox:
            try:
                text = read_program(path, config.sandbox.text_bytes)
                program = evaluate_generation(text, sandbox, Catalogue("train"))
            except ProgramError as error:
                raise InputError(f"{path}: {error}") from error
        with opened(config, workdir) as job:
            result, batch = tested(job, program)
        row = {"program": str(path), "factor": program.factor, "verbs": [e.verb for e in program.edits], "level": program.level}
        print(json.dumps(row | dataclasses.asdict(result) | {"refused": batch.refused}))


def tested(run: Run, program: GenerationProgram) -> tuple[ControlResult, Batch]:
    """The control test of one program on fresh scenes, topped up while it is undecided.

    Raises:
      InputError: no scene allows it, or there is no policy.
    """
    state = cloning.trained(run)
    with SceneSource(run) as source:
        bases = collect.test_scenes(run, run.config.rounds.count + 1, source)
    batch, rollouts = Batch(), Rollouts(run, state.ema)
    result = control_tested(run, program, bases, rollouts, batch)
    if result is None:
        reasons = ", ".join(f"{reason} {n}" for reason, n in sorted(batch.refused.items(), key=lambda item: -item[1])[:3])
        raise InputError(f"no fresh scene allows this test ({reasons}): lower the level, or ask for other roles")
    return result, batch


def control_tested(run: Run, program: GenerationProgram, bases: list[Base], rollouts: Rollouts, batch: Batch) -> ControlResult | None:
    """Wave after wave of bases until decided or used up; None where no pair could be built."""
    settings = run.config.control
    supply, counts, result = Pairs(run, program, bases, batch), {}, None
    wanted = settings.scenes
    while wanted:
        pairs = supply.take(wanted)
        trials = trials_of(pairs, settings.rollouts)
        with rollouts.runner("control", run.config.rounds.count + 1, len(trials), "control test") as rollout_fn:
            counts |= pair_counts(pairs, rollout_fn(trials), settings.rollouts)
        if not counts:
            break
        (result,) = judged(run, [counts])
        wanted = wants_more(result, supply.left, settings.most_scenes)
    return result
