"""Opening ``memory.sqlite``: how a run writes and reads its own, and what SQLite's errors mean to the user."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from coda_jax.memory import schema
from coda_jax.runtime import InputError

_NO_SPACE_BYTES = 1 << 20  # an I/O error with less than this free is a full disk: SQLite names only some of them so


def _remedy() -> str:
    return "restore it from a copy, or begin anew in another --workdir"


def damaged(path: Path, what: object) -> InputError:
    """The error for a file that SQLite cannot read, or that is not as we wrote it."""
    return InputError(f"{path} is damaged ({what}); {_remedy()}")


@contextlib.contextmanager
def translated(path: Path, decode: bool = True) -> Iterator[None]:
    """Inside, SQLite's errors become ours; with ``decode`` also text that is no UTF-8, which is then taken for the file's.

    Raises:
      OSError: the disk is full (ENOSPC) or fails (EIO). InputError: the file is damaged, locked, or may not be written.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        if decode:
            raise damaged(path, error) from error
        raise
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
        io = code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
        if code == sqlite3.SQLITE_FULL or (io and shutil.disk_usage(path.parent).free < _NO_SPACE_BYTES):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        if code == sqlite3.SQLITE_IOERR:
            raise OSError(errno.EIO, f"{os.strerror(errno.EIO)} ({error})", str(path)) from error
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "decode to UTF-8" in str(error):
            raise damaged(path, error) from error
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise InputError(f"{path} is being written by another process; wait for it or stop it") from error
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
            raise InputError(f"{path} cannot be opened ({error}); check that you may write to the folder, or copy it elsewhere") from error
        raise


def _create(path: Path) -> None:
    """Make an empty memory that appears whole, so that an empty or half-made file at ``path`` is always a damaged one."""
    part = path.with_name(path.name + ".part")
    for stale in (part, part.with_name(part.name + "-journal")):
        stale.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as connection:
        schema.create(connection)
    os.replace(part, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    if sqlite3.sqlite_version_info < schema.OLDEST_SQLITE:
        needed = ".".join(map(str, schema.OLDEST_SQLITE))
        raise InputError(f"this Python's SQLite is {sqlite3.sqlite_version}, {needed} or later is needed; use a newer build of Python")
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None, timeout=10.0)
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    try:
        schema.check(connection)
    except schema.SchemaError as error:
        raise InputError(f"{path}: {error}; {_remedy()}") from None


def open_for_writing(path: Path) -> sqlite3.Connection:
    """A connection that commits durably; the file is made where there is none.

    Raises:
      InputError: the file is damaged, not ours, or cannot be opened. OSError: the disk is full.
    """
    with translated(path):
        if not path.exists():
            _create(path)
        connection = _connect(path, "mode=rw")
        try:
            _check_schema(connection, path)
            # not quick_check: it passes over an index that no longer fits its table, which would then break in the middle of a run
            (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                raise damaged(path, found)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            return connection
        except BaseException:
            connection.close()
            raise


def open_for_reading(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, also while another process writes.

    It may write in SQLite's sense: one that may not would leave ``-wal`` and ``-shm`` files behind.

    Raises:
      InputError: there is no such file, or as ``open_for_writing``.
    """
    if not path.is_file():
        raise InputError(f"there is no {path}; give the folder of a run")
    with translated(path):
        connection = _connect(path, "mode=rw" if os.access(path.parent, os.W_OK) else "mode=ro&immutable=1")
        try:
            connection.execute("PRAGMA query_only = ON")
            _check_schema(connection, path)
            return connection
        except BaseException:
            connection.close()
            raise
