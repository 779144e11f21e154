"""``--dry_run``: what a run would do and about how long it takes, before anything starts."""

from __future__ import annotations

import dataclasses
import math
import os
from pathlib import Path

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.evaluation.terminal import duration
from coda_jax.loop import evaluation, language, mjx_worlds, parts, requirements
from coda_jax.loop import workdir as folders
from coda_jax.loop.journal import read_commits
from coda_jax.loop.round_budget import episodes_of_a_round, most_blocks, round_rollouts
from coda_jax.loop.rounds.collect import SPARE
from coda_jax.loop.rounds.rollouts import KEPT
from coda_jax.loop.strategies import STRATEGIES
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue

# The start-up in seconds, from an empty compilation cache; else CPU seconds of the quickstart and of runs without rounds on two idle
# cores of an x86 server, from their ledger.json: `python -m benchmarks.estimate --run=runs/quickstart` sets a run's own beside these.
# A rough figure for the reader; nothing depends on them.
_START_S, _CRITIC_START_S = 15.0, 11.0  # _CRITIC_START_S: more where a critic learns
_UPDATE_S_PER_FLOP = 2.1e-11
_DEMO_STEPS = 80  # of a demonstration, about
_PICTURE_S_PER_BYTE = 3.2e-3 / (64 * 64 * 3)  # of the native renderer
_TOPPED_UP = 0.1  # of the rollouts that the band may ask for: in the quickstart it asked for fewer
# of docs/critic.md and docs/experience.md: a critic's update at width 64, 4 layers and 64 transitions; a row of the table, once a round
# (label, candidates, values); a weighted update also asks the clone, forward alone
_CRITIC_UPDATE_S, _CRITIC_WORK, _ROW_S, _WEIGHTED = 0.018, 64 * 4 * 64, 2.3e-4, 4 / 3
_SERIAL = 0.2  # share of the work that more cores do not shorten: two idle cores were worth 1.65


@dataclasses.dataclass(frozen=True)
class _Rates:
    """CPU s of a checked scene, and for each control step of the horizon of a demonstration, a rollout and a film."""

    scene: float
    demo_step: float
    rollout_step: float
    film_step: float


_OWN, _LIBERO = _Rates(0.04, 4.0e-4, 4.8e-4, 4e-3), _Rates(0.31, 3.1e-3, 4.3e-3, 4e-3)


def busy_cores(cores: int) -> float:
    """How many times faster than on one core (Amdahl 1967)."""
    return 1 / (_SERIAL + (1 - _SERIAL) / cores)


def rounds_together(count: int) -> str:
    """What the part of all rounds is called: "1 round", "3 rounds"."""
    return "1 round" if count == 1 else f"{count} rounds"


def stage_seconds(config: settings.Config, rollouts: int, films: int, products: int, cores: int) -> dict[str, float]:
    """About how long each part of a run takes, s. rollouts, films: of one evaluation. Rounds at their longest.

    products: as ``requirements.products_of_a_chunk``.
    """
    rates, horizon = _LIBERO if settings.of_libero(config) else _OWN, settings.longest_horizon(config)
    demo_s, rollout_s, film_s = (rate * horizon for rate in (rates.demo_step, rates.rollout_step, rates.film_step))
    work = {
        "scenes": math.ceil(config.demos.count / config.sim.worlds) * config.sim.worlds * rates.scene,
        "demonstrations": config.demos.count * demo_s,
        "clone": config.clone.steps * 6 * products * config.clone.batch * _UPDATE_S_PER_FLOP,
        "evaluate": (1 + bool(config.rounds.count)) * (rollouts * rollout_s + films * film_s),
    }
    if config.obs == "pixels":
        decisions = settings.longest_horizon(config) / config.evaluate.executed
        states = config.demos.count * _DEMO_STEPS / config.pixels.every, rollouts * decisions
        drawn, seen = (requirements.picture_bytes(config, 1) * _PICTURE_S_PER_BYTE * n for n in states)
        work |= {"pictures": drawn, "evaluate": work["evaluate"] + seen}
    if rounds := config.rounds.count:
        scenes = config.rounds.bases + (SPARE * config.control.most_scenes if STRATEGIES[config.strategy].diagnoses else 0)
        demos = config.rounds.environments * config.rounds.demos
        updates = work["clone"] * config.schedule.most_updates / config.clone.steps
        counts = round_rollouts(config)
        episodes = sum(counts.values()) - (1 - _TOPPED_UP) * counts["band"]
        if parts.learns(config):
            updates = 0.0 if config.awr.improve == "frozen" else _WEIGHTED * updates
        one = scenes * rates.scene + demos * demo_s + episodes * rollout_s + updates
        work[rounds_together(rounds)] = rounds * one + critic_seconds(config)
    return {"warm-up": _START_S + _CRITIC_START_S * parts.learns(config)} | {
        name: seconds / busy_cores(cores) for name, seconds in work.items()
    }


def critic_seconds(config: settings.Config) -> float:
    """CPU seconds of the critic in all rounds: its updates, and the table, which grows with the rounds. 0 where none learns."""
    if not parts.learns(config):
        return 0.0
    c = config.critic
    update = _CRITIC_UPDATE_S * c.width * c.layers * c.batch / _CRITIC_WORK  # at such sizes time grows with the width, not its square
    kept = episodes_of_a_round(config) + round_rollouts(config)["measure"]
    decisions = math.ceil(settings.longest_horizon(config) / config.evaluate.executed)
    rows = [min(config.experience.rows, (config.experience.seeds + n * kept) * decisions) for n in range(1, config.rounds.count + 1)]
    return config.rounds.count * c.steps * update + sum(rows) * _ROW_S


def describe(config: settings.Config, workdir: Path) -> str:
    """The lines that ``--dry_run`` prints, also for a folder in which the run itself would be refused.

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
    stages = stage_seconds(config, sum(rollouts.values()), films, requirements.products_of_a_chunk(config), cores)
    each_round = round_rollouts(config)
    most = ", with all the rollouts and updates that rounds may ask for" if config.rounds.count else ""
    if backend == "mjx" and mjx_worlds.compiles_long(parts.device_bucket(config, bucket)):
        most += ", without compiling MJX, which takes a CPU minutes"
    memory, states = requirements.memory_bytes(config), (config.checkpoint.keep + 1) * requirements.state_bytes(config)
    disk = config.demos.count * _DEMO_STEPS * requirements.ROW_BYTES + states + films * 60e3
    if config.obs == "pixels":
        disk += requirements.picture_bytes(config, config.demos.count * _DEMO_STEPS // config.pixels.every)
    if parts.learns(config):
        kept = sum(n for purpose, n in each_round.items() if purpose in KEPT)
        disk += config.rounds.count * kept * requirements.RECORD_BYTES
        disk += (config.checkpoint.keep + 1) * requirements.critic_state_bytes(config)
    training = parts.training_bucket(config, Catalogue("train"))
    done, refused = "", []
    try:
        if folders.check(workdir, config) and read_commits(workdir):
            done = " (a run of this configuration is there and goes on)"
    except InputError as error:  # nothing is started, so the rest can be said all the same
        refused = [f"REFUSED         {error}"]
    lines = [
        f"run folder      {workdir}{done}",
        f"machine         {runtime.device_summary()}",
        f"buckets         demonstrations {training.name} (native), evaluation {bucket.name} ({backend})",
        f"worlds          {config.sim.worlds} together",
        f"demonstrations  {config.demos.count}, each of a scene of its own, at most {settings.longest_horizon(config)} control steps",
        f"policy          {parameters:,} parameters, chunks of {config.policy.chunk}",
        f"updates         {config.clone.steps:,} of {config.clone.batch} chunks, a checkpoint every {config.checkpoint.every:,}",
        f"rollouts        {sum(rollouts.values()):,} on {config.evaluate.split}: "
        + ", ".join(f"{suite} {n}" for suite, n in rollouts.items())
        + f"; {config.evaluate.executed} actions of each chunk executed",
        *_round_lines(config, each_round),
        *([f"starts from     {config.memory.start}, {config.memory.start_mode}"] if config.memory.start else []),
        f"language model  {language.describe_most(config)}",
        *([f"MISSING         {absent}"] if (absent := language.missing(config)) else []),
        f"memory          about {memory / 1e9:.1f} GB; disk about {disk / 1e6:.0f} MB",
        f"time            about {duration(sum(stages.values()))} on {cores} idle cores, longer beside other work{most}: "
        + ", ".join(f"{name} {duration(seconds)}" for name, seconds in stages.items()),
        *refused,
    ]
    return "\n".join(lines)


def _round_lines(config: settings.Config, each_round: dict[str, int]) -> list[str]:
    if not config.rounds.count:
        return []
    rounds = config.rounds
    listed = ", ".join(f"{purpose} {n}" for purpose, n in each_round.items())
    return [
        f"rounds          {rounds.count} of {config.strategy}: {rounds.environments} environments, {rounds.demos} demonstrations each, "
        f"at most {most_blocks(config)} x {rounds.steps:,} updates",
        f"                at most {sum(each_round.values()):,} rollouts a round: {listed}",
        *_critic_lines(config),
    ]


def _critic_lines(config: settings.Config) -> list[str]:
    if not parts.learns(config):
        return []
    size = requirements.table_bytes(config) / 1e6
    return [
        f"critic          {requirements.critic_parameter_count(config):,} parameters, {config.critic.steps:,} updates of "
        f"{config.critic.batch} decisions a round; a table of {config.experience.rows:,} decisions, {size:.0f} MB"
    ]
