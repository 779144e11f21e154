"""Every executable of the run is built before its first stage, by going through the stages' own code on one scene and no updates.

What compiles after this is counted: new scenes, goals and programs must add nothing.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp

from coda_jax import config as settings
from coda_jax.evaluation.rollouts import rollout
from coda_jax.evaluation.scan_rollouts import InScan, ScanSimulator, build, expected_size
from coda_jax.evaluation.terminal import Progress, interject
from coda_jax.learning import clone
from coda_jax.learning.pictures import blank
from coda_jax.learning.steps import train_steps
from coda_jax.loop import cloning, demonstrations, evaluation, guides, parts, pictures, rehearsal
from coda_jax.loop.rounds import critic, potentials
from coda_jax.loop.rounds import training as round_training
from coda_jax.loop.run import Run
from coda_jax.loop.shared_rollouts import rollout_key
from coda_jax.scenes.generate import training_scene
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.demonstrate import demonstrate
from coda_jax.sim.platforms import check, token_index
from coda_jax.sim.simulator import episode_of
from coda_jax.sim.supervision.record import goal_met

_HORIZON = 2  # control steps


def warm_up(run: Run) -> None:
    """Build what the stages that are not done need."""
    config, catalogue = run.config, run.train
    spec = training_scene(catalogue, settings.families(config)[0], 0)
    episode = episode_of(spec, _HORIZON, (0, 0))
    with Progress("warm-up", 4, "parts", even=False) as progress:
        progress.update(0, part="text encoder")
        run.encoder.prepare()
        progress.update(1, part="checks of scenes")
        if "demonstrations" not in run.state.done:
            check([spec], catalogue, parts.validity_of(config))
        progress.update(2, part="training")
        sim = parts.native_simulator(config, run.everything, parts.training_bucket(config, catalogue))
        trajectory = next(iter(demonstrate(sim, run.everything, [episode], parts.planner_of(config), parts.noise_of(config), 0)))
        policy, training = parts.policy_of(config), parts.training_of(config)
        if policy.goals > 1:  # an inspector asks which of the goals was reached
            goal_met(spec.task.goal, token_index(spec, run.everything), trajectory.views, 0)
        data = cloning.dataset(config, [demonstrations.to_demonstration(trajectory, run.everything)], run.encoder)
        state = clone.start(policy, training, data, config.seed)
        if cloning.NAME not in run.state.done:
            words = cloning.language(config, catalogue, run.encoder)
            key = jax.random.fold_in(jax.random.key(config.seed), 1)
            seen = blank(pictures.shape(config)).block(key, 0, training.batch) if config.obs == "pixels" else None
            state, _ = train_steps(policy, training, state, data, words, key, jnp.asarray(0, jnp.int32), seen)
        if config.rounds.count:
            words = cloning.language(config, catalogue, run.encoder)
            again, key = round_training.training_of(run), jax.random.fold_in(jax.random.key(config.seed), 1)
            if parts.learns(config):
                rehearsal.rehearse(run, trajectory, state.ema, data, words)
            else:
                state, _ = train_steps(policy, again, round_training.begin(run, state.ema), data, words, key, jnp.asarray(0, jnp.int32))
        progress.update(3, part="rollouts")
        rehearse_rollouts(run.config, state.ema, run)
        progress.update(4)


def rehearse_rollouts(config, params, run: Run) -> None:
    """Two decisions of the policy in every simulator of evaluation and rounds whose executables are its own, in a scene that fits all.

    On MJX each of LIBERO's families has an executable, for its scenes differ in numbers alone.
    """
    scenes = [s for specs in evaluation.chosen_scenes(config).values() for s in specs]
    buckets = [parts.common_bucket(scenes, run.everything)]
    if config.rounds.count:
        buckets.append(parts.training_bucket(config, run.train))
    own: dict[Bucket | None, Bucket] = {}
    for bucket in buckets:  # native physics compiles nothing: one is like the other there
        own.setdefault(parts.device_bucket(config, bucket) if parts.backend(config, bucket) == "mjx" else None, bucket)
    apart = settings.of_libero(config) and None not in own
    first = list({spec.task.family: spec for spec in reversed(scenes)}.values()) if apart else scenes[:1]
    for bucket, spec in itertools.product(own.values(), first):
        _rehearse(config, params, run, bucket, spec)


def _rehearse(config, params, run: Run, bucket: Bucket, spec: SceneSpec) -> None:
    episodes = [episode_of(spec, _HORIZON, (0, 0))] * 2
    policy, sim = parts.policy_of(config), parts.simulator(config, run.everything, bucket)
    key = rollout_key(config.seed, config.evaluate.suites[0])
    modes = {config.actor.collect, config.actor.evaluate} - {"policy"} if parts.learns(config) else set()
    for mode in ("policy", *sorted(modes)):
        guide = None
        if mode != "policy":
            guide = guides.made(config, mode, critic.start(config, params).critic.params, potentials.InUse({}, {}))
        simulator, policy_fn = evaluation.acting(policy, params, sim, run.everything, guide)
        if isinstance(simulator, ScanSimulator) and isinstance(policy_fn, InScan):
            embed, executed = run.encoder.encode, config.evaluate.executed
            for size in (simulator.size(episodes[0]), expected_size(simulator, episodes[0], policy_fn, embed)):
                interject(size.line(simulator.worlds))
            build(simulator, run.everything, episodes[0], policy_fn, embed, executed, key, lambda b: interject(b.line()))
        else:
            episodes = [episodes[0]] * (simulator.worlds + 1)  # the last one refills a world, by an executable of its own on MJX
        for _ in rollout(simulator, run.everything, episodes, policy_fn, run.encoder.encode, config.evaluate.executed, key):
            pass
