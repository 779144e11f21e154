"""Commits in the memory: the newest intact one is found, later rows go, and a full disk or a kill leaves the last one whole."""

import os
import signal
import sqlite3
import subprocess
import sys

import pytest
from pydantic import ValidationError

from coda_jax.loop.journal import Commit, Journal, read_commits
from coda_jax.memory.store import FILE, Memory
from coda_jax.memory.transaction import StoreError
from coda_jax.runtime import InputError
from tests.memory.made import episode, scene


def intact(_):
    return None


def test_commits_come_back_with_their_rows(tmp_path):
    assert read_commits(tmp_path) == []
    with Memory.open(tmp_path / FILE) as memory:
        journal = Journal(memory, intact)
        assert journal.last == Commit()
        journal.append(Commit(stage="scenes", accepted=1, metrics_bytes=7), [scene(0)])
        journal.append(Commit(stage="collect", done=["scenes"]), [episode(0), episode(0, repeat=1)])
        assert read_commits(tmp_path)[-1].done == ["scenes"]  # while it is being written
        assert memory.select("SELECT stage, metrics_bytes FROM commits") == [("scenes", 7), ("collect", 0)]
    assert not (tmp_path / f"{FILE}-wal").exists()
    with Memory.open(tmp_path / FILE) as memory:
        assert Journal(memory, intact).last.stage == "collect"
        assert memory.next_episode_id() == 3


def test_work_that_is_done_again_is_not_stored_twice(tmp_path, caplog):
    with Memory.open(tmp_path / FILE) as memory:
        journal = Journal(memory, intact)
        for number in range(3):
            journal.append(Commit(demos=number), [scene(number), episode(number)])
    with Memory.open(tmp_path / FILE) as memory:
        journal = Journal(memory, lambda c: f"demos_{c.demos} is gone" if c.demos > 0 else None)
        assert "commits 2 to 3 are dropped" in caplog.text
        assert "demos_2 is gone" in caplog.text and "demos_1 is gone" in caplog.text
        assert journal.last.demos == 0 and memory.next_episode_id() == 2 and memory.last == 1
        journal.append(Commit(demos=1), [scene(1), episode(1)])
        assert len(memory.commits()) == 2
    with Memory.open(tmp_path / FILE) as memory:
        assert Journal(memory, intact).last.demos == 1


def test_nothing_of_a_commit_is_stored_when_one_row_does_not_fit(tmp_path):
    with Memory.open(tmp_path / FILE) as memory:
        journal = Journal(memory, intact)
        with pytest.raises(StoreError, match="scene_id=.* is not in scenes"):
            journal.append(Commit(demos=1), [scene(0), episode(1)])
        assert journal.last == Commit() and read_commits(tmp_path) == [] and memory.scene(scene(0).scene_id) is None
        journal.append(Commit(demos=1), [scene(0), episode(0)])


def test_a_damaged_row_takes_its_commit_and_the_later_ones(tmp_path, caplog):
    with Memory.open(tmp_path / FILE) as memory:
        journal = Journal(memory, intact)
        for number in range(3):
            journal.append(Commit(demos=number), [scene(number), episode(number)])
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE episodes SET steps = steps + 1 WHERE episode_id = 2")
    connection.close()
    with Memory.open(tmp_path / FILE) as memory:
        assert Journal(memory, intact).last.demos == 0
        assert "rows of commit 2" in caplog.text
        assert memory.next_episode_id() == 2
    with Memory.open(tmp_path / FILE) as memory:
        assert len(memory.commits()) == 1


def contents(path):
    with sqlite3.connect(path) as connection:
        found = list(connection.iterdump())
    connection.close()
    return found


def test_a_commit_of_another_version_is_left_alone(tmp_path):
    with pytest.raises(ValidationError):
        Commit(demos=-1)
    with Memory.open(tmp_path / FILE) as memory:
        Journal(memory, intact).append(Commit(demos=1), [scene(0)])
        with memory.transaction() as transaction:
            transaction.commit("collect", 0, '{"demos": 3, "a_field_to_come": 1}')
    before = contents(tmp_path / FILE)
    with Memory.open(tmp_path / FILE) as memory, pytest.raises(InputError, match=r"commit 2 \(collect\) cannot be read .*a_field_to_come"):
        Journal(memory, intact)
    with pytest.raises(InputError, match="Nothing was changed"):
        read_commits(tmp_path)
    assert contents(tmp_path / FILE) == before


def test_nothing_is_dropped_where_no_commit_can_be_used(tmp_path):
    with Memory.open(tmp_path / FILE) as memory:
        journal = Journal(memory, intact)
        for number in range(2):
            journal.append(Commit(demos=number), [scene(number)])
    before = contents(tmp_path / FILE)
    with Memory.open(tmp_path / FILE) as memory, pytest.raises(InputError, match="none of the 2 commits .*scenes_0000 is gone"):
        Journal(memory, lambda _: "scenes_0000 is gone")
    assert contents(tmp_path / FILE) == before
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE scenes SET round = round + 1")
    connection.close()
    before = contents(tmp_path / FILE)
    with Memory.open(tmp_path / FILE) as memory, pytest.raises(InputError, match="rows of the first one in memory.sqlite are damaged"):
        Journal(memory, intact)
    assert contents(tmp_path / FILE) == before


_KILLED = """
import os, pathlib, signal, sys
from coda_jax.loop.journal import Commit, Journal
from coda_jax.memory.store import Memory
from tests.memory.made import episode, scene
memory = Memory.open(pathlib.Path(sys.argv[1]))
journal = Journal(memory, lambda _: None)
journal.append(Commit(demos=1), [scene(0), episode(0)])
with memory.transaction() as transaction:
    transaction.add(scene(1))
with memory.transaction() as transaction:
    transaction.add(scene(2))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_inside_a_transaction_leaves_the_last_commit(tmp_path, repository):
    path = tmp_path / FILE
    environment = os.environ | {"PYTHONPATH": str(repository)}
    process = subprocess.run([sys.executable, "-c", _KILLED, str(path)], cwd=repository, env=environment)
    assert process.returncode == -signal.SIGKILL
    with Memory.open(path) as memory:
        assert memory.scene(scene(1).scene_id) is not None and memory.scene(scene(2).scene_id) is None
        journal = Journal(memory, intact)
        assert journal.last.demos == 1 and memory.scene(scene(1).scene_id) is None  # it belonged to the commit that never came
        journal.append(Commit(demos=2), [scene(1), scene(2)])
    assert [c.demos for c in read_commits(tmp_path)] == [1, 2]
