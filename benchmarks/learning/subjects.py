"""What is measured: each kind of update, the project's own and in PyTorch, and the proof that both are the same."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.learning import data, inputs
from coda_jax import config as settings
from coda_jax.learning.awr import METRICS, Awr, policy_step, policy_steps
from coda_jax.learning.critic import steps as critic_steps_lib
from coda_jax.learning.critic.backup import Backup
from coda_jax.learning.critic.network import Critic
from coda_jax.learning.critic.support import Support
from coda_jax.learning.critic.targets import Rule
from coda_jax.learning.steps import TrainState, init_state, set_statistics, train_step, train_steps
from coda_jax.loop import parts
from coda_jax.types import Array

BATCH, CANDIDATES, TEXT_DIM, EPISODES = 64, 4, 384, 200
KEY = jax.random.key(7)


@dataclasses.dataclass
class Subject:
    """One kind of update.

    state: before the first. many: (state, count) to the state after ``count`` updates; the given one's buffers are consumed.
    one: (state) to the state and loss after one. batch: (step) to the features of that update. peers: by name, each makes the update in
    PyTorch of the same parameters. lowered: of ``many``, to be compiled.
    """

    name: str
    state: Any
    many: Callable[[Any, Array], tuple[Any, Array]]
    one: Callable[[Any], tuple[Any, Array]]
    batch: Callable[[int], dict[str, Any]]
    peers: dict[str, Callable[[], Callable[[Any], Any]]]
    lowered: Callable[[], Any]

    def run(self, count: int) -> None:
        """``count`` updates, waited for."""
        self.state, measured = self.many(self.state, jnp.asarray(count, jnp.int32))
        jax.block_until_ready(measured)

    def net(self, state: Any) -> Any:
        return state.params["net"]


def critic_subject(tokens: int) -> Subject:
    """The critic at the cpu preset, e = 4, reading ``tokens`` actions."""
    config = settings.default()
    chosen = config.critic
    critic = Critic(
        support=Support("hl_gauss", -4 * chosen.beta, 1.0, 101, 2.25, 0.75),
        chunk=config.policy.chunk,
        executed=tokens,
        tokens=tokens,
        width=64,
        layers=4,
        heads=4,
        text_dim=TEXT_DIM,
        grounding_heads=config.policy.heads,
        goals=1,
        key_dim=config.policy.key_dim,
        yaw_frame=config.policy.yaw_frame,
        multi_scale=config.policy.multi_scale,
        cumulative=config.policy.cumulative,
        early_ends="fill",
    )
    training = critic_steps_lib.CriticTraining(
        rule=Rule(chosen.gamma, chosen.gamma_unit, chosen.beta),
        backup=Backup(chosen.backup, chosen.backup_temperature),
        learning_rate=1e-3,
        warmup=50,
        weight_decay=1e-4,
        clip_norm=1.0,
        tau=0.005,
        temperature=0.5,
        temperature_unit="std",
    )
    draw = data.Draw(BATCH)
    _, table = data.tables(EPISODES, critic.chunk, tokens, CANDIDATES, TEXT_DIM)
    params = critic.init(jax.random.key(0))
    head = params["net"]["head"]
    head["w"] = 0.1 * jax.random.normal(jax.random.key(1), head["w"].shape)  # zeros would hide what the body computes
    state = critic_steps_lib.init_state(critic, training, params)

    def peer(fused: bool, compiled: bool) -> Callable[[], Callable[[Any], Any]]:
        def make() -> Callable[[Any], Any]:
            from benchmarks.learning.torch_critic import CriticUpdate

            return CriticUpdate(critic, training, params["net"], params["net"], fused, compiled)

        return make

    one = jax.jit(lambda state: critic_steps_lib.critic_step(critic, training, draw, state, table, KEY))
    features = jax.jit(lambda step: inputs.critic_inputs(critic, draw, params, table, KEY, step))
    count = jnp.asarray(1, jnp.int32)
    return Subject(
        name=f"critic_e{tokens}",
        state=state,
        many=lambda state, count: critic_steps_lib.critic_steps(critic, training, draw, state, table, KEY, count),
        one=lambda state: (lambda new, row: (new, row[critic_steps_lib.METRICS.index("loss")]))(*one(state)),
        batch=lambda step: features(step),
        peers={
            "eager": peer(fused=False, compiled=False),
            "eager, fused attention": peer(fused=True, compiled=False),
            "compiled": peer(fused=False, compiled=True),
        },
        lowered=lambda: critic_steps_lib.critic_steps.lower(critic, training, draw, state, table, KEY, count),
    )


def policy_subjects() -> list[Subject]:
    """The flow policy at the cpu preset: cloning, and advantage-weighted updates with three quarters of decisions."""
    config = settings.default()
    policy, training = parts.policy_of(config), parts.training_of(config)
    awr = Awr(
        improve="awr",
        advantage="critic",
        trace=0.95,
        advantage_unit="std",
        temperature=1.0,
        most_weight=20.0,
        least_sd=0.02,
        sd_decay=0.9,
        shares=(0.25, 0.75, 0.0, 0.0),
        drift_weight=0.1,
    )
    demos, table = data.tables(EPISODES, policy.chunk, config.evaluate.executed, CANDIDATES, TEXT_DIM)
    language = data.sentences(TEXT_DIM)
    rows = jax.random.randint(jax.random.key(2), (4096,), 0, demos.size)
    params = set_statistics(policy, policy.init(jax.random.key(0)), demos, rows)
    clone = {**params, "net": jax.tree.map(lambda x: 1.05 * x, params["net"])}  # a clone that the policy has moved away from
    weights = jnp.exp(jax.random.normal(jax.random.key(3), table.phi.shape))
    count = jnp.asarray(1, jnp.int32)

    def state() -> TrainState:
        return init_state(policy, training, jax.tree.map(jnp.copy, params))

    def peer(anchored: bool, compiled: bool) -> Callable[[], Callable[[Any], Any]]:
        def make() -> Callable[[Any], Any]:
            from benchmarks.learning.torch_flow import FlowUpdate

            return FlowUpdate(policy, training, params["net"], clone["net"] if anchored else None, awr.drift_weight, compiled)

        return make

    counts = jnp.asarray(awr.counts(training.batch), jnp.int32)
    clone_one = jax.jit(lambda state: train_step(policy, training, state, demos, language, KEY))
    clone_inputs = jax.jit(lambda step: inputs.cloning_inputs(policy, training, params, demos, language, KEY, step))
    awr_one = jax.jit(lambda state: policy_step(policy, training, awr, state, demos, table, counts, weights, clone, language, KEY))
    awr_inputs = jax.jit(lambda step: inputs.awr_inputs(policy, training, awr, params, demos, table, weights, language, KEY, step))

    def cloned(state: TrainState) -> tuple[TrainState, Array]:
        state, losses = clone_one(state)
        return state, losses @ jnp.array([1.0, policy.grounding_weight, training.language_weight])

    def improved(state: TrainState) -> tuple[TrainState, Array]:
        state, row = awr_one(state)
        return state, row[METRICS.index("loss")]

    def improving(state: TrainState, count: Array) -> tuple[Any, ...]:
        return policy, training, awr, state, demos, table, counts, weights, clone, language, KEY, count

    return [
        Subject(
            name="policy_cloning",
            state=state(),
            many=lambda state, count: train_steps(policy, training, state, demos, language, KEY, count),
            one=cloned,
            batch=lambda step: clone_inputs(step),
            peers={"eager": peer(False, False), "compiled": peer(False, True)},
            lowered=lambda: train_steps.lower(policy, training, state(), demos, language, KEY, count),
        ),
        Subject(
            name="policy_awr",
            state=state(),
            many=lambda state, count: policy_steps(*improving(state, count)),
            one=improved,
            batch=lambda step: awr_inputs(step),
            peers={"eager": peer(True, False), "compiled": peer(True, True)},
            lowered=lambda: policy_steps.lower(*improving(state(), count)),
        ),
    ]


def difference(subject: Subject, peer: Callable[[Any], Any], updates: int) -> tuple[float, float]:
    """Largest relative difference of the loss, and largest difference of a parameter, over ``updates`` updates of both from one start."""
    from benchmarks.learning.torch_tools import tensors

    state, apart = jax.tree.map(jnp.copy, subject.state), 0.0
    for step in range(updates):
        found = float(peer(tensors(subject.batch(step))))
        state, loss = subject.one(state)
        apart = max(apart, abs(found - float(loss)) / abs(float(loss)))
    moved = jax.tree.map(lambda x, y: np.abs(x - np.asarray(y)).max(), peer.learner.parameters(), subject.net(state))
    return apart, float(max(jax.tree.leaves(moved)))


def repeated(peer: Callable[[Any], Any], batches: Sequence[Any], threads: int) -> Callable[[int], None]:
    """``count`` updates over a few batches in turn, by that many threads of PyTorch."""
    from benchmarks.learning.torch_tools import torch

    turns = itertools.cycle(batches)

    def run(count: int) -> None:
        torch.set_num_threads(threads)
        for _ in range(count):
            peer(next(turns))

    return run
