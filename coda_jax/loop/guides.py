"""Who acts in rollouts: the policy alone, or an actor that lets the critic choose among the policy's chunks."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from coda_jax import config as settings
from coda_jax.learning.policies.base import Params
from coda_jax.loop import improvement
from coda_jax.loop.checkpoint import committed
from coda_jax.loop.evaluation import Guide
from coda_jax.loop.journal import Commit
from coda_jax.loop.rounds import critic, potentials
from coda_jax.loop.run import CRITICS, Run
from coda_jax.memory.store import FILE, Memory
from coda_jax.programs.training.program import SparseProgram
from coda_jax.sim.simulator import Episode


def made(config: settings.Config, mode: str, params: Params, known: potentials.InUse) -> Guide:
    """An actor of ``mode`` whose critic is told, of a scene, its family's program: choices do not depend on the potential (METHOD 2)."""
    critic_ = improvement.critic_of(config)
    return Guide(improvement.actor_of(config, mode), critic_, params, lambda e: known.of(None, e.spec.task.family), SparseProgram())


def guide_of(run: Run, task: str) -> Guide | None:
    """The actor of a run's ``actor.collect`` or ``actor.evaluate``; None for the policy alone, and before there is a critic.

    Collecting in scenes that practise a mode, its program's ``candidate_temperature`` counts.
    """
    mode = run.config.actor[task]
    judge = None if mode == "policy" else critic.judge_of(run)
    if judge is None:
        return None
    known = potentials.met(run.memory, run.config, run.state.critic_round)
    guide = made(run.config, mode, judge.critic.params, known)
    if task != "collect" or not run.config.potential.tools:
        return guide
    modes = potentials.in_use(run.memory, run.config).modes
    practised = {e.scene_id: e.mode_id for own in run.state.environments.values() for e in own}

    def temperature_of(episode: Episode) -> float | None:
        program = modes.get(practised.get(episode.spec.scene_id) or "")
        return None if program is None else program.tools.candidate_temperature

    return dataclasses.replace(guide, temperature_of=temperature_of)


def committed_guide(config: settings.Config, workdir: Path, commit: Commit) -> Guide | None:
    """The actor of ``actor.evaluate`` from the critic that a commit names, without opening the run for writing.

    Raises:
      CheckpointError: it is gone or damaged.
    """
    mode = config.actor.evaluate
    if mode == "policy" or commit.critic is None:
        return None
    judge = committed(workdir / CRITICS, config.checkpoint.keep, critic.template(config), commit.critic, commit.critic_sha256)
    with Memory.reading(workdir / FILE) as memory:
        return made(config, mode, judge.critic.params, potentials.met(memory, config, commit.critic_round))
