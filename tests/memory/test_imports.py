"""Foreign memories are hostile: only a file that is exactly ours, whole and valid gives anything."""

import os
import random
import sqlite3

import pytest

from coda_jax.memory.imports import Imported, import_memory
from coda_jax.memory.store import Memory
from coda_jax.runtime import InputError
from tests.memory import made


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "other run?#%20" / "memory.sqlite"  # a name that an address must quote
    found.parent.mkdir()
    with Memory.open(found) as memory, memory.transaction() as t:
        second = made.mode(version=2, severity=0.5, status="kept", round=2)
        for row in (made.mode(), second, made.program(), made.program("tools()", kind="training", mode_id=None), made.scene()):
            t.add(row)
        for repeat in range(50):
            t.add(made.episode(success=False, repeat=repeat))
            t.add(made.diagnosis(repeat + 1))
        t.commit("collect", 0, "{}")
    return found


def change(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_current_modes_and_programs_come_over_and_the_file_stays_as_it_was(path):
    before = path.read_bytes(), sorted(p.name for p in path.parent.iterdir())
    path.parent.chmod(0o500)
    found = import_memory(path)
    path.parent.chmod(0o700)
    assert found.modes == (made.mode(version=2, severity=0.5, status="kept", round=2),)
    assert {p.text for p in found.programs} == {"scene.edit()", "tools()"}
    assert (path.read_bytes(), sorted(p.name for p in path.parent.iterdir())) == before


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["CREATE TRIGGER evil AFTER INSERT ON scenes BEGIN DELETE FROM scenes; END"], "it holds the trigger 'evil'"),
        (["CREATE VIEW evil AS SELECT 1"], "it holds the view 'evil'"),
        (["CREATE VIRTUAL TABLE evil USING fts5(x)"], "it holds the table 'evil"),
        (["CREATE TABLE evil (x)"], "it holds the table 'evil'"),
        (["CREATE INDEX evil ON scenes (hex(spec))"], "it holds the index 'evil'"),
        (["DROP INDEX scenes_by_base"], "it lacks scenes_by_base"),
        (["ALTER TABLE modes ADD COLUMN evil TEXT"], "its table 'modes' is not as this version makes it"),
        (["PRAGMA user_version = 2"], "its format is 2, this version of coda_jax reads 1"),
        (["PRAGMA application_id = 1"], "another program wrote"),
        (["UPDATE programs SET text = 'import os'"], "the hash of kind and text"),
        (["UPDATE modes SET cause = 'x'"], "Mode"),
        (["UPDATE mode_versions SET importance = 9e999"], "importance"),
        (["UPDATE mode_versions SET status = 'loved'"], "status"),
        (["UPDATE episodes SET purpose = 'x' WHERE episode_id = 7"], "purpose"),
        (['UPDATE diagnoses SET evidence = \'{"steps": [1], "margins": {}, "x": 1}\''], "Diagnosis"),
        (["UPDATE diagnoses SET evidence = '[' WHERE episode_id = 3"], "Diagnosis '?3"),
        (["PRAGMA foreign_keys = OFF", "UPDATE episodes SET scene_id = '0000000000000000'"], "name others that are not there"),
        (["UPDATE mode_versions SET importance = 0.9"], "rows of commit 1 are not what was committed"),
        (["UPDATE commits SET body = '{ }'"], "rows of commit 1 are not what was committed"),
        (["UPDATE scenes SET spec = zeroblob(10)"], None),
        (["UPDATE diagnoses SET evidence = hex(zeroblob(900000)) WHERE episode_id = 3"], "longer than 1000000 bytes"),
        (["UPDATE diagnoses SET evidence = '[' || hex(zeroblob(400000)) WHERE episode_id = 3"], "Diagnosis"),
        (["UPDATE diagnoses SET evidence = replace(hex(zeroblob(100000)), '00', '[[') WHERE episode_id = 3"], "Diagnosis"),
        (["UPDATE programs SET text = CAST(x'ff41' AS TEXT)"], "damaged or no memory|cannot be imported"),
    ],
)
def test_anything_that_is_not_exactly_ours_is_refused(path, statements, message):
    if message is None:  # a STRICT table does not take it at all
        with pytest.raises(sqlite3.IntegrityError):
            change(path, *statements)
        return
    change(path, *statements)
    with pytest.raises(InputError, match=message) as error:
        import_memory(path)
    assert str(path) in str(error.value) and len(str(error.value)) < 1000


def test_a_schema_that_was_rewritten_by_hand_is_refused(path):
    change(
        path,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'scenes') WHERE name = 'modes'",
    )
    with pytest.raises(InputError, match="damaged|cannot be imported"):
        import_memory(path)


def test_files_that_are_no_database_are_refused(path, tmp_path):
    for content, message in ((b"", "no SQLite file"), (b"a text file\n" * 1000, "no SQLite file"), (b"SQLite format 3\0" * 400, "damaged")):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            import_memory(path)
    with pytest.raises(InputError, match="cannot be read"):
        import_memory(tmp_path / "absent.sqlite")
    with pytest.raises(InputError, match="is no file"):
        import_memory(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is no file"):
        import_memory(tmp_path / "pipe")


def test_too_large_and_unfinished_files_are_refused(path):
    with pytest.raises(InputError, match="at most 1000 are read"):
        import_memory(path, max_bytes=1000)
    with pytest.raises(InputError, match="it holds [0-9]+ modes, at most 0 are read"):
        import_memory(path, max_rows=0)
    with Memory.open(path) as memory, memory.transaction() as t:
        t.add(made.scene(5))
        t.commit("collect", 0, "{}")
    import_memory(path)
    with Memory.open(path) as memory:
        with memory.transaction() as t:
            t.add(made.scene(6))
        link = path.with_name("link.sqlite")
        link.symlink_to(path)
        for name in (path, link):  # the log is beside the file itself
            with pytest.raises(InputError, match="is in use, or its run was killed"):
                import_memory(name)
    with pytest.raises(InputError, match="rows that no commit came for"):
        import_memory(path)


def test_truncated_and_bit_flipped_files_give_an_error_or_the_truth(path):
    truth, whole, draw = import_memory(path), path.read_bytes(), random.Random(1)
    assert isinstance(truth, Imported)
    for size in range(0, len(whole) - 1, len(whole) // 40):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError):
            import_memory(path)
    refused = 0
    for _ in range(150):
        flipped = bytearray(whole)
        flipped[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        path.write_bytes(flipped)
        try:
            found = import_memory(path)
        except InputError as error:
            assert str(path) in str(error)
            refused += 1
        else:
            assert found == truth
    assert refused >= 5  # most of so small a file is unused
