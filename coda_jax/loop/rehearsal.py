"""The learning of a round gone through once before the first one: its executables are built, nothing is learned."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from coda_jax.agents.base import Failing
from coda_jax.learning import lora
from coda_jax.learning.awr import decision_weights, init_spread, own_rows, policy_steps
from coda_jax.learning.critic import steps
from coda_jax.learning.dataset import Dataset
from coda_jax.learning.experience import Draw, refresh_candidates
from coda_jax.learning.policies.base import Params
from coda_jax.learning.policies.grounding import LanguageSet
from coda_jax.learning.records import EpisodeRecord, decisions
from coda_jax.loop import demonstrations, improvement, parts
from coda_jax.loop.check_training import TrainingCheck
from coda_jax.loop.rounds import critic
from coda_jax.loop.rounds.training import begin, training_of
from coda_jax.loop.run import Run
from coda_jax.programs.sandbox import Sandbox
from coda_jax.programs.training.gates import constructed
from coda_jax.programs.training.measured import measure
from coda_jax.programs.training.program import TrainingProgram, evaluate_training
from coda_jax.scenes.families import PHASES
from coda_jax.sim.demonstrate import Trajectory
from coda_jax.sim.potentials import program_scene


def rehearse(run: Run, trajectory: Trajectory, params: Params, data: Dataset, words: LanguageSet | None) -> None:
    """Potentials, table, critic, weights and updates on one episode, with no update carried out.

    trajectory: of any success. params: of the policy. data, words: as the rounds train on them.
    """
    config, policy, spec = run.config, parts.policy_of(run.config), trajectory.episode.spec
    with Sandbox(parts.limits_of(config)) as sandbox:
        (text,) = improvement.compiler_of(config).compile([Failing(spec.task.family, "EXECUTION", PHASES[0], "")])
        program = evaluate_training(text, sandbox)
    scene = program_scene(spec, run.everything)
    if isinstance(program, TrainingProgram):
        program = constructed(program, TrainingCheck(config, spec.task.family).demonstrations).program
        measure(program, [(scene, trajectory.views)])
    demo = demonstrations.to_demonstration(trajectory, run.everything)
    cut = decisions(len(trajectory.executed), config.evaluate.executed)
    record = EpisodeRecord(
        trajectory.views, trajectory.executed, cut, 0, trajectory.success, "demonstration", demo.names, demo.instruction, demo.roles, 1.0
    )
    labels = improvement.labels_of([record], [scene], [program])
    acting = lora.merged(params)
    key = critic.key_of(run, 0, 0)
    whole = refresh_candidates(policy, acting, improvement.build(config, [record], labels, run.encoder), key)
    judge = critic.start(config, acting)
    counts = (0,) * 3
    share = jnp.asarray((config.critic.batch, *counts), jnp.int32)
    state, _ = steps.critic_steps(
        improvement.critic_of(config),
        improvement.critic_training_of(config),
        Draw(config.critic.batch),
        judge.critic,
        (whole, share),
        key,
        jnp.asarray(0, jnp.int32),
    )
    if config.potential.refine:
        old = improvement.relabelled(whole, [record], labels, policy.chunk)
        state = improvement.shift_critic(config, state, whole, old, tuple(share.tolist()), key, updates=0)
    values = improvement.values_of(config, state.params, whole)
    own_rows(whole)
    weights, _, _ = decision_weights(improvement.awr_of(config), init_spread(), whole, improvement.advantages_of(config, whole, values))
    if config.awr.improve == "frozen":
        return
    training = training_of(run)
    share = jnp.asarray((training.batch, *counts), jnp.int32)
    trained, _ = policy_steps(
        policy,
        training,
        improvement.awr_of(config),
        begin(run, jax.tree.map(jnp.copy, params)),
        data,
        whole,
        share,
        weights,
        judge.clone,
        words,
        key,
        jnp.asarray(0, jnp.int32),
    )
    lora.merged(trained.ema)
