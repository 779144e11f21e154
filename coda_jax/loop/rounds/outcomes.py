"""Outcomes of rollouts on disk: what later stages, replay, evidence and the critic need of them, one file for each stage."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coda_jax.agents.base import Measured, Outcome, Recorded, Trial
from coda_jax.loop import parts, recordings
from coda_jax.loop.journal import file_sha256
from coda_jax.loop.run import Run
from coda_jax.runtime import InputError
from coda_jax.scenes.spec import SceneSpec
from coda_jax.types import ACTION_DIM, WorldView


def keep(run: Run, round_number: int, name: str, outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Where a critic learns: the stage's rollouts as a file of the coming commit, path to SHA-256; else none.

    Raises:
      DiskFullError: too little space is free.
    """
    if not parts.learns(run.config):
        return {}
    path = file_of(round_number, name)
    save(run.folder / path, outcomes)
    return {path: file_sha256(run.folder / path)}


def file_of(round_number: int, name: str) -> str:
    """Where a stage's rollouts are, below the run's folder."""
    return f"episodes/rollouts_r{round_number:02d}_{name}.npz"


def save(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write outcomes without their scenes, which memory has by id; recorded ones with their moments.

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
        | ({"executed": o.recorded.executed.tolist(), "prefix": o.recorded.prefix} if o.recorded else {})
        for o in outcomes
    ]
    arrays = {
        "rows": np.frombuffer(json.dumps(rows).encode(), np.uint8),
        "length": np.array([len(o.actions) for o in outcomes], np.int64),
        "actions": np.concatenate([o.actions for o in outcomes]).astype(np.float32) if outcomes else np.zeros((0, 7), np.float32),
    }
    arrays |= recordings.packed([o.recorded.views for o in outcomes if o.recorded])
    if chunks := [o.recorded.chunks for o in outcomes if o.recorded]:
        arrays["chunks"] = np.concatenate(chunks).astype(np.float32)
    recordings.write(path, arrays)


def load(path: Path, spec_of: Callable[[str], SceneSpec]) -> list[Outcome]:
    """The outcomes of a file in the order written; ``spec_of``: scene id to scene.

    Raises:
      InputError: the file is none of ours.
    """
    try:
        arrays = recordings.read(path)
        rows, lengths = json.loads(arrays["rows"].tobytes()), arrays["length"]
        if len(rows) != len(lengths) or arrays["actions"].shape != (lengths.sum(), ACTION_DIM):
            raise ValueError("its arrays do not belong together")
        ends = np.cumsum(lengths)
        recorded = np.array(["executed" in row for row in rows], bool)
        views = iter(recordings.unpacked(arrays, lengths[recorded]))
        chunks = iter(_chunks(arrays, [len(row["executed"]) for row in rows if "executed" in row]))
        return [
            _outcome(row, arrays["actions"][end - length : end], (next(views), next(chunks)) if has else None, spec_of)
            for row, length, end, has in zip(rows, lengths, ends, recorded, strict=True)
        ]
    except (*recordings.UNREADABLE, KeyError, TypeError, IndexError) as error:
        raise InputError(f"{path} holds no rollouts of this run ({error}); choose another --workdir") from error


def _chunks(arrays: dict[str, np.ndarray], decisions: Sequence[int]) -> list[np.ndarray]:
    """Each recorded rollout's chunks [k, h, 7]; ValueError where they are not as written."""
    if not decisions:
        return []
    chunks = arrays["chunks"]
    if chunks.dtype != np.float32 or chunks.ndim != 3 or chunks.shape[0] != sum(decisions) or chunks.shape[2] != ACTION_DIM:
        raise ValueError(f"chunks are {chunks.dtype} {chunks.shape}; {sum(decisions)} decisions need float32 [{sum(decisions)}, h, 7]")
    return np.split(chunks, np.cumsum(decisions)[:-1])


def _outcome(
    row: dict[str, Any], actions: np.ndarray, kept: tuple[WorldView, np.ndarray] | None, spec_of: Callable[[str], SceneSpec]
) -> Outcome:
    recorded = None if kept is None else Recorded(kept[0], np.array(row["executed"], np.int32), int(row["prefix"]), kept[1])
    if recorded and (recorded.executed.sum() != len(actions) or not 0 <= recorded.prefix <= len(actions)):
        raise ValueError("its decisions do not belong to its actions")
    prefix = actions[: recorded.prefix] if recorded and recorded.prefix else None
    trial = Trial(spec_of(row["scene_id"]), (int(row["key"][0]), int(row["key"][1])), prefix)
    margins = {str(name): Measured(float(v), int(step), float(t), str(unit)) for name, (v, step, t, unit) in row["margins"].items()}
    return Outcome(trial, bool(row["success"]), int(row["steps"]), row["phase"], margins, int(row["health"]), actions, recorded)
