"""Files that are none, and child processes that leave nothing behind."""

import os
import subprocess
from pathlib import Path

import pytest

from coda_jax import foreign
from coda_jax.scenes import own
from coda_jax.scenes.meshes.load import MeshError, read_bytes


def test_only_plain_files_are_read_and_never_more_than_asked(tmp_path):
    (tmp_path / "plain").write_bytes(b"12345678")
    assert foreign.read_plain(tmp_path / "plain", 8) == b"12345678" and foreign.read_plain(tmp_path / "plain", 3) == b"1234"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    open_before = len(os.listdir("/proc/self/fd"))
    for name in ("pipe", "device", "."):
        with pytest.raises(OSError, match="it is no plain file"):
            foreign.read_plain(tmp_path / name, 8)
    assert len(os.listdir("/proc/self/fd")) == open_before
    for name in ("gone", "gone\0", "x" * 5000):
        with pytest.raises(OSError):
            foreign.read_plain(tmp_path / name, 8)


def test_pipes_and_devices_are_no_meshes_and_no_records(tmp_path):
    os.mkfifo(tmp_path / "a.obj")
    (tmp_path / "b.obj").symlink_to("/dev/zero")
    (tmp_path / "a.json").symlink_to("/dev/zero")
    for name in ("a.obj", "b.obj"):
        with pytest.raises(MeshError, match="it is no plain file"):
            read_bytes(tmp_path / name)
    with pytest.raises(own.OwnAssetError, match="it is no plain file"):
        own.read(tmp_path / "a.json")


def test_what_a_stranger_wrote_is_one_short_line():
    assert foreign.shown(" a\x1b[2J\nb\u202ec ", 50) == "a [2J b c"
    assert foreign.shown("x" * 30 + "y" * 30, 10) == "xxxxx ... yyyyy"


def test_a_child_finds_the_package_from_anywhere_and_writes_nothing_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    child = foreign.run_module("coda_jax.main", "", 60)
    assert child.returncode == 2 and "--mode" in child.stdout and not list(tmp_path.iterdir())


def test_a_child_that_takes_too_long(monkeypatch, tmp_path):
    (tmp_path / "endless_child.py").write_text("import time; time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(subprocess.TimeoutExpired):
        foreign.run_module("endless_child", "", 0.5)
    alive = [p for p in Path("/proc").glob("[0-9]*/cmdline") if b"endless_child" in _content(p)]
    assert not alive


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
