"""What a long stage has done so far, committed in pieces, so that a kill costs at most the work since the last piece.

A stage is a function of the commit that it begins with: begun again it asks for the same batches of the same jobs in the same order. So
the stage's code simply runs again from its top, and of each batch the results that an earlier process committed are read back instead of
computed. Rows of memory and of ``metrics.jsonl`` belong to the commit that ends the stage, which also drops the pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from coda_jax.loop.journal import file_sha256

R = TypeVar("R")
_PIECES = "episodes/part_"


class Batch(Generic[R]):
    """Jobs that a stage does together. known: results of earlier processes. pending: those that are not committed."""

    def __init__(self, owner: Substeps, known: list[R], save: Callable[[Path, Sequence[R]], None]):
        self.known, self.pending, self.save = known, [], save
        self._owner = owner

    def add(self, result: R) -> None:
        """A job is done; now and then what is done is committed.

        Raises:
          Stopped, OSError: as ``Run.commit``.
        """
        self._owner.add(self, result)


class Substeps:
    """The pieces of one stage.

    Args:
      stage: its name, part of the names of the files. folder: of the run. every: results between commits, None to keep nothing. files: of
        the last commit, by path in the folder, with their SHA-256. commit: commits further files, which are on the disk.
    """

    def __init__(self, stage: str, folder: Path, every: int | None, files: Mapping[str, str], commit: Callable[[dict[str, str]], None]):
        self._stage, self._folder, self._every, self._commit = stage, folder, every, commit
        self._pieces = [name for name in files if name.startswith(_PIECES)]
        self._batches: list[Batch] = []
        self._uncommitted = 0

    def batch(self, save: Callable[[Path, Sequence[R]], None], load: Callable[[Path], list[R]]) -> Batch[R]:
        """The next batch of jobs. ``save`` and ``load``: some of its results to and from a file."""
        prefix = self._prefix(len(self._batches))
        known = [result for name in sorted(self._pieces) if name.startswith(prefix) for result in load(self._folder / name)]
        batch = Batch(self, known, save)
        self._batches.append(batch)
        return batch

    def _prefix(self, number: int) -> str:
        return f"{_PIECES}{self._stage}_{number:03d}_"

    def add(self, batch: Batch[R], result: R) -> None:
        """As ``Batch.add``."""
        if self._every is None:
            return
        batch.pending.append(result)
        self._uncommitted += 1
        if self._uncommitted >= self._every:
            self._flush()

    def _flush(self) -> None:
        fresh = {}
        for number, batch in enumerate(self._batches):
            if batch.pending:
                prefix = self._prefix(number)
                name = f"{prefix}{sum(piece.startswith(prefix) for piece in self._pieces):04d}.npz"
                batch.save(self._folder / name, batch.pending)
                fresh[name] = file_sha256(self._folder / name)
                batch.pending.clear()
        self._uncommitted = 0
        self._pieces += fresh
        self._commit(fresh)

    def dropped(self, files: Mapping[str, str]) -> dict[str, str]:
        """The files of a commit without the pieces."""
        return {name: sha256 for name, sha256 in files.items() if not name.startswith(_PIECES)}

    def remove(self) -> None:
        """Remove the pieces from the disk, once no commit names them."""
        for name in self._pieces:
            (self._folder / name).unlink(missing_ok=True)
