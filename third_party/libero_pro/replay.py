"""Scripted episodes: recorded actions in place of a policy, and fixtures where another run of the same episodes had them."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np


class ReplayError(ValueError):
    """A file of actions or of records cannot be used; the message says why."""


def scene_of(suite: str, name: str, index: int) -> str:
    """What names an initial state in both files."""
    return f"{suite}/{name}@{index}"


class Replay:
    """A policy that carries out the actions of a file (.npz, an array [t, 7] for each "suite/task@state"), and stands still after them.

    Raises:
      ReplayError: the file is missing or holds something else.
    """

    def __init__(self, path: Path, executed: int):
        self._executed = executed
        try:
            with np.load(path, allow_pickle=False) as file:
                self.actions = {name: np.array(file[name], np.float64) for name in file.files}
            self.identity = hashlib.sha256(path.read_bytes()).hexdigest()
        except (OSError, ValueError, TypeError, EOFError, RuntimeError, MemoryError, zlib.error, zipfile.BadZipFile) as error:
            raise ReplayError(f"{path} is no file of actions ({error})") from None
        for name, rows in self.actions.items():
            if rows.ndim != 2 or rows.shape[1] != 7 or not len(rows) or not np.isfinite(rows).all():
                raise ReplayError(f"{path}: {name} has shape {rows.shape}; it must be finite numbers [steps, 7]")

    def infer(self, message: dict[str, Any]) -> dict[str, Any]:
        """The next chunk of the scene and decision that a message names."""
        rows = self.actions[message["coda/libero/scene"]]
        first = self._executed * message["coda/decision"]
        chunk = np.zeros((self._executed, 7))
        chunk[:, 6] = np.sign(rows[-1, 6])
        own = rows[first : first + self._executed]
        chunk[: len(own)] = own
        return {"actions": chunk}


def fixtures_of(path: Path) -> dict[str, dict[str, list[float]]]:
    """By scene, the poses of fixtures in a file of records.

    Raises:
      ReplayError: the file is missing, or a line is no record.
    """
    try:
        records = [json.loads(line) for line in path.read_text().splitlines()]
        found = {scene_of(r["suite"], r["name"], r["init_index"]): r["fixtures"] for r in records}
        for scene, poses in found.items():
            for name, pose in poses.items():
                if np.shape(pose) != (7,) or not np.isfinite(np.asarray(pose, float)).all():
                    raise ValueError(f"{name} of {scene} has no place of 7 finite numbers")
        return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ReplayError(f"{path} is no file of records ({error})") from None
