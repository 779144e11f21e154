"""Settings and small tables that the tests of the critic share."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from coda_jax.learning.critic.backup import Backup
from coda_jax.learning.critic.batch import CriticBatch, ProgramInput
from coda_jax.learning.critic.network import Critic
from coda_jax.learning.critic.steps import CriticTraining
from coda_jax.learning.critic.support import Support
from coda_jax.learning.critic.targets import Rule
from coda_jax.programs.training.limits import CODE_DIM
from coda_jax.types import TOKENS, Array, Observation, _pytree

CHUNK, EXECUTED, TEXT_DIM, J = 8, 4, 6, 2


def support(**changes) -> Support:
    settings = {"projection": "hl_gauss", "low": -2.0, "high": 1.0, "bins": 101, "margin": 2.25, "smoothing": 0.75}
    return Support(**{**settings, **changes})


def critic(**changes) -> Critic:
    settings = {
        "support": support(),
        "chunk": CHUNK,
        "executed": EXECUTED,
        "tokens": EXECUTED,
        "width": 32,
        "layers": 1,
        "heads": 2,
        "text_dim": TEXT_DIM,
        "grounding_heads": 3,
        "goals": 1,
        "key_dim": 4,
        "yaw_frame": True,
        "multi_scale": True,
        "cumulative": True,
        "early_ends": "fill",
    }
    return Critic(**{**settings, **changes})


def training(**changes) -> CriticTraining:
    settings = {
        "rule": Rule(0.9, "step", 0.5),
        "backup": Backup("max", 0.1),
        "learning_rate": 3e-3,
        "warmup": 10,
        "weight_decay": 1e-4,
        "clip_norm": 1.0,
        "tau": 0.05,
        "temperature": 0.5,
        "temperature_unit": "std",
    }
    return CriticTraining(**{**settings, **changes})


def observation(rng: np.random.Generator, b: int) -> Observation:
    """``b`` different moments of one scene: two objects and a fixture."""

    def floats(*shape: int) -> Array:
        return jnp.asarray(0.1 * rng.normal(size=shape), jnp.float32)

    quat = rng.normal(size=(b, TOKENS, 4))
    quat = jnp.asarray(quat / np.linalg.norm(quat, axis=-1, keepdims=True), jnp.float32)
    present = np.zeros((b, TOKENS), bool)
    present[:, [0, 2, 6]] = True
    return Observation(
        ee_pos=floats(b, 3),
        ee_quat=quat[:, 0],
        gripper_opening=jnp.full((b,), 0.08),
        pos=floats(b, TOKENS, 3),
        quat=quat,
        linvel=floats(b, TOKENS, 3),
        angvel=floats(b, TOKENS, 3),
        half_extent=jnp.full((b, TOKENS, 3), 0.03),
        articulation=jnp.zeros((b, TOKENS)),
        articulation_range=jnp.zeros((b, TOKENS, 2)),
        present=jnp.asarray(present),
        text=floats(b, TOKENS, TEXT_DIM) * present[..., None],
        instruction=floats(b, TEXT_DIM),
    )


def program(rng: np.random.Generator, b: int) -> ProgramInput:
    return ProgramInput(
        stage=jnp.asarray(rng.integers(0, 5, b), jnp.int32),
        progress=jnp.asarray(rng.random(b), jnp.float32),
        code=jnp.asarray(rng.normal(size=(b, CODE_DIM)), jnp.float32),
    )


@_pytree
class Table:
    """States with candidates, and transitions between them; what experience.Experience holds, in the small.

    obs, program, phi, candidates: of the states. state, successor: [n] int32 rows of them. size: [] int32 of the n transitions.
    """

    obs: Observation
    program: ProgramInput
    phi: Array
    candidates: Array
    state: Array
    successor: Array
    actions: Array
    mask: Array
    rewards: Array
    terminal: Array
    size: Array


def gather(table: Table, rows: Array) -> CriticBatch:
    here, there = table.state[rows], table.successor[rows]
    return CriticBatch(
        obs=jax.tree.map(lambda x: x[here], table.obs),
        program=jax.tree.map(lambda x: x[here], table.program),
        actions=table.actions[rows],
        mask=table.mask[rows],
        rewards=table.rewards[rows],
        terminal=table.terminal[rows],
        phi=table.phi[here],
        candidates=table.candidates[here],
        next_obs=jax.tree.map(lambda x: x[there], table.obs),
        next_program=jax.tree.map(lambda x: x[there], table.program),
        next_phi=table.phi[there],
        next_candidates=table.candidates[there],
    )


@dataclasses.dataclass(frozen=True)
class Draw:
    """``batch`` transitions, uniformly."""

    batch: int

    def __call__(self, table: Table, key: jax.Array) -> CriticBatch:
        return gather(table, jax.random.randint(key, (self.batch,), 0, table.size))


def random_table(n: int, seed: int = 0) -> Table:
    """Transition i goes from state i to the next, every third is terminal; one state more has no part in any."""
    rng = np.random.default_rng(seed)
    states = n + 1
    steps = rng.integers(1, EXECUTED + 1, n)
    return Table(
        obs=observation(rng, states),
        program=program(rng, states),
        phi=jnp.asarray(rng.uniform(0, 2, states), jnp.float32),
        candidates=jnp.asarray(rng.uniform(-1, 1, (states, J, CHUNK, 7)), jnp.float32),
        state=jnp.arange(n),
        successor=(jnp.arange(n) + 1) % n,
        actions=jnp.asarray(rng.uniform(-1, 1, (n, CHUNK, 7)), jnp.float32),
        mask=jnp.asarray(np.arange(CHUNK) < steps[:, None]),
        rewards=jnp.asarray((np.arange(CHUNK) == steps[:, None] - 1) * (np.arange(n) % 3 == 0)[:, None], jnp.float32),
        terminal=jnp.asarray(np.arange(n) % 3 == 0),
        size=jnp.asarray(n, jnp.int32),
    )


def repeat(obs: Observation, n: int) -> Observation:
    """``n`` copies of a single observation."""
    return jax.tree.map(lambda x: jnp.repeat(x, n, axis=0), obs)
