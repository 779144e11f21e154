"""The benchmark's lint on files of our own, each with one thing wrong, and on the package's suites."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from coda_jax.evaluation.libero import lint, starts
from coda_jax.evaluation.libero.lint import Starts
from coda_jax.runtime import InputError
from coda_jax.scenes.libero import bddl, package, tasks
from coda_jax.scenes.libero.package import Package
from tests.scenes.libero.texts import TASK

NAMES = [f"put_the_bowl_{c}" for c in "abcdefghij"]


@pytest.fixture
def suites(tmp_path) -> Package:
    """Two suites of ten tasks: the source suite and the one with other goals, both in order."""
    (tmp_path / "map.py").write_text(f"m = {{'libero_goal': {NAMES}, 'libero_goal_task': {NAMES}}}")
    for suite in ("libero_goal", "libero_goal_task"):
        (tmp_path / suite).mkdir()
        for i, name in enumerate(NAMES):
            text = TASK.replace("0.09 0.04 0.11 0.06", f"0.09 0.04 0.11 0.{10 + i}")
            text = text.replace("Put the Bowl on the plate", name.replace("_", " ").title())
            if suite.endswith("_task"):
                text = text.replace("(And (On akita_black_bowl_1 plate_1))", "(And (On cookies_1 plate_1))")
            (tmp_path / suite / f"{name}.bddl").write_text(text)
            np.savez(tmp_path / suite / f"{name}.pruned_init.npz", states=np.random.default_rng(i).normal(size=(50, 9)))
    return Package(tmp_path, tmp_path, tmp_path, tmp_path / "map.py")


def test_suites_in_order(suites):
    found = lint.lint("libero_goal", suites)
    assert (found.goals, found.same_goal, found.short, found.repeated) == ({"On": 10}, 10, 0, 0)
    assert (found.worded, found.misled, found.twins, found.sources, found.unreadable) == (0, 0, 0, 0, ())
    other = lint.lint("libero_goal_task", suites)
    assert (other.worded, other.misled, other.sources) == (0, 10, 0)
    lint.refuse_unscorable([found, other])


def test_every_fault_is_counted_in_its_column(suites):
    folder = suites.bddl / "libero_goal"
    (folder / f"{NAMES[0]}.bddl").write_text("(define (problem x)")
    (folder / f"{NAMES[1]}.pruned_init.npz").unlink()
    np.savez(folder / f"{NAMES[2]}.pruned_init.npz", states=np.zeros((3, 9)))
    np.savez(folder / f"{NAMES[3]}.pruned_init.npz", states=np.zeros((0, 9)))
    text = (folder / f"{NAMES[4]}.bddl").read_text()
    (folder / f"{NAMES[4]}.bddl").write_text(text.replace("(:language Put", "(:language Kindly put"))
    swapped = text.replace("akita_black_bowl_1", "X").replace("akita_black_bowl_2", "akita_black_bowl_1").replace("X", "akita_black_bowl_2")
    (folder / f"{NAMES[5]}.bddl").write_text(swapped)  # the same task with its bowls renamed
    found = lint.lint("libero_goal", suites)
    assert [t.task.name for t in found.unreadable] == [NAMES[0], NAMES[1], NAMES[3]]
    assert (found.short, found.repeated) == (3, 2)
    assert found.worded == 2 and found.twins == 1
    with pytest.raises(InputError, match=r"3 tasks cannot be scored: libero_goal/put_the_bowl_a: .*never closed"):
        lint.refuse_unscorable([found])


def test_physics_asks_no_other_task_for_the_model_of_one_that_cannot_be_read(suites, monkeypatch):
    monkeypatch.setattr(package, "find", lambda: suites)
    (suites.bddl / "libero_goal_task" / f"{NAMES[0]}.bddl").write_text("(define (problem x)")
    (suites.bddl / "libero_goal" / f"{NAMES[1]}.bddl").unlink()
    shared = starts.shared_models(("libero_goal_task",))
    assert shared == {f"libero_goal_task/{n}": f"libero_goal/{n}" for n in NAMES[2:]}


def test_a_task_of_the_source_suite_under_another_name_is_counted(suites):
    source = (suites.bddl / "libero_goal" / f"{NAMES[7]}.bddl").read_text()
    (suites.bddl / "libero_goal_task" / f"{NAMES[2]}.bddl").write_text(source.replace("Bowl_H", "x"))
    found = lint.lint("libero_goal_task", suites)
    assert found.sources == 1 and found.misled == 9


def test_what_physics_says_is_added_up_and_told(suites):
    def physics(task, problem, rows):
        assert len(rows) == 50 and problem.goal
        return Starts(error="no model") if task.number == 0 else Starts(tried=5, solved=task.number == 1, nudged=5 * (task.number == 2))

    found = lint.lint("libero_goal", suites, physics)
    assert found.count("solved") == (1, 45) and found.count("nudged") == (5, 45)
    assert "| `libero_goal` | 45 | 1 | 5 | 0 |" in lint.from_physics([found])
    told = lint.details([found])
    assert "put_the_bowl_a`: no model" in told and "put_the_bowl_c`: solved by a nudge 5/5" in told and "put_the_bowl_d" not in told
    assert "| `libero_goal` | On 10 | 10 of 10 |" in lint.from_files([found])


def test_signatures_do_not_depend_on_which_of_two_is_called_first():
    problem = bddl.parse(TASK)
    other = dataclasses.replace(problem, language="other words")
    assert lint.signature(problem) == lint.signature(other)
    assert lint.signature(problem) != lint.signature(dataclasses.replace(problem, init=problem.init[1:]))


@pytest.mark.libero
def test_the_package_s_suites_are_scorable_and_two_tasks_are_none_of_their_own():
    assert package.installed()
    found = {suite: lint.lint(suite) for suite in tasks.SUITES}
    lint.refuse_unscorable(list(found.values()))
    assert found["libero_spatial_task"].sources == 2 and found["libero_goal_task"].twins == 1
    assert found["libero_object_task"].misled == 10 and found["libero_object"].misled == 0
