"""Run folders: one configuration, one writer, nothing overwritten."""

import json
import os
import signal
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
