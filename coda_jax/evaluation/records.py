"""One record per evaluation rollout, kept as ``episodes/eval_{moment}_{suite}.jsonl`` in the run folder: a measurement, a file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from coda_jax.evaluation.metrics import MOMENTS, Moment, Tally, atomic_write
from coda_jax.programs.refusal import first_error
from coda_jax.runtime import InputError
from coda_jax.scenes.generate import SUITES
from coda_jax.scenes.libero.suites import SUITES as LIBERO_SUITES

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


_KNOWN = (*SUITES, *LIBERO_SUITES)  # in the order of tables
_RECORD: TypeAdapter[EvalRecord] = TypeAdapter(EvalRecord)


def records_name(suite: str, moment: Moment) -> str:
    """Path of a suite's records at one moment, relative to the run folder."""
    return f"episodes/eval_{moment}_{suite}.jsonl"


def write_records(run_folder: Path, records: Iterable[EvalRecord]) -> list[Path]:
    """Store records by suite and moment, atomically; earlier records of the same (family, split) of a file are replaced."""
    by_file: dict[str, list[EvalRecord]] = {}
    for record in records:
        by_file.setdefault(records_name(record.suite, record.moment), []).append(record)
    paths = []
    for name, new in by_file.items():
        path = run_folder / name
        groups = {(r.family, r.split) for r in new}
        kept = [r for r in _read(path) if (r.family, r.split) not in groups] if path.exists() else []
        atomic_write(path, b"".join(_RECORD.dump_json(r) + b"\n" for r in kept + new))
        paths.append(path)
    return paths


def records_of(run_folder: Path, suite: str, moment: Moment) -> list[EvalRecord]:
    """The records of one suite at one moment. Raises InputError as ``read_records``, OSError where they are missing."""
    return _read(run_folder / records_name(suite, moment))


def read_records(run_folder: Path) -> list[EvalRecord]:
    """All evaluation records of a run folder, the known suites first, each before and after.

    Raises:
      InputError: a line does not follow the schema; the message names file, line and field.
    """
    order = {name: i for i, name in enumerate(_KNOWN)}

    def place(path: Path) -> tuple[int, str, int]:
        _, moment, suite = path.stem.split("_", 2)
        return order.get(suite, len(_KNOWN)), suite, MOMENTS.index(moment)

    paths = [p for moment in MOMENTS for p in (run_folder / "episodes").glob(records_name("*", moment).removeprefix("episodes/"))]
    return [record for path in sorted(paths, key=place) for record in _read(path)]


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
    for number, line in enumerate(path.read_text("utf-8", errors="replace").split("\n"), 1):
        if not line:
            continue
        try:
            records.append(_RECORD.validate_json(line))
        except ValidationError as error:
            found = first_error(error, "line")
            raise InputError(f"{path}:{number} is not an evaluation record ({found}); remove the file: it is measured again") from None
    return records
