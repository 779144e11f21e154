"""What a sweep measured: ``cells.jsonl``, one finished cell a line, appended and synced, so that a stopped sweep goes on."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from coda_jax.evaluation.metrics import atomic_write
from coda_jax.evaluation.statistics import Interval, PairedDifference, cluster_bootstrap, paired_difference, wilson
from coda_jax.programs.refusal import first_error
from coda_jax.runtime import InputError

log = logging.getLogger(__name__)
FILE = "cells.jsonl"
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False))
class CellResult:
    """One policy at one temperature on one suite.

    run: name of its run. step, sha256: of its checkpoint. conditions: digest of everything else that its verdicts depend on (scenes, seeds,
    horizons, executed actions, backend). verdicts: "1" for a success, one for each scene and seed, scenes first. clipped: action entries
    outside [-1, 1]. unhealthy: rollouts that ended with a health flag. control_steps: of all rollouts.
    """

    run: str
    step: Count
    sha256: str
    suite: str
    split: Literal["validation", "test"]
    temperature: Annotated[float, Field(ge=0)]
    conditions: str
    seeds: Annotated[int, Field(ge=1)]
    verdicts: Annotated[str, Field(pattern="^[01]+$")]
    clipped: Count
    unhealthy: Count
    control_steps: Count

    @model_validator(mode="after")
    def _whole(self):
        if len(self.verdicts) % self.seeds:
            raise ValueError(f"{len(self.verdicts)} verdicts are no multiple of {self.seeds} seeds")
        return self

    @property
    def key(self) -> tuple[str, str, float, str]:
        """What tells it from other cells."""
        return self.sha256, self.suite, self.temperature, self.conditions

    @property
    def policy(self) -> str:
        """ "quickstart step 500"."""
        return f"{self.run} step {self.step}"

    @property
    def k(self) -> int:
        return self.verdicts.count("1")

    @property
    def n(self) -> int:
        return len(self.verdicts)

    def by_scene(self) -> np.ndarray:
        """Successes [scenes, seeds]."""
        return (np.frombuffer(self.verdicts.encode(), np.uint8) == ord("1")).reshape(-1, self.seeds)


def interval(cells: Sequence[CellResult]) -> Interval:
    """95 % interval of the success of cells of one policy and temperature: Wilson's, over scenes where a scene has several rollouts."""
    k, n = sum(c.k for c in cells), sum(c.n for c in cells)
    scenes = [row for c in cells for row in c.by_scene()]
    if all(len(row) == 1 for row in scenes) or len(scenes) < 2:
        return wilson(k, n)
    return cluster_bootstrap([int(row.sum()) for row in scenes], [len(row) for row in scenes])


def difference(better: CellResult, other: CellResult) -> PairedDifference:
    """Success of one cell over another on the same scenes, paired scene by scene."""
    return paired_difference(better.by_scene().mean(1) - other.by_scene().mean(1))


_CELL: TypeAdapter[CellResult] = TypeAdapter(CellResult)


def append_cell(path: Path, cell: CellResult) -> None:
    """Add a line; when this returns it is on the disk."""
    with path.open("ab") as file:
        file.write(_CELL.dump_json(cell) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_cells(path: Path) -> list[CellResult]:
    """The finished cells, the latest of each key; a last line that a kill cut short is named in a warning and cut away.

    Raises:
      InputError: another line is none of ours; the message names file and line.
    """
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        log.warning("%s ends within a line; that cell is measured again", path)
        atomic_write(path, whole)
    found: dict[tuple, CellResult] = {}
    for number, line in enumerate(whole.split(b"\n")[:-1], 1):
        try:
            cell = _CELL.validate_json(line)
        except ValidationError as error:
            what = first_error(error, "line")
            raise InputError(f"{path}:{number} is no cell of a sweep ({what}); remove the line: its cell is measured again") from None
        found[cell.key] = cell
    return list(found.values())
