"""Outcomes of rollouts on disk: what later stages, replay and evidence need of them, one file for each stage."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coda_jax.agents.base import Measured, Outcome, Trial
from coda_jax.evaluation.metrics import atomic_write
from coda_jax.loop.checkpoint import require_space
from coda_jax.runtime import InputError
from coda_jax.scenes.spec import SceneSpec
from coda_jax.types import ACTION_DIM


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
    """The outcomes of a file in the order written; ``spec_of``: scene id to scene.

    Raises:
      InputError: the file is none of ours.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        rows, lengths = json.loads(arrays["rows"].tobytes()), arrays["length"]
        if len(rows) != len(lengths) or arrays["actions"].shape != (lengths.sum(), ACTION_DIM):
            raise ValueError("its arrays do not belong together")
        ends = np.cumsum(lengths)
        return [_outcome(row, arrays["actions"][end - length : end], spec_of) for row, length, end in zip(rows, lengths, ends, strict=True)]
    except (OSError, ValueError, KeyError, TypeError, IndexError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} holds no rollouts of this run ({error}); choose another --workdir") from error


def _outcome(row: dict[str, Any], actions: np.ndarray, spec_of: Callable[[str], SceneSpec]) -> Outcome:
    trial = Trial(spec_of(row["scene_id"]), (int(row["key"][0]), int(row["key"][1])))
    margins = {str(name): Measured(float(v), int(step), float(t), str(unit)) for name, (v, step, t, unit) in row["margins"].items()}
    return Outcome(trial, bool(row["success"]), int(row["steps"]), row["phase"], margins, int(row["health"]), actions)
