"""The commits of a run, one JSON line each: what is finished, which files belong to it, how long ``metrics.jsonl`` is.

Files come first (synced, with their SHA-256), then the line that names them. At start the newest commit whose files are intact is taken;
what a killed process wrote after it is removed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from coda_jax.evaluation.metrics import atomic_write

log = logging.getLogger(__name__)
FILE = "commits.jsonl"
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False))
class Commit:
    """Everything a run needs to go on.

    done: finished stages. metrics_bytes: length of ``metrics.jsonl``. files: path in the run folder to SHA-256.
    checkpoint: step of the policy's checkpoint, with the SHA-256 of its folder. next_seed: first scene seed that was not tried.
    rejected: scenes by reason. accepted: valid scenes, the first ``used`` of which the planner tried. demos: certified demonstrations.
    planner: category to [successes, episodes]. causes: planner failures by cause. suites: evaluated ones. sim_steps: physics steps.
    compiles: executables built after the start. wall_s: time of committed work.
    """

    done: list[str] = dataclasses.field(default_factory=list)
    metrics_bytes: Count = 0
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    checkpoint: Count | None = None
    checkpoint_sha256: str = ""
    next_seed: Count = 0
    accepted: Count = 0
    used: Count = 0
    rejected: dict[str, Count] = dataclasses.field(default_factory=dict)
    demos: Count = 0
    planner: dict[str, list[Count]] = dataclasses.field(default_factory=dict)
    causes: dict[str, Count] = dataclasses.field(default_factory=dict)
    suites: list[str] = dataclasses.field(default_factory=list)
    sim_steps: Count = 0
    compiles: Count = 0
    wall_s: float = 0.0


_COMMIT: TypeAdapter[Commit] = TypeAdapter(Commit)


def file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def missing_or_changed(folder: Path, files: dict[str, str]) -> str | None:
    """What is wrong with the first file that is gone or not what was committed, or None."""
    for name, sha256 in files.items():
        path = folder / name
        if not path.is_file():
            return f"{path} is gone"
        if file_sha256(path) != sha256:
            return f"{path} is damaged: it does not match its SHA-256"
    return None


def read_commits(folder: Path) -> list[Commit]:
    """The commits of a run folder, oldest first; a half-written or damaged line and what follows it are left out."""
    path = folder / FILE
    commits = []
    if path.exists():
        for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):  # the last piece is empty or half-written
            try:
                commits.append(_COMMIT.validate_json(line))
            except ValidationError as error:
                log.warning("%s:%d is no commit (%s); it and what follows is left out", path, number, error.errors()[0]["msg"])
                break
    return commits


class Journal:
    """The commits of one run folder. ``last`` is the newest intact one, an empty one for a new run.

    Args:
      folder: the run folder. problem: what is wrong with a commit's files, or None; a commit with a problem is named in a warning and the
        one before it taken, whose later lines are then cut away.
    """

    def __init__(self, folder: Path, problem: Callable[[Commit], str | None]):
        self.path = folder / FILE
        commits = read_commits(folder)
        while commits and (found := problem(commits[-1])) is not None:
            log.warning("%s; going back to the commit before", found)
            commits.pop()
        self.last = commits[-1] if commits else Commit()
        content = b"".join(_COMMIT.dump_json(c) + b"\n" for c in commits)
        if self.path.exists() and self.path.read_bytes() != content:  # half-written or damaged lines are cut away
            atomic_write(self.path, content)

    def append(self, commit: Commit) -> None:
        """Add a commit; when this returns it is on the disk."""
        new = not self.path.exists()
        with self.path.open("ab") as file:
            file.write(_COMMIT.dump_json(commit) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if new:
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        self.last = commit
