"""What a run leaves for scripts: ``metrics.jsonl`` (one JSON object a line) and ``summary.json``; both survive kill -9."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from coda_jax.programs.refusal import first_error
from coda_jax.runtime import InputError

_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
Count = Annotated[int, Field(ge=0)]
Moment = Literal["before", "after"]
MOMENTS: tuple[Moment, ...] = get_args(Moment)
METRICS = "metrics.jsonl"
_MEND_LINE = "restore it, or write as many blanks over it: commits name the length of the file, so it must not change"
SUMMARY = "summary.json"


@dataclass(frozen=True, config=_STRICT)
class Tally:
    """``k`` successes of ``n`` rollouts."""

    k: Count
    n: Count

    @model_validator(mode="after")
    def _k_within_n(self):
        if self.k > self.n:
            raise ValueError(f"k = {self.k} successes of n = {self.n}: k must lie in 0..n")
        return self


@dataclass(frozen=True, config=_STRICT)
class Targeting:
    """A round's environments before its training. share: with 4 to 12 successes of 16 rollouts (``memory.band.targeting_share``), None
    without environments. exact: how many of them had 16 rollouts; for the others the share holds a chance."""

    environments: Count
    exact: Count
    share: Annotated[float, Field(ge=0, le=1)] | None


@dataclass(frozen=True, config=_STRICT)
class Coverage:
    """Entropy of what was edited in accepted environments (``coverage.coverage_bits``). environments: the edited ones; bits: None without
    them."""

    environments: Count
    bits: Annotated[float, Field(ge=0)] | None


@dataclass(frozen=True, config=_STRICT)
class Verification:
    """Scenes that a round's strategy proposed and that were put through the physical checks. first: those that passed as proposed; valid:
    after repairs, the first ones included. traces: whether earlier constructions were priors of what was proposed."""

    proposed: Count
    first: Count
    valid: Count
    traces: bool

    @model_validator(mode="after")
    def _in_order(self):
        if not self.first <= self.valid <= self.proposed:
            raise ValueError(f"first = {self.first}, valid = {self.valid}, proposed = {self.proposed}: each lies within the next")
        return self


@dataclass(frozen=True, config=_STRICT)
class Calibration:
    """A round's critic. decisions: of the policy. calibration_error: mean distance of its values from what they earned."""

    round: Count
    decisions: Count
    calibration_error: Annotated[float, Field(ge=0)] | None


@dataclass(frozen=True, config=_STRICT)
class Summary:
    """The numbers of a run that scripts read; committed work only.

    rounds: finished ones. accepted, rejected: scenes that passed validity, and the refused ones by reason. diagnoses: control tests by
    verdict. modes: for each round how many were new, kept from earlier rounds, and removed. targeting: of each round. coverage: of the
    environments of each round; run_coverage: of all of them. verification: of each round. critic: of each round whose critic judged
    decisions of the policy.
    compiles_per_round: executables built after the start, first those outside of rounds, then of each round. tokens: of language models,
    read and written together; tokens_estimated: questions of which no server counted them. questions: to language models, by purpose and
    what came of them; agents: what became of the answers, by purpose.
    sim_steps: physics steps. robot: who acted. within_reach: [family][suite] scenes that it reaches, where it is not the suites' own.
    suites: [family][suite]["before" | "after"] = {k, n}. sandbox_without: layers of the operating system with which the sandbox's workers
    did not start.
    """

    seed: int
    wall_s: Annotated[float, Field(ge=0)]
    accepted: Count
    rejected: dict[str, Count]
    compiles_per_round: list[Count]
    sim_steps: Count
    suites: dict[str, dict[str, dict[Moment, Tally]]]
    rounds: Count = 0
    diagnoses: dict[str, Count] = dataclasses.field(default_factory=dict)
    modes: list[dict[str, Count]] = dataclasses.field(default_factory=list)
    targeting: list[Targeting] = dataclasses.field(default_factory=list)
    coverage: list[Coverage] = dataclasses.field(default_factory=list)
    run_coverage: Coverage | None = None
    verification: list[Verification] = dataclasses.field(default_factory=list)
    critic: list[Calibration] = dataclasses.field(default_factory=list)
    tokens: Count = 0
    tokens_in: Count = 0
    tokens_out: Count = 0
    tokens_estimated: Count = 0
    questions: dict[str, dict[str, Count]] = dataclasses.field(default_factory=dict)
    agents: dict[str, dict[str, Count]] = dataclasses.field(default_factory=dict)
    robot: str = "panda"
    within_reach: dict[str, dict[str, Tally]] = dataclasses.field(default_factory=dict)
    sandbox_without: list[str] = dataclasses.field(default_factory=list)


_SUMMARY: TypeAdapter[Summary] = TypeAdapter(Summary)


def atomic_write(path: Path, data: bytes) -> None:
    """Replace ``path`` by ``data`` so that a reader, or a crash at any moment, sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), 0o644)  # mkstemp makes it private
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself must reach the disk
    finally:
        os.close(folder)


def jsonable(value: Any) -> Any:
    """Plain JSON data from numpy and jax scalars and arrays; NaN and infinities become null, which every JSON reader takes."""
    if isinstance(value, Mapping):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(v) for v in value]
    if hasattr(value, "tolist"):
        return jsonable(np.asarray(value).tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class MetricsWriter:
    """Appends rows to ``metrics.jsonl``; what was not committed is cut away when the run resumes.

    Args:
      path: the file. committed_bytes: length named by the last commit; 0 starts the log anew.

    Raises:
      InputError: the file is shorter than the committed length, so rows of committed work are lost, or a symbolic link or no plain file:
        what it points to is not ours to cut.
    """

    def __init__(self, path: Path, committed_bytes: int):
        path.parent.mkdir(parents=True, exist_ok=True)
        if (path.is_symlink() or path.exists()) and not stat.S_ISREG(path.lstat().st_mode):
            raise InputError(f"{path} is a link or no plain file; remove it, or choose another --workdir")
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644), "ab")
        size = self._file.seek(0, os.SEEK_END)
        if size < committed_bytes:
            self._file.close()
            raise InputError(
                f"{path} has {size} bytes, but the last commit names {committed_bytes}: restore the file or start a new workdir"
            )
        self._file.truncate(committed_bytes)
        self._length = committed_bytes

    def write(self, kind: str, **fields: Any) -> None:
        """Add one row ``{"kind": kind, ...}``; see docs/evaluation.md for the kinds the report reads."""
        line = json.dumps({"kind": kind, **jsonable(fields)}, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        self._file.write(line)
        self._length += len(line)

    def commit(self) -> int:
        """Flush rows to the disk and return the length of the file in bytes, which the caller's transaction stores."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._length

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> MetricsWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Rows of ``metrics.jsonl``; [] without a file. A half-written last line of a killed process is left out.

    Raises:
      InputError: another line is not a JSON object; the message names it. Blank ones are passed over.
    """
    if not path.exists():
        return []
    lines = path.read_text("utf-8", errors="replace").split("\n")
    rows = []
    for number, line in enumerate(lines[:-1], 1):  # the piece after the last newline is empty or half-written
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}:{number} is not JSON ({error}); {_MEND_LINE}") from None
        if not isinstance(row, dict):
            raise InputError(f"{path}:{number} is not a JSON object; {_MEND_LINE}")
        rows.append(row)
    return rows


def write_summary(run_folder: Path, summary: Summary) -> Path:
    """Validate the summary and write ``summary.json`` atomically; returns its path."""
    path = run_folder / SUMMARY
    atomic_write(path, _SUMMARY.dump_json(summary, indent=2) + b"\n")
    return path


def read_summary(run_folder: Path) -> Summary:
    """Read and strictly validate ``summary.json``.

    Raises:
      InputError: the file is missing or does not follow the schema; the message names the field.
    """
    path = run_folder / SUMMARY
    if not path.exists():
        raise InputError(f"{path} does not exist: run --mode=run or --mode=evaluate with this workdir first")
    try:
        return _SUMMARY.validate_json(path.read_bytes())
    except ValidationError as error:
        found = first_error(error, "file")
        raise InputError(f"{path} does not follow the summary's schema ({found}); let --mode=run write it again") from None
