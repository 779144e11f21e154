"""One transaction: rows of every kind, checked, and the commit that they belong to. All of it is stored, or nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Set
from typing import Any

from coda_jax.memory.codec import Codec, Value
from coda_jax.memory.rows import (
    Construction,
    ControlTest,
    Diagnosis,
    Episode,
    LearningValue,
    Mode,
    Program,
    Row,
    Scene,
)
from coda_jax.memory.seals import row_hash, seal

CODECS: dict[type, Codec[Any]] = {
    row: Codec(row) for row in (Scene, Construction, Episode, Diagnosis, ControlTest, LearningValue, Mode, Program)
}


class StoreError(ValueError):
    """Rows that do not fit what is stored; the message says which row, why, and what to add or change first."""


class FrozenSceneError(StoreError):
    """A scene of a frozen suite was to be stored, which would let engines see held-out content."""


class Transaction:
    """Made by ``Memory.transaction``. Every row belongs to commit ``number``, the one after the last.

    Args:
      connection: inside an SQL transaction. columns: table to its columns in order. frozen: scene ids that must not be stored.
      pending: sum of the hashes of the rows that earlier transactions stored for the same commit.

    sum: of the hashes of all rows of the commit so far. bytes: of what was added, about. committed: the commit is added too.
    closed: the block has ended, nothing can be added.
    """

    def __init__(self, connection: sqlite3.Connection, columns: dict[str, tuple[str, ...]], frozen: Set[str], number: int, pending: int):
        self._connection, self._columns, self._frozen = connection, columns, frozen
        self.number, self.sum = number, pending
        self.committed, self.closed, self.bytes = False, False, 0

    def add(self, row: Row) -> int | None:
        """Add a row of any kind; the id of an episode is returned.

        Raises:
          StoreError: it names something that is not stored, or is stored already, or has the wrong version.
        """
        match row:
            case Scene():
                self.add_scene(row)
            case Construction():
                self.add_construction(row)
            case Episode():
                return self.add_episode(row)
            case Diagnosis():
                self.add_diagnosis(row)
            case ControlTest():
                self.add_control_test(row)
            case LearningValue():
                self.add_learning_value(row)
            case Mode():
                self.add_mode(row)
            case Program():
                self.add_program(row)
            case _:
                raise StoreError(f"a {type(row).__name__} is no row: add one of {', '.join(t.__name__ for t in CODECS)}")
        return None

    def add_scene(self, row: Scene) -> None:
        """Store a scene, once. Raises FrozenSceneError for a scene of a frozen suite, StoreError as ``add``."""
        for scene_id in (row.scene_id, row.base_scene_id):
            if scene_id in self._frozen:
                raise FrozenSceneError(f"scene {scene_id} is in a frozen suite: generate another one, held-out scenes are never remembered")
        self._insert("scenes", row)

    def add_construction(self, row: Construction) -> None:
        self._insert("constructions", row)

    def add_episode(self, row: Episode) -> int:
        """Store a rollout and return its id, the next free one; an ``episode_id`` that is given must be that one."""
        (last,) = self._connection.execute("SELECT max(episode_id) FROM episodes").fetchone()
        following = (last or 0) + 1
        if row.episode_id not in (None, following):
            raise StoreError(f"episode_id {row.episode_id} is not the next one, {following}: leave it None, or count from there")
        self._insert("episodes", row, episode_id=following)
        return following

    def add_diagnosis(self, row: Diagnosis) -> None:
        """Store the diagnosis of a failed episode, and its mode where it has one."""
        success = self._connection.execute("SELECT success FROM episodes WHERE episode_id = ?", (row.episode_id,)).fetchone()
        if success == (1,):
            raise StoreError(f"episode {row.episode_id} succeeded: only failures are diagnosed")
        self._insert("diagnoses", row)
        if row.mode_id is not None:
            self.assign_mode(row.episode_id, row.mode_id)

    def assign_mode(self, episode_id: int, mode_id: str) -> None:
        """Say to which mode a stored diagnosis belongs.

        Raises:
          StoreError: it has one already, or factor and phase of the two differ (EXECUTION never fits a mode).
        """
        diagnosis = self._connection.execute("SELECT factor, phase FROM diagnoses WHERE episode_id = ?", (episode_id,)).fetchone()
        mode = self._connection.execute("SELECT factor, phase FROM modes WHERE mode_id = ?", (mode_id,)).fetchone()
        if diagnosis and mode and diagnosis != mode:
            raise StoreError(
                f"the diagnosis of episode {episode_id} is {' in '.join(diagnosis)}, mode {mode_id} is {' in '.join(mode)}: "
                "both must be the same"
            )
        self._insert_values("assignments", {"episode_id": episode_id, "mode_id": mode_id})

    def add_control_test(self, row: ControlTest) -> None:
        self._insert("control_tests", row)

    def add_learning_value(self, row: LearningValue) -> None:
        self._insert("learning_values", row)

    def add_mode(self, row: Mode) -> None:
        """Store the next version of a mode (1 for a new one)."""
        self._version("mode_versions", "mode_id", row.mode_id, row.version)
        if row.version == 1:
            self._insert("modes", row)
        self._insert("mode_versions", row)

    def add_program(self, row: Program) -> None:
        """Store the next version of a program (1 for a new one)."""
        self._version("program_versions", "program_id", row.program_id, row.version)
        if row.version == 1:
            self._insert("programs", row)
        else:
            (mode_id,) = self._connection.execute("SELECT mode_id FROM programs WHERE program_id = ?", (row.program_id,)).fetchone()
            if mode_id != row.mode_id:
                raise StoreError(f"program {row.program_id} belongs to mode {mode_id}, not {row.mode_id}: a program keeps its mode")
        self._insert("program_versions", row)

    def commit(self, stage: str, metrics_bytes: int, body: str) -> int:
        """Add the commit that all rows since the last one belong to; returns its number. ``body``: the commit as JSON."""
        self._check_open()
        values = (self.number, stage, metrics_bytes, body)
        self.bytes += len(stage) + len(body)
        self._connection.execute("INSERT INTO commits VALUES (?, ?, ?, ?, ?)", (*values, seal(self.sum, *values)))
        self.committed = True
        return self.number

    def _check_open(self) -> None:
        if self.closed:
            raise StoreError("the transaction has ended: begin another one with Memory.transaction")
        if self.committed:
            raise StoreError("the transaction has its commit already: add the rows first, then the commit")

    def _version(self, table: str, key: str, value: str, version: int) -> None:
        (last,) = self._connection.execute(f"SELECT max(version) FROM {table} WHERE {key} = ?", (value,)).fetchone()
        if version != (last or 0) + 1:
            raise StoreError(f"version {version} of {key} {value} does not follow the stored one, {last or 'none'}: use {(last or 0) + 1}")

    def _insert(self, table: str, row: Row, **changes: Value) -> None:
        self._insert_values(table, CODECS[type(row)].encode(row) | changes)

    def _insert_values(self, table: str, values: dict[str, Value]) -> None:
        self._check_open()
        stored = tuple(values[name] for name in self._columns[table][:-1])
        try:
            self._connection.execute(f"INSERT INTO {table} VALUES ({'?, ' * len(stored)}?)", (*stored, self.number))
        except sqlite3.IntegrityError as error:
            raise StoreError(self._explain(table, values, error)) from error
        self.sum += row_hash(table, stored)
        self.bytes += sum(len(value) if isinstance(value, str) else 8 for value in stored)

    def _explain(self, table: str, values: dict[str, Value], error: sqlite3.IntegrityError) -> str:
        """What an integrity error means, in terms of the rows."""
        keys = [r[1] for r in self._connection.execute(f"PRAGMA table_info({table})") if r[5]]
        row = f"{table} row " + ", ".join(f"{k}={values[k]}" for k in keys or self._columns[table][:3])
        if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
            return f"{row} is stored already; rows are added once and never changed ({error})"
        parents: dict[int, list[tuple[str, str, str]]] = {}
        for number, _, parent, column, target, *_ in self._connection.execute(f"PRAGMA foreign_key_list({table})"):
            parents.setdefault(number, []).append((parent, column, target))
        for links in parents.values():
            given = [values[column] for _, column, _ in links]
            condition = " AND ".join(f"{target} = ?" for _, _, target in links)
            parent = links[0][0]
            if None not in given and not self._connection.execute(f"SELECT 1 FROM {parent} WHERE {condition}", given).fetchone():
                names = ", ".join(f"{column}={value}" for (_, column, _), value in zip(links, given, strict=True))
                return f"{row} names {names}, which is not in {parent}: add that first"
        return f"{row}: {error}"
