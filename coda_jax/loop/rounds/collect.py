"""Stage "collect": the present policy on fresh training scenes and on edited variants of them."""

from __future__ import annotations

import numpy as np

from coda_jax import runtime
from coda_jax.agents.base import Outcome, Trial
from coda_jax.evaluation.terminal import Progress
from coda_jax.evaluation.trials import success_interval, success_rate
from coda_jax.loop import cloning, demonstrations, parts
from coda_jax.loop.journal import file_sha256
from coda_jax.loop.rounds import outcomes as stored
from coda_jax.loop.rounds import recall, rows, trajectories
from coda_jax.loop.rounds.rollouts import Rollouts
from coda_jax.loop.rounds.variants import Base, Batch, Made, random_variant, seed_of, verified
from coda_jax.loop.run import Finished, Run
from coda_jax.loop.seed_scenes import SceneSource
from coda_jax.sim.replay import replay
from coda_jax.sim.simulator import Episode, episode_of

SPARE = 2  # bases for each scene of a control test: edits do not apply in all of them
REDRAWS = 3  # of variants that are no fair task


def base_scenes(run: Run, round_number: int, source: SceneSource) -> list[Base]:
    """The round's fresh scenes: those after the ones that demonstrations came from."""
    return _fresh(run, round_number, source, 0, run.config.rounds.bases)


def test_scenes(run: Run, round_number: int, source: SceneSource) -> list[Base]:
    """Further fresh scenes, for control tests alone: on these no level was searched and no failure was picked."""
    return _fresh(run, round_number, source, run.config.rounds.bases, SPARE * run.config.control.most_scenes)


def _fresh(run: Run, round_number: int, source: SceneSource, skip: int, count: int) -> list[Base]:
    each = run.config.rounds.bases + SPARE * run.config.control.most_scenes
    first = run.state.used + (round_number - 1) * each + skip
    there = len(source.scenes)
    missing = first + count - there
    if missing > 0:
        with Progress(f"round {round_number}, scenes", missing, "scenes") as progress:
            while progress.done < missing:
                runtime.check_stop()
                source.more()
                progress.update(min(missing, len(source.scenes) - there))
    return [Base(first + i, source.get(first + i).spec) for i in range(count)]


def random_variants(run: Run, bases: list[Base], batch: Batch, *seed: object, draw=random_variant) -> list[Made]:
    """At most one valid variant of each base, in their order; ``draw`` makes a candidate of a base, ``batch`` notes what became of it."""
    rng = np.random.default_rng(np.random.SeedSequence([seed_of(run.config.seed, *seed)]))
    waiting, found = list(bases), {}
    with Progress("variants", len(bases), "scenes") as progress:
        for _ in range(REDRAWS):
            runtime.check_stop()
            candidates = []
            for base in waiting:
                made = draw(run, base, rng)
                if made is None:
                    batch.refuse("nothing to edit")
                else:
                    candidates.append(made)
            for made in verified(run, candidates, batch, run.config.engine.repairs):
                found[made.base.number] = made
            progress.update(len(found))
            waiting = [b for b in waiting if b.number not in found]
            if not waiting:
                break
    return [found[b.number] for b in bases if b.number in found]


def run_stage(run: Run, round_number: int) -> Finished:
    """Roll out bases and variants, keep the policy's own successes to learn from."""
    config = run.config
    with SceneSource(run) as source:
        bases = base_scenes(run, round_number, source)
        changes = source.store()
    batch = Batch()
    variants = random_variants(run, bases, batch, "collect", round_number)
    specs = [(b.number, b.spec) for b in bases] + [(v.base.number, v.spec) for v in variants]
    trials = [Trial(spec, (number, repeat)) for number, spec in specs for repeat in range(config.rounds.collect)]
    rollouts = Rollouts(run, cloning.trained(run).ema, "collect")
    with rollouts.runner("collect", round_number, len(trials), "collect") as rollout_fn:
        outcomes = rollout_fn(trials)
    files = dict(changes["files"])
    path = f"episodes/rollouts_r{round_number:02d}_collect.npz"
    stored.save(run.folder / path, outcomes)
    files[path] = file_sha256(run.folder / path)
    own = None if parts.learns(config) else _own_successes(run, round_number, outcomes)  # a critic weights them instead
    if own:
        files[own] = file_sha256(run.folder / own)
    scenes = rows.SceneRows(recall.scene_ids(run.memory))
    for base in bases:
        scenes.add(base.spec, "seed", round_number)
    for made in variants:
        scenes.add_made(made, "novelty", round_number)
    fresh, edited = outcomes[: len(bases) * config.rounds.collect], outcomes[len(bases) * config.rounds.collect :]
    (k, n), (vk, vn) = success_rate(fresh), success_rate(edited)
    run.say(f"round {round_number}: {k}/{n} on fresh training scenes, {vk}/{vn} on edited ones")
    run.metrics.write(
        "collect",
        round=round_number,
        k=k,
        n=n,
        interval=success_interval(fresh),
        edited_k=vk,
        edited_n=vn,
        edited_interval=success_interval(edited),
        refused=batch.refused,
    )
    assert run.state.checkpoint is not None
    episodes = rows.episode_rows(outcomes, "collect", round_number, run.state.checkpoint, path)
    return Finished(
        {"done": len(outcomes), "unit": "rollouts"},
        [*scenes.rows, *rows.construction_rows(batch.history, round_number), *episodes],
        changes | {"files": files},
        rollouts.physics_steps,
        rollouts.count,
    )


def _own_successes(run: Run, round_number: int, outcomes: list[Outcome]) -> str | None:
    """Store the first ``rounds.own`` successes as demonstrations, one of each scene before second ones; None without any."""
    chosen = sorted((o for o in outcomes if o.success and o.steps and not o.health), key=lambda o: o.trial.key[1])[: run.config.rounds.own]
    if not chosen:
        return None
    sim = parts.native_simulator(run.config, run.everything, parts.training_bucket(run.config, run.train))
    horizon = parts.horizon_of(run.config)
    episodes = [(episode_of(o.trial.spec, horizon(o.trial.spec), o.trial.key), o) for o in chosen]
    jobs = {_identity(episode): (episode, o.actions) for episode, o in episodes}
    batch = run.substeps.batch(trajectories.save, lambda path: trajectories.load(path, lambda *identity: jobs[identity][0]))
    found = {_identity(t.episode): t for t in batch.known}
    with Progress(f"round {round_number}, own successes", len(jobs), "rollouts") as progress:
        progress.skip(len(found))
        for trajectory in replay(sim, [job for identity, job in jobs.items() if identity not in found]):
            runtime.check_stop()
            found[_identity(trajectory.episode)] = trajectory
            progress.advance()
            batch.add(trajectory)
    again = sorted((found[i] for i in jobs if found[i].success), key=lambda t: t.episode.key)  # equals: as they were chosen
    if not again:
        return None
    path = f"episodes/own_r{round_number:02d}.npz"
    demonstrations.store(run.folder / path, again, run.everything)
    return path


def _identity(episode: Episode) -> tuple[str, tuple[int, int]]:
    return episode.spec.scene_id, episode.key
