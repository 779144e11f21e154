"""The memory of one run: an SQLite file that is written in whole transactions and read as rows."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import logging
import sqlite3
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any, TypeVar

from coda_jax.memory import connection as connections
from coda_jax.memory import seals
from coda_jax.memory.rows import Construction, ControlTest, Diagnosis, Episode, LearningValue, Mode, Program, Scene
from coda_jax.memory.schema import NAMES, STAMPED
from coda_jax.memory.transaction import CODECS, StoreError, Transaction

log = logging.getLogger(__name__)
FILE = "memory.sqlite"
R = TypeVar("R")

# How rows of each kind are read; what follows is a WHERE or ORDER BY. Letters of the tables as here.
_FROM: dict[type, str] = {
    Scene: "scenes s",
    Construction: "constructions c",
    Episode: "episodes e",
    Diagnosis: "diagnoses d LEFT JOIN assignments a USING (episode_id)",
    ControlTest: "control_tests t",
    LearningValue: "learning_values l",
    Mode: "modes m JOIN mode_versions v USING (mode_id)",
    Program: "programs p JOIN program_versions v USING (program_id)",
}
CURRENT = {
    Mode: "v.version = (SELECT max(version) FROM mode_versions WHERE mode_id = m.mode_id)",
    Program: "v.version = (SELECT max(version) FROM program_versions WHERE program_id = p.program_id)",
}


def read_rows(connection: sqlite3.Connection, row_type: type[R], tail: str = "", parameters: Sequence[Any] = ()) -> Iterator[R]:
    """Rows of one kind, one by one; ``tail`` is what follows FROM. Raises RowError for a row that is not valid."""
    codec = CODECS[row_type]
    columns = ", ".join(f'"{name}"' for name in codec.columns)
    for values in connection.execute(f"SELECT {columns} FROM {_FROM[row_type]} {tail}", parameters):
        yield codec.decode(values)


@dataclasses.dataclass(frozen=True)
class StoredCommit:
    """A commit as stored. body: JSON of the loop's own record of it."""

    number: int
    stage: str
    metrics_bytes: int
    body: str


class Memory:
    """Open with ``Memory.open`` or ``Memory.reading``, and close (or use ``with``); one thread only.

    path: the file. last: number of the last commit, 0 for none.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, frozen: Set[str], sums: dict[int, int] | None):
        self.path, self._connection, self._frozen = path, connection, frozen
        self._columns = {name: tuple(c[0] for c in connection.execute(f"SELECT * FROM {name} LIMIT 0").description) for name in NAMES}
        self._sums = sums

    @classmethod
    def open(cls, path: Path, frozen: Set[str] = frozenset()) -> Memory:
        """Open the memory for writing, or make an empty one; structure, schema and seals are checked.

        frozen: ids of the scenes of frozen suites, which are refused.

        Raises:
          InputError: the file is damaged or not ours, or another process writes it. OSError: the disk is full.
        """
        connection = connections.open_for_writing(path)
        try:
            with connections.translated(path):
                return cls(path, connection, frozen, seals.sums(connection))
        except BaseException:
            connection.close()
            raise

    @classmethod
    def reading(cls, path: Path) -> Memory:
        """Open the memory of a run that may be in progress, to read. Raises InputError as ``open``, and where there is none."""
        return cls(path, connections.open_for_reading(path), frozenset(), None)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def last(self) -> int:
        return self.select("SELECT coalesce(max(number), 0) FROM commits")[0][0]

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Add rows, and at the end a commit; nothing is stored unless the block ends well, and then durably.

        Rows of a transaction without a commit belong to the next commit.

        Raises:
          StoreError: a row does not fit what is stored. OSError: the disk is full (nothing is stored).
        """
        if self._sums is None:
            raise StoreError(f"{self.path} was opened for reading: use Memory.open to write")
        number = self.last + 1
        transaction = Transaction(self._connection, self._columns, self._frozen, number, self._sums.get(number, 0))
        try:
            with self._sql_transaction():
                yield transaction
        except OSError as error:
            if error.errno == errno.ENOSPC and error.filename == str(self.path):
                error.strerror = f"{error.strerror}, at least {transaction.bytes} bytes are needed"
            raise
        finally:
            transaction.closed = True
        self._sums[number] = transaction.sum

    @contextlib.contextmanager
    def _sql_transaction(self) -> Iterator[None]:
        if self._connection.in_transaction:
            raise StoreError("a transaction is open already: end it before the next one")
        with connections.translated(self.path, decode=False):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def commits(self) -> list[StoredCommit]:
        """All commits, oldest first. A memory that was opened for writing leaves out those whose rows are damaged, and the later ones."""
        found = []
        for *fields, seal in self.select("SELECT number, stage, metrics_bytes, body, seal FROM commits ORDER BY number"):
            commit = StoredCommit(*fields)
            if self._sums is not None and seal != seals.seal(self._sums.get(commit.number, 0), *fields):
                log.warning("%s: rows of commit %d (%s) are damaged; it and what follows is left out", self.path, *fields[:2])
                break
            found.append(commit)
        return found

    def truncate(self, number: int) -> None:
        """Drop the commits after ``number`` and every row of theirs, also rows that no commit followed."""
        if self._sums is None:
            raise StoreError(f"{self.path} was opened for reading: use Memory.open to write")
        with self._sql_transaction():
            self._connection.execute("PRAGMA defer_foreign_keys = ON")
            for table in reversed(STAMPED):
                self._connection.execute(f"DELETE FROM {table} WHERE commit_no > ?", (number,))
            self._connection.execute("DELETE FROM commits WHERE number > ?", (number,))
        self._sums = {n: total for n, total in self._sums.items() if n <= number}

    def select(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Values of a query."""
        with connections.translated(self.path):
            return self._connection.execute(sql, parameters).fetchall()

    def rows(self, row_type: type[R], tail: str = "", parameters: Sequence[Any] = ()) -> list[R]:
        """Rows of one kind, as ``read_rows``."""
        with connections.translated(self.path):
            return list(read_rows(self._connection, row_type, tail, parameters))

    def scene(self, scene_id: str) -> Scene | None:
        """A stored scene, or None."""
        return next(iter(self.rows(Scene, "WHERE scene_id = ?", (scene_id,))), None)

    def program(self, program_id: str) -> Program | None:
        """The current version of a stored program, or None."""
        return next(iter(self.rows(Program, f"WHERE p.program_id = ? AND {CURRENT[Program]}", (program_id,))), None)

    def next_episode_id(self) -> int:
        """The id that the next episode gets."""
        return self.select("SELECT coalesce(max(episode_id), 0) + 1 FROM episodes")[0][0]
