"""Who acts in rollouts: the policy alone, or an actor that lets the critic choose among the policy's chunks."""

from __future__ import annotations

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
from coda_jax.programs.training.program import AnyProgram


def made(config: settings.Config, mode: str, params: Params, program: AnyProgram) -> Guide:
    """An actor of ``mode`` whose critic is told one program for all scenes: choices do not depend on the potential (METHOD 2)."""
    return Guide(improvement.actor_of(config, mode), improvement.critic_of(config), params, lambda _: None, program)


def guide_of(run: Run, mode: str) -> Guide | None:
    """The actor of a run; None for the policy alone, and before there is a critic."""
    judge = None if mode == "policy" else critic.judge_of(run)
    return None if judge is None else made(run.config, mode, judge.critic.params, potentials.in_use(run.memory, run.config).default)


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
        return made(config, mode, judge.critic.params, potentials.in_use(memory, config).default)
