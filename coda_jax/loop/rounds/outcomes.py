"""Outcomes of rollouts on disk: what later stages, replay and evidence need of them, one file for each stage."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from coda_jax.agents.base import Measured, Outcome, Trial
from coda_jax.evaluation.metrics import atomic_write
from coda_jax.loop.checkpoint import require_space
from coda_jax.scenes.spec import SceneSpec


def save(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write outcomes without their scenes, which memory has by id.

    Raises:
      DiskFullError: too little space is free.
    """
    rows = [
        {
            "scene_id": o.trial.spec.scene_id,
            "key": o.trial.key,
            "success": o.success,
            "steps": o.steps,
            "phase": o.phase,
            "health": o.health,
            "margins": {name: [m.value, m.step, m.threshold, m.unit] for name, m in o.margins.items()},
        }
        for o in outcomes
    ]
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        rows=np.frombuffer(json.dumps(rows).encode(), np.uint8),
        length=np.array([len(o.actions) for o in outcomes], np.int64),
        actions=np.concatenate([o.actions for o in outcomes]).astype(np.float32) if outcomes else np.zeros((0, 7), np.float32),
    )
    require_space(path.parent.parent, buffer.tell())
    atomic_write(path, buffer.getvalue())


def load(path: Path, spec_of: Callable[[str], SceneSpec]) -> list[Outcome]:
    """The outcomes of a file in the order written; ``spec_of``: scene id to scene."""
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    ends = np.cumsum(arrays["length"])
    found = []
    for row, length, end in zip(json.loads(arrays["rows"].tobytes()), arrays["length"], ends, strict=True):
        trial = Trial(spec_of(row["scene_id"]), (row["key"][0], row["key"][1]))
        margins = {name: Measured(*values) for name, values in row["margins"].items()}
        actions = arrays["actions"][end - length : end]
        found.append(Outcome(trial, row["success"], row["steps"], row["phase"], margins, row["health"], actions))
    return found
