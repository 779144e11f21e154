"""One run in progress: its folder, its settings as plain data, and the one way to commit."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.evaluation.metrics import METRICS, MetricsWriter
from coda_jax.loop import parts
from coda_jax.loop.checkpoint import Checkpoints
from coda_jax.loop.journal import Commit, Journal, missing_or_changed
from coda_jax.loop.ledger import Ledger
from coda_jax.memory.rows import Row
from coda_jax.memory.store import FILE as MEMORY
from coda_jax.memory.store import Memory
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.suites import frozen_scenes

CHECKPOINTS = "checkpoints"
_STAGE_FILES = re.compile(r"(scenes|demos|own|rollouts)_r?\d{2,4}(_[a-z]+)?\.(jsonl|npz)")


@dataclasses.dataclass(frozen=True)
class Finished:
    """What a stage leaves to the commit that ends it. row: of ``metrics.jsonl``. rows: of memory. changes: fields of the commit.

    physics_steps, rollouts: not booked yet.
    """

    row: dict[str, Any]
    rows: Sequence[Row] = ()
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)
    physics_steps: int = 0
    rollouts: int = 0


class Run:
    """Opens a locked run folder at its last intact commit: the log is cut to it, rows and files of no commit are removed.

    config: the whole configuration. state: the last commit. memory: what the run remembers; its rows are added by ``commit``.
    train, everything: catalogues of training and of every split.

    Raises:
      InputError: ``memory.sqlite`` is damaged, or the folder is of an earlier version.
    """

    def __init__(self, config: settings.Config, folder: Path, resources: contextlib.ExitStack):
        self.config, self.folder = config, folder
        if (folder / "commits.jsonl").exists() and not (folder / MEMORY).exists():
            raise InputError(f"{folder} was made by an earlier version, which this one cannot go on with; choose another --workdir")
        self.train, self.everything = Catalogue("train"), Catalogue.all()
        self.encoder = parts.encoder_of()
        self.memory = resources.enter_context(Memory.open(folder / MEMORY, frozen_scenes().keys()))
        self.checkpoints = resources.enter_context(Checkpoints(folder / CHECKPOINTS, config.checkpoint.keep))
        self.journal = Journal(self.memory, self._problem)
        self.ledger = Ledger(folder)
        self.metrics = resources.enter_context(MetricsWriter(folder / METRICS, self.state.metrics_bytes))
        self.checkpoints.drop_above(-1 if self.state.checkpoint is None else self.state.checkpoint)
        for path in (folder / "episodes").glob("*"):
            if _STAGE_FILES.fullmatch(path.name) and f"episodes/{path.name}" not in self.state.files:
                path.unlink()
        self._compiles = runtime.compile_count()
        self._spent, self._built = 0.0, 0  # wall time and compilations charged since the last commit
        self._stage = ""  # charged last

    @property
    def state(self) -> Commit:
        return self.journal.last

    def _problem(self, commit: Commit) -> str | None:
        metrics = self.folder / METRICS
        if commit.metrics_bytes and (not metrics.exists() or metrics.stat().st_size < commit.metrics_bytes):
            return f"{metrics} is shorter than its commit says"
        if commit.checkpoint is not None:
            if (found := self.checkpoints.problem(commit.checkpoint)) is not None:
                return found
            if self.checkpoints.checksum(commit.checkpoint) != commit.checkpoint_sha256:
                return f"checkpoint {commit.checkpoint} in {self.checkpoints.folder} is not the one that was committed"
        return missing_or_changed(self.folder, commit.files)

    @property
    def new_compiles(self) -> int:
        """Executables built since the last commit, as far as they were charged to a stage."""
        return self._built

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def warmed_up(self) -> None:
        """Everything is compiled: what is compiled from here on is counted against the run."""
        self.charge("warm-up")
        self._spent, self._built = 0.0, 0
        self.ledger.save()

    def charge(self, stage: str, physics_steps: int = 0, rollouts: int = 0) -> None:
        """Book time, physics and compilations since the last charge to a stage."""
        new = runtime.compile_count() - self._compiles
        self._stage = stage
        self._compiles += new
        self._built += new
        self._spent += self.ledger.charge(stage, physics_steps, rollouts, new)

    def commit(self, *rows: Row, **changes: Any) -> None:
        """Sync the log, store rows and a commit with the changed fields in one transaction, and stop here if a signal asked for it.

        Files that the commit names must be on the disk. The commit's stage is the one that was charged last.

        Raises:
          Stopped: SIGTERM or SIGINT arrived. StoreError, OSError: as ``Journal.append``.
        """
        old = self.state
        changes |= {"stage": self._stage, "wall_s": old.wall_s + self._spent, "compiles": old.compiles + self._built}
        self.journal.append(dataclasses.replace(old, metrics_bytes=self.metrics.commit(), **changes), rows)
        self._spent, self._built = 0.0, 0
        self.ledger.save()
        runtime.check_stop()


@contextlib.contextmanager
def opened(config: settings.Config, folder: Path) -> Iterator[Run]:
    with contextlib.ExitStack() as resources:
        yield Run(config, folder, resources)
