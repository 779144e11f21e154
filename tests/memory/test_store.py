import errno
import os
import random
import sqlite3
import subprocess
import sys

import pytest

from coda_jax.memory import schema
from coda_jax.memory.codec import Codec
from coda_jax.memory.episodes import diagnoses_of
from coda_jax.memory.modes import current_modes, history
from coda_jax.memory.rows import ControlTest, Episode, Mode, PairCounts, Program, Scene
from coda_jax.memory.store import Memory
from coda_jax.memory.transaction import CODECS, FrozenSceneError, StoreError
from coda_jax.runtime import InputError
from tests.memory import made


@pytest.fixture
def memory(tmp_path):
    with Memory.open(tmp_path / "memory.sqlite") as opened:
        yield opened


def test_every_field_has_its_column(memory):
    stored = {name: {r[1] for r in memory.select(f"PRAGMA table_info({name})")} for name in schema.NAMES}
    split = {"Mode": ("modes", "mode_versions"), "Program": ("programs", "program_versions"), "Diagnosis": ("diagnoses", "assignments")}
    names = {"Scene": "scenes", "Construction": "constructions", "Episode": "episodes"}
    names |= {"ControlTest": "control_tests", "LearningValue": "learning_values"}
    for row_type, codec in CODECS.items():
        tables = split.get(row_type.__name__) or (names[row_type.__name__],)
        assert set(codec.columns) | {"commit_no"} == set().union(*(stored[t] for t in tables)), row_type
    assert all(columns[-1] == "commit_no" for name, columns in memory._columns.items() if name != "commits")


def test_rows_come_back_and_nothing_is_visible_before_the_end(memory):
    base = made.scene(0)
    with Memory.reading(memory.path) as other, memory.transaction() as t:
        t.add(base)
        t.add(made.mode())
        t.add(made.program())
        t.add(made.edited(1, base, program_id=made.program().program_id, mode_id=made.mode().mode_id))
        assert t.add(made.episode(1, success=False)) == 1
        t.add(made.diagnosis(1, mode_id=made.mode().mode_id))
        t.add(made.construction(scene_id=base.scene_id))
        assert other.rows(Scene) == []
        assert memory.scene(base.scene_id) == base
    assert memory.rows(Scene, "ORDER BY round, rowid")[0] == base
    assert memory.rows(Mode) == [made.mode()] and memory.rows(Program) == [made.program()]
    assert memory.rows(Episode) == [made.episode(1, success=False, episode_id=1)]
    assert diagnoses_of(memory, made.mode().mode_id) == [made.diagnosis(1, mode_id=made.mode().mode_id)]


def test_an_error_inside_undoes_everything(memory):
    with pytest.raises(ZeroDivisionError), memory.transaction() as t:
        t.add(made.scene())
        _ = 1 // 0
    assert memory.rows(Scene) == []
    with pytest.raises(StoreError, match="open already"), memory.transaction(), memory.transaction():
        pass
    with memory.transaction() as t:
        t.add(made.scene())
    assert len(memory.rows(Scene)) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([made.scene(), made.scene()], r"scenes row scene_id=.* is stored already"),
        ([made.edited(1, made.scene(0))], r"base_scene_id=.* is not in scenes: add that first"),
        ([made.scene(0, mode_id=made.mode().mode_id)], "mode_id=.* is not in modes"),
        ([made.scene(0, program_id=made.program().program_id)], "program_id=.* is not in programs"),
        ([made.episode()], "scene_id=.* is not in scenes"),
        ([made.scene(), made.episode(episode_id=5)], "episode_id 5 is not the next one, 1"),
        ([made.diagnosis(3)], "episode_id=3, which is not in episodes"),
        ([made.scene(), made.episode(), made.diagnosis(1)], "only failures are diagnosed"),
        ([made.program()], "mode_id=.* is not in modes"),
        ([made.mode(version=2)], "version 2 of mode_id .* does not follow the stored one, none: use 1"),
        ([made.mode(), made.mode(version=3)], "use 2"),
        ([made.mode(), made.program(), made.program(version=2, mode_id=None)], "a program keeps its mode"),
        ([ControlTest(made.mode().mode_id, 1, 1, "test", (), 0, 0, 0, 1, "undecided")], "version=1, which is not in mode_versions"),
        (["a row"], "a str is no row: add one of Scene"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_the_reason(memory, rows, message):
    with pytest.raises(StoreError, match=message), memory.transaction() as t:
        for row in rows:
            t.add(row)
    assert all(memory.select(f"SELECT count(*) FROM {name}") == [(0,)] for name in schema.NAMES)


def test_execution_failures_never_reach_a_mode(memory):
    with memory.transaction() as t:
        t.add(made.scene())
        t.add(made.mode())
        t.add(made.episode(success=False))
        t.add(made.episode(success=False, repeat=1))
        t.add(made.diagnosis(1, factor="EXECUTION"))
        t.add(made.diagnosis(2, phase="approach"))
    for episode_id in (1, 2):
        with pytest.raises(StoreError, match="both must be the same"), memory.transaction() as t:
            t.assign_mode(episode_id, made.mode().mode_id)


def test_frozen_scenes_are_refused(tmp_path):
    frozen = {made.scene(0).scene_id}
    with Memory.open(tmp_path / "m.sqlite", frozen) as memory:
        for row in (made.scene(0), made.edited(1, made.scene(0))):
            with pytest.raises(FrozenSceneError, match=f"{made.scene(0).scene_id} is in a frozen suite"), memory.transaction() as t:
                t.add(row)
        with memory.transaction() as t:
            t.add(made.scene(1))


def test_modes_and_programs_are_versioned(memory):
    second = made.mode(version=2, severity=0.5, status="kept", round=2)
    test = ControlTest(second.mode_id, 2, 2, "test", (PairCounts(made.scene().scene_id, 1, 5, 8),), 0.5, 0.2, 0.8, 0.01, "confirmed")
    with memory.transaction() as t:
        for row in (made.mode(), second, made.program(), made.program(version=2, verdict="confirmed", status="active"), test):
            t.add(row)
    assert history(memory, second.mode_id) == [made.mode(), second]
    assert current_modes(memory) == [second]
    assert memory.rows(ControlTest) == [test]


def test_rows_after_the_commit_and_a_second_commit_are_refused(memory):
    with memory.transaction() as t:
        assert t.commit("collect", 0, "{}") == 1
        with pytest.raises(StoreError, match="has its commit already"):
            t.add(made.scene())
        with pytest.raises(StoreError, match="has its commit already"):
            t.commit("collect", 0, "{}")
    assert [(c.number, c.stage) for c in memory.commits()] == [(1, "collect")]
    with pytest.raises(StoreError, match="has ended"):
        t.add(made.scene())
    with memory.transaction() as t, pytest.raises(StoreError, match="is stored already"):
        for _ in range(2):
            t.add(made.scene())
    with memory.transaction() as t:
        t.commit("collect", 1, "{}")
    with Memory.open(memory.path) as again:  # the seal covers rows of both transactions
        assert again.commits() == memory.commits() and len(again.commits()) == 2


def test_a_reader_cannot_write(memory):
    with Memory.reading(memory.path) as reader:
        with pytest.raises(StoreError, match="opened for reading"), reader.transaction():
            pass
        with pytest.raises(StoreError, match="opened for reading"):
            reader.truncate(0)
        with pytest.raises(InputError, match="cannot be opened"):
            reader.select("DELETE FROM scenes")
    with pytest.raises(InputError, match="there is no"):
        Memory.reading(memory.path.with_name("absent.sqlite"))


def test_truncating_brings_back_the_state_of_an_earlier_commit(memory):
    def everything():
        return [memory.select(f"SELECT * FROM {name}") for name in schema.NAMES]

    states = [everything()]
    for number in range(3):
        with memory.transaction() as t:
            base = made.scene(2 * number)
            rows = [base, made.mode(version=number + 1, round=number), made.edited(2 * number + 1, base, mode_id=made.mode().mode_id)]
            for row in (*rows, made.episode(2 * number, success=False), made.diagnosis(number + 1)):
                t.add(row)
            if number:
                t.assign_mode(number, made.mode().mode_id)
            t.commit("collect", number, "{}")
        states.append(everything())
    with memory.transaction() as t:
        t.add(made.scene(99))
    for number in (3, 2, 1, 0):
        memory.truncate(number)
        assert everything() == states[number]
        assert len(memory.commits()) == number


def _filled(path, commits=4):
    with Memory.open(path) as memory:
        for number in range(commits):
            with memory.transaction() as t:
                for i in range(20):
                    t.add(made.scene(20 * number + i))
                    t.add(made.episode(20 * number + i, success=False))
                t.commit("collect", number, "{}")


def test_a_truncated_file_is_named(tmp_path):
    path = tmp_path / "memory.sqlite"
    _filled(path)
    whole = path.read_bytes()
    for size in (0, 50, 100, 4096, len(whole) // 2, len(whole) - 4096):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"memory.sqlite.*restore it from a copy, or begin anew"):
            Memory.open(path)
    path.write_bytes(whole[:-1])  # SQLite takes a missing byte for a zero
    with Memory.open(path) as memory:
        assert len(memory.commits()) == 3
    path.write_text("this is a text file, long enough to be taken for a database" * 100)
    with pytest.raises(InputError, match="damaged .*not a database"):
        Memory.open(path)


def test_a_flipped_bit_is_found_wherever_it_is(tmp_path):
    path = tmp_path / "memory.sqlite"
    _filled(path)
    with Memory.open(path) as memory:
        commits, rows = memory.commits(), [memory.select(f"SELECT * FROM {n}") for n in schema.NAMES]
    whole, draw = path.read_bytes(), random.Random(0)
    outcomes = {"refused": 0, "earlier commit": 0, "unused byte": 0}
    for _ in range(150):
        position, bit = draw.randrange(len(whole)), draw.randrange(8)
        flipped = bytearray(whole)
        flipped[position] ^= 1 << bit
        path.write_bytes(flipped)
        try:
            with Memory.open(path) as memory:
                found = memory.commits()
                if found == commits:
                    assert [memory.select(f"SELECT * FROM {n}") for n in schema.NAMES] == rows, f"bit {bit} of byte {position}"
                    outcomes["unused byte"] += 1
                else:
                    assert found == commits[: len(found)]
                    outcomes["earlier commit"] += 1
        except InputError as error:
            assert "memory.sqlite" in str(error)
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 0, outcomes


def test_a_full_disk_is_named_and_leaves_the_last_commit(memory):
    with memory.transaction() as t:
        t.add(made.scene(0))
        t.commit("scenes", 0, "{}")
    pages = memory.select("PRAGMA page_count")[0][0]
    memory.select(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(OSError, match=r"at least \d+ bytes are needed.*memory.sqlite") as error, memory.transaction() as t:
        for number in range(1, 5000):
            t.add(made.scene(number))
    assert error.value.errno == errno.ENOSPC
    assert memory.rows(Scene) == [made.scene(0)] and len(memory.commits()) == 1
    memory.select("PRAGMA max_page_count = 1000000")
    with memory.transaction() as t:
        t.add(made.scene(1))


_SMALL_DISK = """
import errno, pathlib, sys
from coda_jax.memory.store import Memory
from tests.memory import made
folder = pathlib.Path(sys.argv[1])
memory = Memory.open(folder / "memory.sqlite")
number = 0
try:
    while True:
        with memory.transaction() as t:
            for _ in range(50):
                t.add(made.scene(number))
                number += 1
            t.commit("scenes", 0, "{}")
except OSError as error:
    assert error.errno == errno.ENOSPC and "bytes are needed" in str(error), error
commits = len(memory.commits())
memory.close()
with open(folder / "rest", "wb", buffering=0) as file:
    try:
        while file.write(b"x" * 4096):
            pass
    except OSError:
        pass
try:
    Memory.open(folder / "memory.sqlite").close()
except OSError as error:
    assert error.errno == errno.ENOSPC, error
(folder / "rest").unlink()
with Memory.open(folder / "memory.sqlite") as memory:
    assert len(memory.commits()) == commits > 0
    assert memory.select("SELECT count(*) FROM scenes") == [(50 * commits,)]
"""


def test_a_small_file_system_that_fills_up(tmp_path, repository):
    mount = f'mount -t tmpfs -o size=1m none "{tmp_path}" && exec "{sys.executable}" -c "$SCRIPT" "{tmp_path}"'
    environment = os.environ | {"PYTHONPATH": str(repository), "SCRIPT": _SMALL_DISK}
    try:
        if subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", str(tmp_path)], capture_output=True).returncode:
            pytest.skip("no file systems can be mounted here")
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    done = subprocess.run(["unshare", "-rm", "sh", "-c", mount], cwd=repository, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_second_writer_waits_or_is_told(memory):
    other = sqlite3.connect(memory.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    memory.select("PRAGMA busy_timeout = 10")
    with pytest.raises(InputError, match="being written by another process"), memory.transaction():
        pass
    other.execute("ROLLBACK")
    other.close()


def test_optional_json_reads_null():
    codec = Codec(type(made.construction()))
    row = made.construction(repair=None)
    assert codec.encode(row)["repair"] is None and codec.decode(list(codec.encode(row).values())) == row
