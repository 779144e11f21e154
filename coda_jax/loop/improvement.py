"""From recorded episodes to a better policy: labels of training programs, the table, the critic, weights of decisions.

What the rounds and the benchmarks do alike; all settings come from the configuration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from coda_jax import config as settings
from coda_jax.agents.scripted.potentials import PotentialSettings, ScriptedPotentials
from coda_jax.agents.scripted.refinement import RefinementSettings
from coda_jax.learning import experience as table
from coda_jax.learning.actor import Actor
from coda_jax.learning.awr import Awr, own_rows
from coda_jax.learning.clone import BLOCK
from coda_jax.learning.critic import relabel, steps
from coda_jax.learning.critic.backup import Backup
from coda_jax.learning.critic.monitor import CalibrationBin, calibration, calibration_error, realised_returns
from coda_jax.learning.critic.network import Critic
from coda_jax.learning.critic.steps import CriticState, CriticTraining
from coda_jax.learning.critic.support import Support
from coda_jax.learning.critic.targets import Rule
from coda_jax.learning.critic.traces import trajectory_advantages
from coda_jax.learning.critic.values import Values, table_values
from coda_jax.learning.encoders.minilm import TEXT_DIM, TextEncoder
from coda_jax.learning.experience import Experience
from coda_jax.learning.policies.base import Params
from coda_jax.learning.records import EpisodeRecord, Labels, labelled_rows
from coda_jax.loop import parts
from coda_jax.programs.training import values as program_values
from coda_jax.programs.training.binding import Scene
from coda_jax.programs.training.code import code
from coda_jax.programs.training.program import AnyProgram
from coda_jax.types import Array

BINS = 10  # of the calibration curve


def critic_of(config: settings.Config) -> Critic:
    chosen, policy = config.critic, parts.policy_of(config)
    support = Support(chosen.projection, chosen.low, chosen.high, chosen.bins, chosen.margin, chosen.smoothing)
    return Critic(
        support=support,
        chunk=policy.chunk,
        executed=config.evaluate.executed,
        tokens=chosen.tokens,
        width=chosen.width,
        layers=chosen.layers,
        heads=chosen.heads,
        text_dim=TEXT_DIM,
        grounding_heads=policy.heads,
        goals=policy.goals,
        key_dim=policy.key_dim,
        yaw_frame=policy.yaw_frame,
        multi_scale=policy.multi_scale,
        cumulative=policy.cumulative,
        early_ends=chosen.early_ends,
    )


def critic_training_of(config: settings.Config) -> CriticTraining:
    c, actor = config.critic, config.actor
    return CriticTraining(
        rule=Rule(c.gamma, c.gamma_unit, c.beta),
        backup=Backup(c.backup, c.backup_temperature),
        learning_rate=c.learning_rate,
        warmup=c.warmup,
        weight_decay=c.weight_decay,
        clip_norm=c.clip_norm,
        tau=c.tau,
        temperature=actor.temperature,
        temperature_unit=actor.temperature_unit,
    )


def awr_of(config: settings.Config) -> Awr:
    return settings.build(Awr, config.awr)


def actor_of(config: settings.Config, mode: str) -> Actor:
    a = config.actor
    return Actor(mode, a.candidates, a.temperature, a.temperature_unit, a.least_sd)


def compiler_of(config: settings.Config) -> ScriptedPotentials:
    """The scripted compiler; loop/compilers.py chooses that of a run."""
    p = config.potential
    refinement = RefinementSettings(p.least_stopped, p.split)
    return ScriptedPotentials(PotentialSettings(p.signal, p.stages, p.dense_weight, p.tools, refinement))


def labels_of(records: Sequence[EpisodeRecord], scenes: Sequence[Scene], programs: Sequence[AnyProgram]) -> list[Labels]:
    """What each episode's training program says about it, evaluated over its recorded moments; all episodes together."""
    lengths = [len(r.actions) + 1 for r in records]
    episode = np.repeat(np.arange(len(records)), lengths)
    views = jax.tree.map(lambda *leaves: np.concatenate(leaves), *[r.views for r in records])
    bound = program_values.tables(programs, scenes)
    raw = program_values.values(bound, episode, views)
    staged = program_values.staged(bound, episode, raw)
    found, first = [], 0
    for record, program, length in zip(records, programs, lengths, strict=True):
        own = slice(first, first + length)
        first += length
        rewards = raw.reward[own][1:].astype(np.float32)  # of the moment that each control step leads to
        if record.success:
            rewards[-1] = 1.0  # not a dense reward on top: values would pass what success is worth
        found.append(Labels(staged.stage[own], staged.progress[own], staged.phi[own], rewards, code(program)))
    return found


def build(config: settings.Config, records: Sequence[EpisodeRecord], labels: Sequence[Labels], encoder: TextEncoder) -> Experience:
    """The table of records with their labels."""
    room = config.experience
    return table.build(records, labels, encoder.encode, config.policy.chunk, config.critic.candidates, room.rows, room.episodes)


def relabelled(experience: Experience, records: Sequence[EpisodeRecord], labels: Sequence[Labels], chunk: int) -> Experience:
    """The table of ``records`` under other labels."""
    return table.relabelled(experience, **labelled_rows(records, labels, chunk))


def start_critic(config: settings.Config, policy_params: Params, seed: int) -> CriticState:
    """A critic before its first update, which reads words and scales actions as the policy does."""
    critic, training = critic_of(config), critic_training_of(config)
    return steps.init_state(critic, training, critic.init(jax.random.key(seed), policy_params))


def train_critic(
    config: settings.Config,
    state: CriticState,
    experience: Experience,
    counts: Sequence[int],
    key: jax.Array,
    until: int,
    show: Callable[[int, dict[str, float]], None],
) -> CriticState:
    """Update the critic until step ``until``; ``show`` gets the step and the means of steps.METRICS of each block.

    counts: transitions of a batch from each of SOURCES.
    """
    critic, training, draw = critic_of(config), critic_training_of(config), table.Draw(config.critic.batch)
    data = (experience, jnp.asarray(counts, jnp.int32))
    step = int(state.step)
    while step < until:
        count = min(BLOCK, until - step)
        state, row = steps.critic_steps(critic, training, draw, state, data, key, jnp.asarray(count, jnp.int32))
        step += count
        show(step, dict(zip(steps.METRICS, np.asarray(row).tolist(), strict=True)))
    return state


def shift_critic(
    config: settings.Config,
    state: CriticState,
    experience: Experience,
    before: Experience,
    counts: Sequence[int],
    key: jax.Array,
    updates: int,
) -> CriticState:
    """The critic of the table ``before`` carried over to the same table under refined potentials (critic/relabel.py), by ``updates``.

    Its step is always a later one.
    """
    critic, training = critic_of(config), critic_training_of(config)
    if config.critic.relabel == "reset":
        fresh = relabel.reset(critic, training, state)
        return dataclasses.replace(fresh, step=jnp.asarray(int(state.step) + 1, jnp.int32))  # its checkpoint is another than the old one's
    q = values_of(config, state.params, before).q
    wanted = relabel.shifted(q, before.phi, experience.phi, config.critic.beta)
    data = ((experience, jnp.asarray(counts, jnp.int32)), wanted)
    count = jnp.asarray(updates, jnp.int32)
    return relabel.shift_steps(critic, training, table.DrawValued(config.critic.batch), state, data, key, count)[0]


@dataclasses.dataclass(frozen=True)
class Judged:
    """A critic against what happened, at the ``n`` decisions of the policy itself.

    own: [rows] bool, which rows of the table they are. episode, decoded, realised: [n], number of the episode, Q + beta Phi, and the
    discounted reward that followed. candidates: [n, j]. curve: of calibration.
    """

    own: np.ndarray
    episode: np.ndarray
    decoded: np.ndarray
    realised: np.ndarray
    candidates: np.ndarray
    curve: list[CalibrationBin]

    @property
    def error(self) -> float:
        return calibration_error(self.curve)


def judged(config: settings.Config, experience: Experience, values: Values) -> Judged | None:
    """What ``values`` of a table are worth; None where the policy itself decided nothing in it."""
    n, rule = int(experience.size), critic_training_of(config).rule
    own = np.asarray(own_rows(experience))[:n]
    if not own.any():
        return None
    episode = np.asarray(experience.episode)[:n]
    realised = realised_returns(rule, np.asarray(experience.rewards)[:n], np.asarray(experience.mask)[:n], episode)[own]
    decoded = (np.asarray(values.q)[:n] + rule.beta * np.asarray(experience.phi)[:n])[own]
    curve = calibration(decoded, realised, episode[own], BINS)
    return Judged(own, episode[own], decoded, realised, np.asarray(values.candidates)[:n][own], curve)


def advantages_of(config: settings.Config, experience: Experience, values: Values) -> Array:
    """Advantages [n] of the table's rows, as ``awr.advantage`` asks for."""
    if config.awr.advantage == "critic":
        return values.advantage
    rule, own = critic_training_of(config).rule, own_rows(experience)
    found = trajectory_advantages(rule, jnp.asarray(config.awr.trace, jnp.float32), experience, values.v)
    # a critic that is too hopeful everywhere would else weigh all decisions down beside demonstrations; Q - V has no such bias
    return found - jnp.where(own, found, 0.0).sum() / jnp.maximum(own.sum(), 1)


def values_of(config: settings.Config, params: Params, experience: Experience) -> Values:
    """Q, V and advantages of the whole table."""
    backup = Backup(config.critic.state_value, config.critic.backup_temperature)
    return table_values(critic_of(config), params, experience, table.critic_batch, backup)
