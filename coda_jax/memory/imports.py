"""Taking modes and programs from the memory of another run. The file is hostile until everything in it was checked."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import sqlite3
import stat
from pathlib import Path

from coda_jax.memory import schema, seals
from coda_jax.memory.codec import RowError
from coda_jax.memory.rows import Mode, Program
from coda_jax.memory.store import CURRENT, read_rows
from coda_jax.memory.transaction import CODECS
from coda_jax.runtime import InputError

MAX_BYTES = 2 << 30
MAX_ROWS = 10_000  # modes, and programs, of one file: far more than any run makes
_MAGIC = b"SQLite format 3\0"
_VALUE_BYTES = 1_000_000  # longest text of a row
_STEPS = 1000  # of SQLite's machine between two looks at the budget
_BUDGET = 2_000_000  # looks; counted, not timed, so that the same file always gives the same answer


@dataclasses.dataclass(frozen=True)
class Imported:
    """Current versions of another memory's modes and programs. The texts must go through the sandbox and the control test again."""

    modes: tuple[Mode, ...]
    programs: tuple[Program, ...]


def import_memory(path: Path, max_bytes: int = MAX_BYTES, max_rows: int = MAX_ROWS) -> Imported:
    """Modes and programs of a finished run's ``memory.sqlite``, read without writing to it or carrying out anything in it.

    Every row of every table is validated and the seals are checked, though only modes and programs are returned.

    Raises:
      InputError: no such file, too large, no SQLite file, damaged, not exactly our tables, too many modes or programs, or a row that is
        not valid.
    """
    _check_file(path, max_bytes)
    # immutable: no locks, no recovery, no files beside it
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)
    with contextlib.closing(connection):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        looks = 0

        def over_budget() -> bool:
            nonlocal looks
            looks += 1
            return looks > _BUDGET

        connection.set_progress_handler(over_budget, _STEPS)
        try:
            for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", "mmap_size = 0"):
                connection.execute(f"PRAGMA {pragma}")
            schema.check(connection)  # before anything that could evaluate an expression of the file
            (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                raise InputError(f"{path} is damaged ({str(found)[:200]}); take another copy of it")
            return _read(path, connection, max_rows)
        except (schema.SchemaError, RowError) as error:
            raise InputError(f"{path} cannot be imported: {error}") from None
        except (sqlite3.Error, UnicodeError) as error:
            if isinstance(error, sqlite3.DataError):  # a value over the limit
                raise InputError(f"{path} cannot be imported: a value is longer than {_VALUE_BYTES} bytes ({error})") from None
            raise InputError(f"{path} is damaged or no memory of coda_jax ({error}); take another copy of it") from None


def _check_file(path: Path, max_bytes: int) -> None:
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            raise InputError(f"{path} is no file; give the memory.sqlite of a finished run")
        if info.st_size > max_bytes:
            raise InputError(f"{path} has {info.st_size} bytes, at most {max_bytes} are read")
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
        target = path.resolve()  # SQLite keeps the log beside the file that a link leads to
        log = target.with_name(target.name + "-wal")
        unfinished = log.exists() and log.stat().st_size > 0
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; give the memory.sqlite of a finished run") from None
    if magic != _MAGIC:
        raise InputError(f"{path} is no SQLite file; give the memory.sqlite of a finished run")
    if unfinished:
        raise InputError(f"{path} is in use, or its run was killed ({log.name} holds its last rows); let that run finish first")


def _read(path: Path, connection: sqlite3.Connection, max_rows: int) -> Imported:
    for what in ("modes", "programs"):  # before any of them is in memory
        (count,) = connection.execute(f"SELECT count(*) FROM {what}").fetchone()
        if count > max_rows:
            raise InputError(f"{path} cannot be imported: it holds {count} {what}, at most {max_rows} are read")
    if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise InputError(f"{path} cannot be imported: rows name others that are not there")
    for row_type in CODECS:
        collections.deque(read_rows(connection, row_type), maxlen=0)  # every row is validated, none is kept
    sums = seals.sums(connection)
    for *fields, sealed in connection.execute("SELECT number, stage, metrics_bytes, body, seal FROM commits"):
        if sealed != seals.seal(sums.pop(fields[0], 0), *fields):
            raise InputError(f"{path} is damaged: rows of commit {fields[0]} are not what was committed; take another copy of it")
    if sums:
        raise InputError(f"{path} holds rows that no commit came for: its run was stopped inside a stage; let it finish first")
    return Imported(
        tuple(read_rows(connection, Mode, f"WHERE {CURRENT[Mode]} ORDER BY mode_id")),
        tuple(read_rows(connection, Program, f"WHERE {CURRENT[Program]} ORDER BY program_id")),
    )
