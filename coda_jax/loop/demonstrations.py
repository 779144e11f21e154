"""Certified demonstrations of a run, collected in blocks that are stored as they end; a resumed run goes on with the next block."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coda_jax.evaluation.metrics import atomic_write
from coda_jax.learning.dataset import EPISODE_FIELDS, STEP_FIELDS, Demonstration
from coda_jax.runtime import InputError
from coda_jax.scenes import families
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.compile import token_index
from coda_jax.sim.demonstrate import Trajectory
from coda_jax.sim.observe import scene_texts

FOLDER = "demonstrations"


def demonstration_of(trajectory: Trajectory) -> Demonstration:
    """What the policy learns from: observations, clean labels, words; roles are training labels only."""
    spec, catalogue = trajectory.episode.spec, Catalogue.all()
    names, instruction = scene_texts(spec, catalogue)
    index, goal = token_index(spec, catalogue), families.read_goal(spec)
    roles = (index[goal.target], index[goal.reference])
    words = tuple(name or None for name in names)
    return Demonstration(trajectory.obs, trajectory.actions, trajectory.mask, words, instruction, roles)


def _path(workdir: Path, block: int) -> Path:
    return workdir / FOLDER / f"block_{block:04d}.npz"


def store(workdir: Path, block: int, demos: Sequence[Demonstration]) -> None:
    """Write one block atomically; arrays of all episodes end to end, words as JSON text (nothing is pickled)."""
    arrays: dict[str, Any] = {f"step_{name}": np.concatenate([d.obs[name] for d in demos]) for name in STEP_FIELDS}
    arrays |= {f"episode_{name}": np.stack([d.obs[name] for d in demos]) for name in EPISODE_FIELDS}
    arrays["actions"] = np.concatenate([d.actions for d in demos])
    arrays["mask"] = np.concatenate([d.mask for d in demos])
    arrays["lengths"] = np.array([len(d.actions) for d in demos], np.int64)
    arrays["roles"] = np.array([d.roles for d in demos], np.int64)
    words = json.dumps([{"names": d.names, "instruction": d.instruction} for d in demos])
    arrays["words"] = np.frombuffer(words.encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    atomic_write(_path(workdir, block), buffer.getvalue())


def store_empty(workdir: Path, block: int) -> None:
    """A block in which nothing was certified."""
    buffer = io.BytesIO()
    np.savez(buffer, lengths=np.zeros(0, np.int64), words=np.frombuffer(b"[]", np.uint8))
    atomic_write(_path(workdir, block), buffer.getvalue())


def load(workdir: Path, blocks: int) -> list[Demonstration]:
    """Every stored demonstration of the first ``blocks`` blocks, in their order.

    Raises:
      InputError: a block is missing or damaged.
    """
    demos: list[Demonstration] = []
    for block in range(blocks):
        path = _path(workdir, block)
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
            words = json.loads(arrays["words"].tobytes().decode())
            ends = np.cumsum(arrays["lengths"])
            for i, (end, text) in enumerate(zip(ends, words, strict=True)):
                rows = slice(int(end - arrays["lengths"][i]), int(end))
                obs = {name: arrays[f"step_{name}"][rows] for name in STEP_FIELDS}
                obs |= {name: arrays[f"episode_{name}"][i] for name in EPISODE_FIELDS}
                roles = (int(arrays["roles"][i, 0]), int(arrays["roles"][i, 1]))
                demos.append(
                    Demonstration(obs, arrays["actions"][rows], arrays["mask"][rows], tuple(text["names"]), text["instruction"], roles)
                )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is missing or damaged ({error}); start again with a new --workdir") from None
    return demos
