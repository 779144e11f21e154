"""The tables of ``memory.sqlite``, stated once, and the check that a file has exactly them.

Every row but the commits has ``commit_no``, the commit that it belongs to: rows are never changed, so that dropping the rows of later
commits brings back the state of an earlier one. Modes and programs are a key row and a row for each version.
"""

from __future__ import annotations

import sqlite3

APPLICATION_ID = 0x434F4441  # "CODA" in the file's header
USER_VERSION = 1
OLDEST_SQLITE = (3, 37, 0)  # STRICT tables

# Children after their parents; rows are dropped in the opposite order.
TABLES = (
    """CREATE TABLE commits (
    number INTEGER PRIMARY KEY, stage TEXT NOT NULL, metrics_bytes INTEGER NOT NULL, body TEXT NOT NULL, seal TEXT NOT NULL
) STRICT""",
    """CREATE TABLE modes (
    mode_id TEXT NOT NULL PRIMARY KEY, family TEXT NOT NULL, factor TEXT NOT NULL CHECK (factor IN ('TASK', 'SPATIAL', 'ATTRIBUTE')),
    phase TEXT NOT NULL, cause TEXT NOT NULL, commit_no INTEGER NOT NULL
) STRICT""",
    """CREATE TABLE mode_versions (
    mode_id TEXT NOT NULL REFERENCES modes (mode_id), version INTEGER NOT NULL, severity REAL, importance REAL NOT NULL,
    status TEXT NOT NULL, round INTEGER NOT NULL, commit_no INTEGER NOT NULL, PRIMARY KEY (mode_id, version)
) STRICT""",
    """CREATE TABLE programs (
    program_id TEXT NOT NULL PRIMARY KEY, kind TEXT NOT NULL, text TEXT NOT NULL, mode_id TEXT REFERENCES modes (mode_id),
    commit_no INTEGER NOT NULL
) STRICT""",
    """CREATE TABLE program_versions (
    program_id TEXT NOT NULL REFERENCES programs (program_id), version INTEGER NOT NULL, level REAL, status TEXT NOT NULL, verdict TEXT,
    round INTEGER NOT NULL, commit_no INTEGER NOT NULL, PRIMARY KEY (program_id, version)
) STRICT""",
    """CREATE TABLE scenes (
    scene_id TEXT NOT NULL PRIMARY KEY, spec TEXT NOT NULL, origin TEXT NOT NULL, round INTEGER NOT NULL,
    base_scene_id TEXT REFERENCES scenes (scene_id), program_id TEXT REFERENCES programs (program_id),
    factor TEXT, verbs TEXT NOT NULL, level REAL, mode_id TEXT REFERENCES modes (mode_id), reason TEXT, commit_no INTEGER NOT NULL
) STRICT""",
    """CREATE TABLE constructions (
    round INTEGER NOT NULL, verb TEXT NOT NULL, "check" TEXT NOT NULL, object TEXT NOT NULL, other TEXT NOT NULL, amount REAL NOT NULL,
    unit TEXT NOT NULL, repair TEXT, accepted INTEGER NOT NULL CHECK (accepted IN (0, 1)), scene_id TEXT REFERENCES scenes (scene_id),
    commit_no INTEGER NOT NULL
) STRICT""",
    """CREATE TABLE episodes (
    round INTEGER NOT NULL, purpose TEXT NOT NULL, scene_id TEXT NOT NULL REFERENCES scenes (scene_id), repeat INTEGER NOT NULL,
    policy_step INTEGER NOT NULL, success INTEGER NOT NULL CHECK (success IN (0, 1)), steps INTEGER NOT NULL, phase_failed TEXT,
    health INTEGER NOT NULL, states TEXT, episode_id INTEGER PRIMARY KEY, commit_no INTEGER NOT NULL
) STRICT""",
    """CREATE TABLE diagnoses (
    episode_id INTEGER PRIMARY KEY REFERENCES episodes (episode_id), factor TEXT NOT NULL, phase TEXT NOT NULL, cause TEXT NOT NULL,
    evidence TEXT NOT NULL, confidence REAL NOT NULL, commit_no INTEGER NOT NULL
) STRICT""",
    """CREATE TABLE assignments (
    episode_id INTEGER PRIMARY KEY REFERENCES diagnoses (episode_id), mode_id TEXT NOT NULL REFERENCES modes (mode_id),
    commit_no INTEGER NOT NULL
) STRICT""",
    """CREATE TABLE control_tests (
    mode_id TEXT NOT NULL, version INTEGER NOT NULL, round INTEGER NOT NULL, kind TEXT NOT NULL, pairs TEXT NOT NULL, mean REAL NOT NULL,
    low REAL NOT NULL, high REAL NOT NULL, p REAL NOT NULL, verdict TEXT NOT NULL, commit_no INTEGER NOT NULL,
    FOREIGN KEY (mode_id, version) REFERENCES mode_versions (mode_id, version)
) STRICT""",
    """CREATE TABLE learning_values (
    mode_id TEXT NOT NULL REFERENCES modes (mode_id), round INTEGER NOT NULL, scenes TEXT NOT NULL, raw REAL NOT NULL, shrunk REAL NOT NULL,
    commit_no INTEGER NOT NULL, PRIMARY KEY (mode_id, round)
) STRICT""",
)
INDICES = (
    "CREATE INDEX modes_by_family ON modes (family)",
    "CREATE INDEX programs_by_mode ON programs (mode_id, kind)",
    "CREATE INDEX scenes_by_base ON scenes (base_scene_id)",
    "CREATE INDEX scenes_by_program ON scenes (program_id)",
    "CREATE INDEX scenes_by_mode ON scenes (mode_id)",
    'CREATE INDEX constructions_by_check ON constructions (verb, "check")',
    "CREATE INDEX constructions_by_scene ON constructions (scene_id)",
    "CREATE INDEX episodes_by_round ON episodes (round, purpose, scene_id, success, health)",
    "CREATE INDEX episodes_by_scene ON episodes (scene_id, purpose, policy_step, success, health)",
    "CREATE INDEX assignments_by_mode ON assignments (mode_id)",
    "CREATE INDEX control_tests_by_mode ON control_tests (mode_id, version)",
    "CREATE INDEX control_tests_by_round ON control_tests (round)",
)
NAMES = tuple(text.split()[2] for text in TABLES)
STAMPED = NAMES[1:]  # tables whose rows belong to a commit
_OURS = {(text.split()[1].lower(), text.split()[2]): text for text in (*TABLES, *INDICES)}


class SchemaError(ValueError):
    """A file whose tables are not exactly ours; the message says which one is not."""


def create(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty file, all or none."""
    connection.execute("BEGIN IMMEDIATE")
    for text in (*TABLES, *INDICES):
        connection.execute(text)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {USER_VERSION}")
    connection.execute("COMMIT")


def check(connection: sqlite3.Connection) -> None:
    """Compare the file's schema with ours, text for text. Reads the schema table alone, so that nothing in the file is carried out.

    Raises:
      SchemaError: a table or index is missing, changed or foreign; any trigger, view or virtual table is foreign.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise SchemaError("it is not a memory of coda_jax: another program wrote this SQLite file")
    if version != USER_VERSION:
        raise SchemaError(f"its format is {version}, this version of coda_jax reads {USER_VERSION}: use the version that wrote it")
    found = {}
    for kind, name, text in connection.execute("SELECT type, name, sql FROM sqlite_schema LIMIT 1000"):
        if kind == "index" and text is None and str(name).startswith("sqlite_autoindex_"):
            continue  # of a primary key
        found[kind, name] = text
    for (kind, name), text in found.items():
        if (kind, name) not in _OURS:
            raise SchemaError(f"it holds the {kind} {str(name)[:60]!r}, which no memory has")
        if text != _OURS[kind, name]:
            raise SchemaError(f"its {kind} {name!r} is not as this version makes it")
    if missing := sorted(name for key in _OURS.keys() - found.keys() for name in key[1:]):
        raise SchemaError(f"it lacks {', '.join(missing)}")
