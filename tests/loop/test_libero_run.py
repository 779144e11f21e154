"""A run on LIBERO that cannot be scored ends before anything is made."""

from __future__ import annotations

import dataclasses

import pytest

from coda_jax import main as command_line
from coda_jax.scenes.libero import package, tasks

pytestmark = pytest.mark.libero
FAMILY = "libero_goal"


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """Folders of one family in the place of the package's, whose files may be changed."""
    found = package.find()
    own = dataclasses.replace(found, bddl=tmp_path / "package" / "bddl", init=tmp_path / "package" / "init")
    for suite in (FAMILY, FAMILY + "_task"):
        for task in tasks.tasks(suite, found):
            for file, folder in ((task.bddl, own.bddl), (task.init, own.init)):
                (folder / suite).mkdir(parents=True, exist_ok=True)
                (folder / suite / file.name).symlink_to(file)
    monkeypatch.setattr(package, "find", lambda: own)
    return own


@pytest.mark.parametrize(
    ("suite", "kind", "content", "said"),
    [
        (FAMILY, "init", None, "are missing"),
        (FAMILY + "_task", "init", b"no numbers", "have the file again"),
        (FAMILY + "_task", "bddl", b"(define (problem", "is never closed"),
    ],
)
@pytest.mark.parametrize("mode", ["run", "evaluate"])
def test_suites_that_cannot_be_scored_are_refused_before_any_work(damaged, repository, tmp_path, capsys, mode, suite, kind, content, said):
    task = tasks.tasks(suite, damaged)[4]
    path = getattr(task, kind)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    remote = ["--config.policy.kind=remote", "--config.remote.address=ws://127.0.0.1:9"] if mode == "evaluate" else []
    folder = tmp_path / "run"
    command = [f"--config={repository}/experiments/libero_pro.py:smoke", f"--workdir={folder}", f"--mode={mode}", *remote]
    asked = [f"--config.family={FAMILY}", "--config.evaluate.suites=standard,task_by_name"]
    assert command_line.main([*command, *asked]) == command_line.BAD_INPUT
    error = capsys.readouterr().err
    assert f"1 tasks cannot be scored: {task.key}: " in error and said in error and "leave their suites out" in error
    assert not folder.exists()
