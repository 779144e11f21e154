"""The file of records: a JSON object a line, appended as episodes end, so that a stopped run goes on where it was."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from pathlib import Path
from typing import Any

FORMAT = 1
SAME = ("format", "stack", "policy", "observes", "seed", "settle_steps", "replan_steps", "most_steps", "versions")  # within one file


class RecordsError(ValueError):
    """A file of records cannot be continued; the message says why and what to change."""


class Records:
    """Records of one run. done: keys of the episodes that need not be run again.

    same: values of the fields SAME, which every record gets and every earlier one must have. retry_errors: whether episodes that ended with
    an error of the simulator are run again; a later record of an episode replaces an earlier one for readers.

    Raises:
      RecordsError: the file is damaged, of another policy, seed, stack or other settings, or another run is writing it.
    """

    def __init__(self, path: Path, same: dict[str, Any], retry_errors: bool = False):
        self._same = {"format": FORMAT, **same}
        assert self._same.keys() == set(SAME)
        self.records: list[dict[str, Any]] = []
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file.seek(0)
            data = self._file.read()
        except BlockingIOError:
            raise RecordsError(f"another run is writing {path}: wait for it, or choose another --out") from None
        except OSError as error:
            raise RecordsError(f"{path} cannot be written ({error}); choose another --out") from None
        whole = data[: data.rfind(b"\n") + 1]  # what a kill cut short is run again
        for number, line in enumerate(whole.split(b"\n")[:-1], 1):
            self.records.append(self._read(path, number, line))
        self.done = {key_of(r) for r in self.records if not (retry_errors and r["outcome"] == "error")}
        self._file.truncate(len(whole))

    def add(self, record: dict[str, Any]) -> None:
        """Append one episode, on disk when this returns."""
        record = {**self._same, **record}
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise RecordsError(f"{self._path} cannot be written any more ({error}); make room, and the same command goes on") from None
        self.records.append(record)
        self.done.add(key_of(record))

    def close(self) -> None:
        with contextlib.suppress(OSError):  # of what could not be written, which has been said
            self._file.close()

    def _read(self, path: Path, number: int, line: bytes) -> dict[str, Any]:
        try:
            record = json.loads(line)
            hash(key_of(record))
            found = {name: record[name] for name in (*SAME, "outcome")}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise RecordsError(f"{path}:{number} is no record ({error}); choose another --out, or remove the line") from None
        for name, wanted in self._same.items():
            if type(found[name]) is not type(wanted) or found[name] != wanted:
                raise RecordsError(
                    f"{path} was made with {name} {_short(found[name])}, this run has {_short(wanted)}; choose another --out, or set it "
                    "back"
                )
        return record


def key_of(record: dict[str, Any]) -> tuple[str, str, int, str]:
    """As plan.Episode.key."""
    return record["suite"], record["name"], record["init_index"], record["prompt_source"]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:200] + " ..."
