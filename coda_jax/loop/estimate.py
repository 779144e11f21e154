"""``--dry_run``: what a run would do and about how long it takes, before anything starts."""

from __future__ import annotations

import os
from pathlib import Path

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.evaluation.terminal import duration
from coda_jax.loop import evaluation, parts, requirements
from coda_jax.loop.journal import read_commits
from coda_jax.loop.rounds.rollouts import KEPT
from coda_jax.loop.strategies import STRATEGIES
from coda_jax.scenes.catalogue import Catalogue

# Seconds on one core of a server CPU of 2023; the reader gets a rough figure, nothing depends on them.
_START_S, _SCENE_S, _DEMO_S, _ROLLOUT_S, _FILM_S = 25.0, 0.03, 0.10, 0.10, 0.25
_UPDATE_S_PER_FLOP = 8e-11


def describe(config: settings.Config, workdir: Path) -> str:
    """The lines that ``--dry_run`` prints.

    Raises:
      InputError: as ``requirements.check``.
    """
    requirements.check(config)
    scenes = evaluation.chosen_scenes(config)
    bucket = requirements.evaluation_bucket(config)
    backend = parts.backend(config, bucket)
    rollouts = {suite: len(specs) * config.evaluate.seeds for suite, specs in scenes.items()}
    parameters = requirements.parameter_count(config)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    films = 2 * config.evaluate.films * len(scenes)
    stages = {
        "warm-up": _START_S,
        "scenes": config.demos.count * _SCENE_S,
        "demonstrations": config.demos.count * _DEMO_S / cores,
        "clone": config.clone.steps * 6 * parameters * config.clone.batch * _UPDATE_S_PER_FLOP / cores,
        "evaluate": (1 + bool(config.rounds.count)) * (sum(rollouts.values()) * _ROLLOUT_S + films * _FILM_S) / cores,
    }
    each_round = round_rollouts(config)
    if config.rounds.count:
        demos = config.rounds.environments * config.rounds.demos
        updates = stages["clone"] * config.rounds.steps / config.clone.steps
        scenes_s = (config.rounds.bases + config.control.most_scenes) * _SCENE_S
        one = scenes_s + (sum(each_round.values()) * _ROLLOUT_S + demos * _DEMO_S) / cores + updates
        stages[f"{config.rounds.count} rounds"] = config.rounds.count * one
    memory, states = requirements.memory_bytes(config), (config.checkpoint.keep + 1) * requirements.state_bytes(config)
    disk = config.demos.count * 80 * requirements.ROW_BYTES + states + films * 60e3
    if config.experience.record:
        kept = sum(n for purpose, n in each_round.items() if purpose in KEPT)
        disk += config.rounds.count * kept * requirements.RECORD_BYTES
    done = " (a run of this configuration is there and goes on)" if read_commits(workdir) else ""
    lines = [
        f"run folder      {workdir}{done}",
        f"machine         {runtime.device_summary()}",
        f"buckets         demonstrations {parts.training_bucket(Catalogue('train')).name} (native), evaluation {bucket.name} ({backend})",
        f"worlds          {config.sim.worlds} together",
        f"demonstrations  {config.demos.count}, each of a scene of its own, at most {config.horizon} control steps",
        f"policy          {parameters:,} parameters, chunks of {config.policy.chunk}",
        f"updates         {config.clone.steps:,} of {config.clone.batch} chunks, a checkpoint every {config.checkpoint.every:,}",
        f"rollouts        {sum(rollouts.values()):,} on {config.evaluate.split}: "
        + ", ".join(f"{suite} {n}" for suite, n in rollouts.items())
        + f"; {config.evaluate.executed} actions of each chunk executed",
        *_round_lines(config, each_round),
        "language model  none: 0 tokens",
        f"memory          about {memory / 1e9:.1f} GB; disk about {disk / 1e6:.0f} MB",
        f"time            about {duration(sum(stages.values()))} on {cores} cores: "
        + ", ".join(f"{name} {duration(seconds)}" for name, seconds in stages.items()),
    ]
    return "\n".join(lines)


def round_rollouts(config: settings.Config) -> dict[str, int]:
    """Rollouts of one round by purpose, at most; a round whose modes are few or decided early takes fewer."""
    rounds, engine, control = config.rounds, config.engine, config.control
    counts = {"collect": 2 * rounds.bases * rounds.collect}
    if STRATEGIES[config.strategy].diagnoses:
        counts["diagnose"] = 5 * config.diagnose.failures * config.diagnose.rerollouts
        counts["search"] = engine.modes * len(engine.levels) * engine.scenes * engine.rollouts
        counts["control"] = 2 * control.modes * control.most_scenes * control.rollouts
    if STRATEGIES[config.strategy].proposes == "in_band":
        counts["choose"] = rounds.bases * rounds.rollouts
    counts["measure"] = 4 * rounds.environments * rounds.rollouts
    return counts


def _round_lines(config: settings.Config, each_round: dict[str, int]) -> list[str]:
    if not config.rounds.count:
        return []
    rounds = config.rounds
    listed = ", ".join(f"{purpose} {n}" for purpose, n in each_round.items())
    return [
        f"rounds          {rounds.count} of {config.strategy}: {rounds.environments} environments, {rounds.demos} demonstrations each, "
        f"{rounds.steps:,} updates a block",
        f"                at most {sum(each_round.values()):,} rollouts a round: {listed}",
    ]
