"""Seals: a commit carries the sum of the hashes of its rows, so that a flipped bit anywhere in them is found at the next start.

SQLite checks the structure of its pages but not what the cells say. A sum does not depend on the order of the rows.
"""

from __future__ import annotations

import collections
import hashlib
import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from coda_jax.memory.schema import STAMPED

_MODULUS = 1 << 128


def row_hash(table: str, values: Sequence[Any]) -> int:
    """Hash of a row as stored, columns in the table's order, without its commit."""
    return int.from_bytes(hashlib.blake2b(json.dumps([table, *values]).encode(), digest_size=16).digest(), "big")


def seal(rows: int, number: int, stage: str, metrics_bytes: int, body: str) -> str:
    """Seal of a commit whose rows' hashes sum to ``rows``: 32 hex digits."""
    return f"{(rows + row_hash('commits', (number, stage, metrics_bytes, body))) % _MODULUS:032x}"


def sums(connection: sqlite3.Connection) -> dict[int, int]:
    """Commit number to the sum of its rows' hashes, over the whole file."""
    found: collections.Counter[int] = collections.Counter()
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")  # damaged text must not end the reading
    try:
        for table in STAMPED:
            for *values, number in connection.execute(f"SELECT * FROM {table}"):
                found[number] += row_hash(table, values)
    finally:
        connection.text_factory = str
    return found
