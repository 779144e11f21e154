"""One record per evaluation rollout, kept as ``episodes/eval_{suite}.jsonl`` in the run folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from coda_jax.evaluation.metrics import Moment, Tally, atomic_write
from coda_jax.scenes.generate import SUITES

_SUITE_NAME = r"^[A-Za-z0-9_-]+$"  # it becomes part of a file name


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False))
class EvalRecord:
    """One rollout of one suite scene.

    moment: "before" or "after" the run's training. steps: executed control steps. phase_failed: None for a success, else the first
    phase never met. health: bit flags of SimState.health; a flagged rollout counts as a failure and is reported apart.
    film: path of its film strip relative to the run folder, or None.
    """

    family: str
    suite: Annotated[str, Field(pattern=_SUITE_NAME)]
    split: Literal["train", "validation", "test"]
    moment: Moment
    scene_id: str
    seed: int
    success: bool
    steps: Annotated[int, Field(ge=0)]
    phase_failed: str | None
    instruction: str
    health: int = 0
    film: str | None = None


_RECORD: TypeAdapter[EvalRecord] = TypeAdapter(EvalRecord)


def records_path(run_folder: Path, suite: str) -> Path:
    return run_folder / "episodes" / f"eval_{suite}.jsonl"


def write_records(run_folder: Path, records: Iterable[EvalRecord]) -> list[Path]:
    """Store records by suite, atomically; earlier records of the same (family, split, moment) of a suite are replaced."""
    by_suite: dict[str, list[EvalRecord]] = {}
    for record in records:
        by_suite.setdefault(record.suite, []).append(record)
    paths = []
    for suite, new in by_suite.items():
        path = records_path(run_folder, suite)
        groups = {(r.family, r.split, r.moment) for r in new}
        kept = [r for r in _read(path) if (r.family, r.split, r.moment) not in groups] if path.exists() else []
        atomic_write(path, b"".join(_RECORD.dump_json(r) + b"\n" for r in kept + new))
        paths.append(path)
    return paths


def read_records(run_folder: Path) -> list[EvalRecord]:
    """All evaluation records of a run folder, the known suites first.

    Raises:
      ValueError: a line does not follow the schema; the message names file, line and field.
    """
    paths = sorted((run_folder / "episodes").glob("eval_*.jsonl"))
    order = {name: i for i, name in enumerate(SUITES)}
    paths.sort(key=lambda p: order.get(p.stem.removeprefix("eval_"), len(SUITES)))
    return [record for path in paths for record in _read(path)]


def tally(records: Iterable[EvalRecord], split: str) -> dict[str, dict[str, dict[Moment, Tally]]]:
    """``Summary.suites`` from the records of one split: [family][suite][moment] = {k, n}."""
    out: dict[str, dict[str, dict[Moment, Tally]]] = {}
    for r in records:
        if r.split != split:
            continue
        moments = out.setdefault(r.family, {}).setdefault(r.suite, {})
        old = moments.get(r.moment, Tally(0, 0))
        moments[r.moment] = Tally(old.k + int(r.success), old.n + 1)
    return out


def _read(path: Path) -> list[EvalRecord]:
    records = []
    # split at newlines only: an instruction may hold other line separators
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        if not line:
            continue
        try:
            records.append(_RECORD.validate_json(line))
        except ValidationError as error:
            raise ValueError(f"{path}:{number} is not an evaluation record: {error}") from error
    return records
