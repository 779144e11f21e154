"""Run folders: one configuration, one writer, nothing overwritten."""

import json
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from coda_jax import config as settings
from coda_jax.loop import workdir as folders
from coda_jax.runtime import InputError


def test_new_folder_gets_a_record_that_reads_back(tmp_path):
    config = settings.default()
    config.clone.steps = 1234
    config.evaluate.suites = ("id",)
    with folders.open_run(tmp_path / "deep" / "run", config) as workdir:
        record = json.loads((workdir / "config.json").read_text())
    assert record["config"]["clone"]["steps"] == 1234
    assert record["versions"]["jax"] and record["created"]
    again = folders.read_config(workdir)
    assert settings.differences(config, again) == []
    assert again.evaluate.suites == ("id",)


def test_same_configuration_opens_again_and_keeps_the_record(tmp_path):
    with folders.open_run(tmp_path / "run", settings.default()) as workdir:
        first = (workdir / "config.json").read_bytes()
    with folders.open_run(tmp_path / "run", settings.default()):
        assert (workdir / "config.json").read_bytes() == first


def test_other_configuration_is_refused_with_the_difference(tmp_path):
    config = settings.default()
    with folders.open_run(tmp_path, config):
        pass
    config.evaluate.executed = 2
    config.seed = 5
    with pytest.raises(InputError, match=r"seed: 0 -> 5") as error, folders.open_run(tmp_path, config):
        pass
    assert "evaluate.executed" in str(error.value)
    config.seed = 0
    assert folders.check(tmp_path, config, free=("evaluate",))


def test_other_peoples_files_are_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="no run folder"), folders.open_run(tmp_path, settings.default()):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_file_as_workdir_is_refused(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(InputError, match="is a file"), folders.open_run(tmp_path / "x", settings.default()):
        pass
    with pytest.raises(InputError, match="cannot write"), folders.open_run(tmp_path / "x" / "y", settings.default()):
        pass


@pytest.mark.parametrize("text", ["", "{", "[]", '{"config": 3}', '{"config": {"seed": "x"}}', '{"config": {"sed": 1}}'])
def test_damaged_record_is_named(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match=r"config\.json"):
        folders.read_config(tmp_path)


_HOLD = """
import pathlib, sys, time
from coda_jax.loop import workdir
with workdir.locked(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_second_writer_is_refused_by_pid_and_a_killed_one_frees_the_folder(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=f"pid {holder.pid} on "), folders.locked(tmp_path):
            pass
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait(10)
        time.sleep(0.05)
        with folders.locked(tmp_path):
            pass
    finally:
        holder.kill()
        holder.wait()
        if holder.stdout:
            holder.stdout.close()


def test_remains_of_a_start_that_was_killed_are_no_obstacle(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("x")
    run = tmp_path / "run"
    run.mkdir()
    (run / ".lock").touch()
    (run / "config.json.part").symlink_to(precious)
    with folders.open_run(run, settings.default()):
        assert sorted(p.name for p in run.iterdir()) == [".lock", "config.json"]
    assert precious.read_text() == "x"


def test_a_start_that_is_refused_leaves_the_folder_free(tmp_path):
    with pytest.raises(InputError, match="mend it"), folders.open_run(tmp_path, settings.default()):
        raise InputError("mend it")
    config = settings.default()
    config.seed = 1
    with folders.open_run(tmp_path, config):
        pass
    with pytest.raises(InputError, match="mend it"), folders.open_run(tmp_path, config):
        raise InputError("mend it")
    assert folders.read_config(tmp_path).seed == 1  # of an earlier start


def test_versions_of_another_shape_are_named(tmp_path):
    with folders.open_run(tmp_path, settings.default()):
        pass
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"versions": [1]}))
    with pytest.raises(InputError, match='"versions" is no object'), folders.open_run(tmp_path, settings.default()):
        pass


def test_removing_the_lock_file_lets_no_second_writer_in(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        (tmp_path / ".lock").unlink()
        with pytest.raises(InputError, match="is being written by another process"), folders.locked(tmp_path):
            pass
    finally:
        holder.kill()
        holder.wait()
        if holder.stdout:
            holder.stdout.close()


def test_a_lost_lock_is_noticed_where_folders_cannot_be_locked(tmp_path, monkeypatch):
    real = folders.fcntl.flock

    def flock(descriptor, operation):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(9, "Bad file descriptor")  # as some network file systems do
        real(descriptor, operation)

    monkeypatch.setattr(folders.fcntl, "flock", flock)
    with folders.locked(tmp_path):
        folders.require_held(tmp_path)
        (tmp_path / ".lock").unlink()
        with pytest.raises(InputError, match=r"\.lock was removed"):
            folders.require_held(tmp_path)
    folders.require_held(tmp_path)  # not locked: nothing to lose


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("x")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(precious)
    with pytest.raises(InputError, match="cannot write to"), folders.locked(tmp_path / "run"):
        pass
    assert precious.read_text() == "x"
