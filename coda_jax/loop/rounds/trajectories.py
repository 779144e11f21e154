"""Trajectories on disk exactly as they were, for a stage to go on with after a kill."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coda_jax.loop import recordings
from coda_jax.runtime import InputError
from coda_jax.sim.demonstrate import Trajectory
from coda_jax.sim.simulator import Episode
from coda_jax.sim.supervision.parameters import PlanParameters

_SERIES = ("actions", "executed", "mask", "qpos", "predicates", "skills")


def save(path: Path, trajectories: Sequence[Trajectory]) -> None:
    """Write at least one trajectory of one bucket, without its scene: time axes joined, a JSON row for each.

    Raises:
      DiskFullError: too little space is free.
    """
    rows = [
        {"scene_id": t.episode.spec.scene_id, "key": t.episode.key, "success": t.success, "cause": t.cause, "attempts": t.attempts}
        | {"parameters": t.parameters.changes(), "grasps": t.grasps, "revisions": t.revisions}
        for t in trajectories
    ]
    arrays = recordings.packed([t.views for t in trajectories])
    arrays |= {name: np.concatenate([getattr(t, name) for t in trajectories]) for name in _SERIES}
    arrays |= {"length": np.array([len(t.actions) for t in trajectories]), "rows": np.frombuffer(json.dumps(rows).encode(), np.uint8)}
    recordings.write(path, arrays, compress=False)  # gone when its stage ends


def load(path: Path, episode_of: Callable[[str, tuple[int, int]], Episode]) -> list[Trajectory]:
    """The trajectories of a file in the order written; ``episode_of``: scene id and key to episode.

    Raises:
      InputError: the file is none of ours.
    """
    try:
        arrays = recordings.read(path)
        rows, length = json.loads(arrays["rows"].tobytes()), arrays["length"]
        found = []
        for row, t, end, views in zip(rows, length, np.cumsum(length), recordings.unpacked(arrays, length), strict=True):
            part = slice(end - t, end)
            series: dict[str, Any] = {name: arrays[name][part] for name in _SERIES}
            episode = episode_of(row["scene_id"], (int(row["key"][0]), int(row["key"][1])))
            found.append(
                Trajectory(
                    episode,
                    views,
                    **series,
                    success=bool(row["success"]),
                    cause=str(row["cause"]),
                    attempts=int(row["attempts"]),
                    parameters=PlanParameters.of(row["parameters"]),
                    grasps=int(row["grasps"]),
                    revisions=int(row["revisions"]),
                )
            )
        return found
    except (*recordings.UNREADABLE, KeyError, TypeError, IndexError) as error:
        raise InputError(f"{path} holds no trajectories of this run ({error}); choose another --workdir") from error
