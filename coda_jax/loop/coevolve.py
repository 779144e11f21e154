"""The main job, stage by stage: scenes and demonstrations, cloning, evaluation, report. Each stage commits; the same command goes on."""

from __future__ import annotations

import collections
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.evaluation.metrics import Summary, write_summary
from coda_jax.evaluation.records import read_records, tally
from coda_jax.evaluation.report import write_report
from coda_jax.evaluation.terminal import Progress, duration, print_suites
from coda_jax.learning import clone as cloning
from coda_jax.learning.dataset import build
from coda_jax.learning.steps import TrainState
from coda_jax.loop import demonstrations, parts
from coda_jax.loop.checkpoint import CheckpointError, Checkpoints
from coda_jax.loop.commit import Journal
from coda_jax.loop.evaluate import evaluate_suites, planned_rollouts
from coda_jax.loop.language import language_of
from coda_jax.loop.seed_scenes import seed_scenes
from coda_jax.programs.sandbox import Sandbox
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.demonstrate import demonstrate, success_by_category

CHECKPOINTS = "checkpoints"


def run(config: settings.Config, workdir: Path, dry_run: bool) -> None:
    """Run what is not yet done of the job in ``workdir``.

    Raises:
      InputError: the run folder is damaged, or too few scenes can be demonstrated. Stopped: SIGTERM; the last commit stands.
    """
    if dry_run:
        _dry_run(config, workdir)
        return
    journal = Journal(workdir)
    try:
        for name, stage in (("demonstrations", _demonstrations), ("clone", _clone), ("evaluate", _evaluate)):
            if journal.done(name):
                print(f"{name}: done before, in {duration(journal.state[name]['wall_s'])}")
                continue
            began, compiled = time.monotonic(), runtime.compile_count()
            before = float(journal.state.get(name, {}).get("wall_s", 0.0))
            result = stage(config, workdir, journal)
            wall = before + time.monotonic() - began
            compiles = runtime.compile_count() - compiled
            journal.metrics.write("stage", name=name, wall_s=wall, compiles=compiles, **result)
            journal.commit(name, done=True, wall_s=wall, compiles=compiles)
        _finish(config, workdir, journal)
    finally:
        journal.close()


def _dry_run(config: settings.Config, workdir: Path) -> None:
    rollouts = planned_rollouts(config)
    print(f"run folder       {workdir}")
    print(f"bucket           {parts.BUCKET.name}, {config.sim.worlds} worlds, native MuJoCo")
    print(f"demonstrations   {config.demos.count}, in blocks of {config.demos.wave} scene programs")
    print(f"cloning          {config.clone.steps} updates of {config.clone.batch} chunks")
    print(f"evaluation       {rollouts} rollouts of at most {config.horizon} control steps ({config.evaluate.split} suites)")
    seconds = config.demos.count / 8 + config.clone.steps / 40 + rollouts / 8 + 60
    print(f"memory           about {0.8 + 6e-5 * config.demos.count * 60 / 1000 + 0.004 * config.sim.worlds:.1f} GB")
    print(f"time             about {duration(seconds)} on two cores, start-up included")


def _demonstrations(config: settings.Config, workdir: Path, journal: Journal) -> dict[str, Any]:
    stored = journal.state.get("demonstrations", {})
    block, count, sim_steps = int(stored.get("blocks", 0)), int(stored.get("count", 0)), int(stored.get("sim_steps", 0))
    accepted = int(stored.get("accepted", 0))
    rejected = collections.Counter(stored.get("rejected", {}))
    causes = collections.Counter(stored.get("causes", {}))
    categories = {name: list(kn) for name, kn in stored.get("categories", {}).items()}
    catalogue, sim = Catalogue.all(), parts.simulator_of(config)
    empty = 0
    with Sandbox(parts.limits_of(config)) as sandbox, Progress("demonstrations", config.demos.count, "demonstrations") as progress:
        progress.update(min(count, config.demos.count))
        while count < config.demos.count:
            runtime.check_stop()
            size = config.demos.wave
            # One stream of seeds per run seed, far apart.
            first = config.seed * 1_000_003 + block * size
            scenes = seed_scenes(config.family, range(first, first + size), sandbox, parts.validity_of(config), rejected)
            accepted += len(scenes)
            episodes = [parts.episode_of(spec, config.horizon, (seed, 0)) for seed, spec in scenes]
            before = sim.physics_steps
            trajectories = sorted(
                demonstrate(sim, catalogue, episodes, parts.planner_of(config), parts.noise_of(config), config.seed),
                key=lambda t: t.episode.key,
            )
            sim_steps += sim.physics_steps - before
            kept = [t for t in trajectories if t.success][: config.demos.count - count]
            causes.update(t.cause for t in trajectories if not t.success)
            for name, (k, n) in success_by_category(trajectories, catalogue).items():
                total = categories.setdefault(name, [0, 0])
                total[0], total[1] = total[0] + k, total[1] + n
            if kept:
                demonstrations.store(workdir, block, [demonstrations.demonstration_of(t) for t in kept])
                block, empty = block + 1, 0
            else:
                block, empty = block + 1, empty + 1
                demonstrations.store_empty(workdir, block - 1)
            count += len(kept)
            journal.commit(
                "demonstrations",
                blocks=block,
                count=count,
                sim_steps=sim_steps,
                accepted=accepted,
                rejected=dict(rejected),
                causes=dict(causes),
                categories=categories,
            )
            progress.update(count)
            if empty >= 3:
                raise InputError(
                    f"none of the last {3 * size} scenes was certified: raise config.horizon or config.planner.speed ({dict(causes)})"
                )
    print("planner success by category:")
    for name, (k, n) in sorted(categories.items()):
        print(f"  {name:<12} {k}/{n}")
        journal.metrics.write("planner", category=name, k=k, n=n)
    return {"done": count, "unit": "demonstrations"}


def _clone(config: settings.Config, workdir: Path, journal: Journal) -> dict[str, Any]:
    policy, training, encoder = parts.policy_of(config), parts.training_of(config), parts.encoder_of()
    demos = demonstrations.load(workdir, int(journal.state["demonstrations"]["blocks"]))
    data = build(demos, encoder.encode)
    language = language_of(config.family, encoder.encode) if training.language_batch else None
    with Checkpoints(workdir / CHECKPOINTS, config.checkpoint.keep) as checkpoints:
        state = None
        if checkpoints.steps():
            state = checkpoints.restore(cloning.start(policy, training, data, config.seed)).tree
        with Progress("cloning", training.steps, "updates") as progress:

            def shown(p: cloning.Progress) -> None:
                runtime.check_stop()
                progress.update(p.step, loss=p.motor_loss)
                if p.step % config.checkpoint.every == 0 or p.step == training.steps:
                    journal.metrics.write("train", step=p.step, loss=p.motor_loss, grounding=p.grounding_loss)

            def save(saved: TrainState) -> None:
                checkpoints.save(int(saved.step), saved)
                journal.commit("clone", step=int(saved.step))

            cloning.clone(policy, training, data, language, config.seed, state, shown, save, config.checkpoint.every)
    return {"done": training.steps, "unit": "updates"}


def restore_policy(config: settings.Config, workdir: Path, demos_blocks: int) -> Any:
    """Averaged parameters of the newest intact checkpoint.

    Raises:
      InputError: there is none.
    """
    policy, training = parts.policy_of(config), parts.training_of(config)
    data = build(demonstrations.load(workdir, demos_blocks), parts.encoder_of().encode)
    with Checkpoints(workdir / CHECKPOINTS, config.checkpoint.keep) as checkpoints:
        try:
            return checkpoints.restore(cloning.start(policy, training, data, config.seed)).tree.ema
        except CheckpointError as error:
            raise InputError(str(error)) from None


def _evaluate(config: settings.Config, workdir: Path, journal: Journal) -> dict[str, Any]:
    params = restore_policy(config, workdir, int(journal.state["demonstrations"]["blocks"]))
    done = journal.state.get("evaluate", {})
    sim_steps, compiles = int(done.get("sim_steps", 0)), int(done.get("later_compiles", 0))
    finished: list[str] = list(done.get("suites", []))
    rollouts = 0
    for suite, outcome in _suites(config, workdir, params, finished):
        finished.append(suite)
        sim_steps += outcome["sim_steps"]
        compiles += outcome["compiles"] if outcome["warm"] else 0
        rollouts += outcome["rollouts"]
        for picture in outcome["pictures"]:
            journal.metrics.write("scene", **picture)
        journal.commit("evaluate", suites=finished, sim_steps=sim_steps, later_compiles=compiles)
    return {"done": rollouts, "unit": "rollouts"}


def _suites(config: settings.Config, workdir: Path, params: Any, finished: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    todo = [s for s in config.evaluate.suites if s not in finished]
    return evaluate_suites(config, workdir, params, todo)


def _finish(config: settings.Config, workdir: Path, journal: Journal) -> None:
    state = journal.state
    suites = tally(read_records(workdir), config.evaluate.split)
    write_summary(
        workdir,
        Summary(
            seed=config.seed,
            wall_s=sum(float(s.get("wall_s", 0.0)) for s in state.values()),
            accepted=state["demonstrations"]["accepted"],
            rejected=dict(state["demonstrations"]["rejected"]),
            compiles_per_round=[int(state["evaluate"].get("later_compiles", 0))],
            sim_steps=int(state["demonstrations"]["sim_steps"]) + int(state["evaluate"]["sim_steps"]),
            suites=suites,
        ),
    )
    print_suites(suites)
    print(f"report: {write_report(workdir)}")
