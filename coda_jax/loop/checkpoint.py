"""Checkpoints of arrays: orbax folders, each sealed by a SHA-256 of its files and a record written last.

A folder without its seal is the remains of a killed save; one that no longer matches its seal is damaged and is passed over.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import hashlib
import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

log = logging.getLogger(__name__)
_SPACE_MARGIN = 1.5  # orbax writes chunks and metadata beside the arrays


class CheckpointError(RuntimeError):
    """No usable checkpoint; the message says which were found and what is wrong with them."""


class DiskFullError(OSError):
    """Too little free space to save; earlier checkpoints are intact. The message says how many bytes are needed."""


@dataclasses.dataclass(frozen=True)
class Restored:
    """tree: like the template. step: of the checkpoint. record: what the saver wrote beside it."""

    tree: Any
    step: int
    record: dict[str, Any]


def require_space(folder: Path, size: int, what: str = "") -> None:
    """Refuse to begin a write that cannot end; ``what`` names it in the message.

    Raises:
      DiskFullError: fewer than ``size`` bytes are free in ``folder``.
    """
    free = shutil.disk_usage(folder).free
    if free < size:
        wanted = f"{what} needs {size} bytes" if what else f"{size} bytes are needed"
        raise DiskFullError(errno.ENOSPC, f"{wanted}, {free} are free", str(folder))


def folder_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of every file below ``folder``, in sorted order."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + str(path.stat().st_size).encode() + b"\0")
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


class Checkpoints:
    """Sealed checkpoints ``0, 1, 2 ...`` (by step) in one folder; keeps the newest ``keep``. Use from one process only.

    At least two are kept: a save drops the oldest before a commit names the new one, and a kill in between must leave the committed one.
    Opening removes nothing; ``clean`` does.
    """

    def __init__(self, folder: str | os.PathLike[str], keep: int):
        if keep < 2:
            raise ValueError(f"checkpoint.keep is {keep}; it must be at least 2")
        self.folder, self._keep = Path(folder).absolute(), keep
        self.folder.mkdir(parents=True, exist_ok=True)

    @functools.cached_property
    def _manager(self) -> ocp.CheckpointManager:
        options = ocp.CheckpointManagerOptions(max_to_keep=self._keep, create=True, enable_async_checkpointing=False)
        return ocp.CheckpointManager(self.folder, options=options)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        if "_manager" in self.__dict__:
            self._manager.close()

    def _seal(self, step: int) -> Path:
        return self.folder / f"seal_{step}.json"

    def clean(self) -> None:
        """Remove the remains of killed saves; call it before anything is saved or restored."""
        for stale in self.folder.glob("*.orbax-checkpoint-tmp*"):
            shutil.rmtree(stale, ignore_errors=True)
        for seal in self.folder.glob("seal_*.json*"):
            if seal.suffix != ".json" or not (self.folder / seal.stem.removeprefix("seal_")).is_dir():
                seal.unlink(missing_ok=True)
        for path in self.folder.iterdir():
            if path.is_dir() and path.name.isdigit() and not self._seal(int(path.name)).is_file():
                log.warning("checkpoint %s was not finished; removing it", path)
                shutil.rmtree(path)

    def steps(self) -> list[int]:
        """Steps of the sealed checkpoints, oldest first."""
        found = (int(p.stem.removeprefix("seal_")) for p in self.folder.glob("seal_*.json"))
        return sorted(s for s in found if (self.folder / str(s)).is_dir())

    def save(self, step: int, tree: Any, record: dict[str, Any] | None = None) -> str:
        """Write ``tree``; when this returns it is on the disk and sealed. Saving an existing step replaces it. Returns the checksum.

        Raises:
          DiskFullError: less space is free than the arrays need.
        """
        need = int(_SPACE_MARGIN * sum(leaf.nbytes for leaf in jax.tree.leaves(tree)))
        require_space(self.folder, need, f"saving step {step}")
        if (self.folder / str(step)).exists():
            self._seal(step).unlink(missing_ok=True)
            self._manager.delete(step)
        self._manager.save(step, args=ocp.args.StandardSave(tree), force=True)
        self._manager.wait_until_finished()
        checksum = folder_digest(self.folder / str(step))
        temporary = self._seal(step).with_suffix(".json.tmp")
        with temporary.open("w") as file:
            json.dump({"step": step, "sha256": checksum, "record": record or {}}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self._seal(step))
        with contextlib.suppress(OSError):  # some file systems cannot sync a folder
            descriptor = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        for seal in self.folder.glob("seal_*.json"):
            if not (self.folder / seal.stem.removeprefix("seal_")).is_dir():
                seal.unlink()  # orbax dropped the oldest
        return checksum

    def drop_above(self, step: int) -> None:
        """Remove the checkpoints after ``step``, which no commit names."""
        for later in [s for s in self.steps() if s > step]:
            self._seal(later).unlink(missing_ok=True)
            self._manager.delete(later)

    def read_record(self, step: int) -> dict[str, Any]:
        """What the saver wrote beside the arrays of ``step``.

        Raises:
          CheckpointError: no such checkpoint, or its seal is unreadable.
        """
        return self._read_seal(step)["record"]

    def sealed_sha256(self, step: int) -> str:
        """The checksum that the checkpoint of ``step`` was sealed with.

        Raises:
          CheckpointError: no such checkpoint, or its seal is unreadable.
        """
        return self._read_seal(step)["sha256"]

    def _read_seal(self, step: int) -> dict[str, Any]:
        try:
            seal = json.loads(self._seal(step).read_text())
            if not isinstance(seal["sha256"], str) or not isinstance(seal["record"], dict):
                raise TypeError("wrong types")
            return seal
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"checkpoint {step} in {self.folder} has no readable seal ({error}); there are {self.steps()}") from None

    def problem(self, step: int, committed: str | None = None) -> str | None:
        """What is wrong with the checkpoint of ``step``, or None; ``committed``: the checksum that it must have."""
        try:
            seal = self._read_seal(step)
        except CheckpointError as error:
            return str(error)
        if not (self.folder / str(step)).is_dir():
            return f"checkpoint {step} in {self.folder} is gone"
        if folder_digest(self.folder / str(step)) != seal["sha256"]:
            return f"checkpoint {self.folder / str(step)} is damaged: its files do not match their SHA-256"
        if committed is not None and seal["sha256"] != committed:
            return f"checkpoint {step} in {self.folder} is not the one that was committed"
        return None

    def restore(self, template: Any, step: int | None = None) -> Restored:
        """The checkpoint of ``step``, or the newest intact one; damaged ones are named in a warning and passed over.

        template: a tree of arrays (or ShapeDtypeStructs) of the same structure.

        Raises:
          CheckpointError: the step asked for is damaged or missing, none is intact, or it has other shapes than the template.
        """
        candidates = self.steps()[::-1] if step is None else [step]
        problems = []
        for candidate in candidates:
            problem = self.problem(candidate)
            if problem is None:
                return Restored(self._load(template, candidate), candidate, self.read_record(candidate))
            problems.append(problem)
            if step is None:
                log.warning("%s; trying the one before", problem)
        raise CheckpointError("; ".join(problems) if problems else f"no checkpoint in {self.folder}; run the training first")

    def _load(self, template: Any, step: int) -> Any:
        abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, template)
        placed = any(getattr(leaf, "committed", False) for leaf in jax.tree.leaves(template))
        if not placed:  # read to the host: arrays bound to a device would compile every step again, and reading them compiles too
            abstract = jax.tree.map(lambda x: np.empty(x.shape, x.dtype), abstract)
        try:
            tree = self._manager.restore(step, args=ocp.args.StandardRestore(abstract))
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"checkpoint {step} in {self.folder} does not fit the settings (was the width changed?): {error}"
            ) from error
        if not placed:
            tree = jax.tree.map(lambda x: jax.device_put(np.asarray(x)), tree)
        for have, want in zip(jax.tree.leaves(tree), jax.tree.leaves(abstract), strict=True):
            if have.shape != want.shape:
                raise CheckpointError(f"checkpoint {step} in {self.folder} holds shape {have.shape} where the settings need {want.shape}")
        return tree


def committed(folder: Path, keep: int, template: Any, step: int, sha256: str) -> Any:
    """The checkpoint that a commit of another process names, without opening its run for writing.

    folder: of the checkpoints, in that of the run.

    Raises:
      CheckpointError: it is gone, damaged, not the one that was committed, or of other settings.
    """
    with Checkpoints(folder, keep) as checkpoints:
        if (found := checkpoints.problem(step, sha256)) is not None:
            raise CheckpointError(f"{found}: let --mode=run go on with {folder.parent}, which goes back to the commit before")
        return checkpoints.restore(template, step).tree
