"""What a configuration asks of the machine, checked before anything starts: memory, and room in the table of experience."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

import jax

from coda_jax import config as settings
from coda_jax.learning.dataset import MIN_ROWS, capacity_for
from coda_jax.learning.pictures import BLOCK
from coda_jax.loop import evaluation, improvement, mjx_worlds, parts
from coda_jax.loop.round_budget import episodes_of_a_round
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.cameras import OBSERVED

DRAWN_TOGETHER = 256  # states of demonstrations, about
ROW_BYTES = 500  # of one control step of a demonstration
RECORD_BYTES = 30e3  # of one recorded rollout on disk
MOMENT_BYTES = 1.2e3  # of one control step of a recorded episode in memory
_ROW_BYTES, _STEP_BYTES = 1_100, 4 * 7  # of a decision in the table, and of one control step of one of its candidates
_COPIES, _DEPTH_BYTES = 3, 5  # of drawn pictures: by camera, joined, with the policy; of a pixel's depth and label from one camera
_PROCESS_BYTES = 0.9e9  # libraries, text encoder, executables
_WORLD_BYTES = 0.4e6  # of a native world
_CELL_BYTES = 4 * 12  # of one channel of a cell in one layer: it is read beside its eight neighbours, forward and backward
_ACTIVATION_BYTES = 4 * 12  # of one hidden unit of one training chunk: its layers forward and backward


def parameter_count(config: settings.Config) -> int:
    """Learned numbers of the policy."""
    shapes = jax.eval_shape(parts.policy_of(config).init, jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes["net"]))


def products_of_a_chunk(config: settings.Config) -> int:
    """Multiplications of a policy's forward pass: one for each parameter, but for an encoder's, which reads every cell of a picture."""
    if config.obs != "pixels":
        return parameter_count(config)
    shapes = jax.eval_shape(parts.policy_of(config).init, jax.random.key(0))
    cells = (config.pixels.height // config.pixels.patch) * (config.pixels.width // config.pixels.patch)
    every_cell = sum(leaf.size for leaf in jax.tree.leaves(shapes["net"]["cameras"]))
    every_cell += len(OBSERVED) * sum(leaf.size for leaf in jax.tree.leaves(shapes["net"]["cells"]))
    return parameter_count(config) + cells * every_cell


def picture_bytes(config: settings.Config, states: int) -> int:
    """Of so many states drawn by all cameras."""
    return states * len(OBSERVED) * config.pixels.height * config.pixels.width * 3


def worlds_looked_at(config: settings.Config) -> int:
    """Worlds of the evaluation's backend, whose eyes draw for a policy of pictures; the most that are tried where MJX chooses by itself."""
    if parts.backend(config, evaluation_bucket(config)) == "native":
        return config.sim.worlds
    return config.sim.mjx_worlds or mjx_worlds.most_worlds()


def _drawing_bytes(config: settings.Config) -> int:
    """Of the pictures drawn together at most: at a decision in all worlds, or of the demonstrations."""
    states = max(worlds_looked_at(config), DRAWN_TOGETHER)
    return _COPIES * picture_bytes(config, states) + states * config.pixels.height * config.pixels.width * _DEPTH_BYTES


def state_bytes(config: settings.Config) -> int:
    """Of a training state: parameters, their average, two moments."""
    return 4 * 4 * parameter_count(config)


def critic_parameter_count(config: settings.Config) -> int:
    """Learned numbers of the critic."""
    critic, policy = improvement.critic_of(config), parts.policy_of(config)
    shapes = jax.eval_shape(lambda key: critic.init(key, policy.init(key)), jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes["net"]))


def critic_state_bytes(config: settings.Config) -> int:
    """Of a critic's checkpoint: parameters, their average, two moments, and the clone that drift is measured from."""
    return 4 * (4 * critic_parameter_count(config) + parameter_count(config))


def table_bytes(config: settings.Config) -> float:
    """Of the table that critic and weighted updates learn from, which has its full length from the first round on."""
    return config.experience.rows * (_ROW_BYTES + config.critic.candidates * config.policy.chunk * _STEP_BYTES)


def _learning_bytes(config: settings.Config) -> float:
    """Table, critic, and the recorded moments behind the table, which are joined for labelling."""
    moments = min(config.experience.rows * config.evaluate.executed, config.experience.episodes * settings.longest_horizon(config))
    return table_bytes(config) + 2 * critic_state_bytes(config) + 2 * moments * MOMENT_BYTES


def memory_bytes(config: settings.Config) -> float:
    """Main memory that a run needs, roughly and at most."""
    rows = capacity_for(parts.most_demonstrations(config) * settings.longest_horizon(config), MIN_ROWS)
    batch = config.clone.batch * config.policy.width * _ACTIVATION_BYTES
    if config.obs == "pixels":
        cells = picture_bytes(config, 1) // (3 * config.pixels.patch**2)
        batch += config.clone.batch * cells * config.pixels.channels * _CELL_BYTES * (1 + config.pixels.layers)
        batch += picture_bytes(config, BLOCK * config.clone.batch) + _drawing_bytes(config)
    learning = _learning_bytes(config) if parts.learns(config) else 0.0
    return _PROCESS_BYTES + rows * ROW_BYTES + 2 * state_bytes(config) + batch + config.sim.worlds * _WORLD_BYTES + learning


def machine_bytes() -> int | None:
    """Main memory of this machine, or less where its control group allows less; None where the system does not say."""
    known = []
    with contextlib.suppress(OSError, ValueError, AttributeError):
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # "max": no limit
            known.append(int((Path("/sys/fs/cgroup") / name).read_text()))
    return min((n for n in known if n > 0), default=None)


def _require_memory(config: settings.Config) -> None:
    need, have = memory_bytes(config), machine_bytes()
    if have is not None and need > have:
        raise InputError(
            f"these settings need about {need / 1e9:.1f} GB of memory, this machine has {have / 1e9:.1f} GB; lower demos.count, horizon, "
            "policy.width, clone.batch or sim.worlds"
            + (", pixels.height, pixels.width or sim.mjx_worlds" if config.obs == "pixels" else "")
            + (", experience.rows or experience.episodes" if parts.learns(config) else "")
        )


def evaluation_bucket(config: settings.Config) -> Bucket:
    """The bucket that takes every scene of the evaluated suites."""
    scenes = evaluation.chosen_scenes(config)
    return parts.common_bucket([s for specs in scenes.values() for s in specs], Catalogue.all())


def _require_room(config: settings.Config) -> None:
    """The table must hold a round's own episodes, of full length: what is too much shows itself in the middle of a run otherwise."""
    if not parts.learns(config):
        return
    room, decisions = config.experience, math.ceil(settings.longest_horizon(config) / config.evaluate.executed) + 1
    episodes = room.seeds + episodes_of_a_round(config)
    if episodes > room.episodes or episodes * decisions > room.rows:
        raise InputError(
            f"a round may learn from {episodes:,} episodes of up to {decisions} decisions, more than config.experience.episodes = "
            f"{room.episodes:,} and config.experience.rows = {room.rows:,} hold: set them to at least {episodes} and {episodes * decisions}"
        )


def check(config: settings.Config) -> None:
    """Refuse settings that this machine or this version cannot carry out.

    Raises:
      InputError: too little memory, or no room for a round's episodes; the numbers and what to change are named.
    """
    _require_memory(config)
    _require_room(config)
