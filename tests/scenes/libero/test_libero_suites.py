"""The scenes of LIBERO that a run meets."""

from __future__ import annotations

import collections

import pytest

from coda_jax import config as settings
from coda_jax.loop import language_set
from coda_jax.programs.training.rewrite import rewritten
from coda_jax.programs.verifier import goal_of
from coda_jax.runtime import InputError
from coda_jax.scenes import families as known
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
from coda_jax.scenes.libero import families, suites, tasks
from coda_jax.scenes.libero.staging import ANY_GOAL
from coda_jax.scenes.suites import load


@pytest.fixture(scope="module", autouse=True)
def registered():
    families.add()
    yield
    families.remove()


def test_the_configuration_names_the_same_suites_families_and_limits():
    config = settings.default()
    assert settings.LIBERO_SUITES == suites.SUITES and settings.LIBERO_FAMILIES == tasks.FAMILIES
    assert {name: settings.horizon(config, name) for name in tasks.FAMILIES} == {name: tasks.STEPS[name] for name in tasks.FAMILIES}


def test_sentences_without_scenes_ask_for_trained_goals_in_the_words_of_tokens():
    train = Catalogue("train")
    found = language_set.phrases(train, tasks.FAMILIES, 3, 3, 0)
    names = set(language_set.names(train, tasks.FAMILIES))
    assert {n for p in found for n in p.names if n} <= names
    assert "put the cream cheese on the rack" not in {p.instruction for p in found}  # asked for by a perturbed suite alone
    drawers = [p for p in found if "drawer" in p.instruction]
    assert drawers and all(p.reference == p.target for p in drawers)
    assert {p.target for p in drawers} == {"cabinet", "middle drawer"}
    assert not any(category in p.instruction for p in found for category in ("libero", "_"))


def test_one_cut_fits_what_is_carried_and_what_is_moved_in_its_place():
    for cut in ANY_GOAL.cuts.values():
        for subgoal in cut.subgoals:
            assert "reference" not in str(subgoal.done) and "reference" not in str(subgoal.progress)
    assert rewritten(ANY_GOAL.task_text) == ANY_GOAL.task_text  # every subgoal holds where the goal does
    assert known.get("libero_goal").staging is ANY_GOAL


@pytest.mark.libero
def test_training_scenes_take_the_tasks_in_turn_and_may_be_trained_on():
    train = Catalogue("train")
    for family in tasks.FAMILIES:
        drawn = [suites.seed_scene(family, seed) for seed in range(10)]
        assert drawn[0] == known.get(family).seed_scene(train, 0)
        assert len({known.get(family).counted_as(spec, train) for _, spec in drawn}) == 10
        for text, spec in drawn[:4]:
            refuse_held_out(spec, train)
            assert spec.task.family == family and f"# drawn from {spec.spatial.layout}" in text
            assert goal_of(known.success(spec)) == spec.task.goal == known.success(spec)
    for step in (2, 3):  # as where several families take turns
        counts = collections.Counter((seed + seed // 10) % 10 for seed in range(0, 200, step))
        assert len(counts) == 10


@pytest.mark.libero
def test_a_suite_is_the_packages_states_or_fresh_draws_and_none_may_be_trained_on():
    for suite in ("standard", "pos", "task"):
        test = load("libero_spatial", suite, "test")
        assert len(test) == 500 and len({s.scene_id for s in test}) == 500
        assert [s.spatial.layout.partition("@")[2] for s in test[:11]] == ["0"] * 10 + ["1"]
        validation = load("libero_spatial", suite, "validation")
        assert len(validation) == 100 and not {s.scene_id for s in validation} & {s.scene_id for s in test}
        with pytest.raises(HeldOutContent, match=r"initial state|perturbed suite"):
            refuse_held_out(test[0], Catalogue("train"))
    with pytest.raises(InputError, match="libero_spatial has no suite 'id'"):
        load("libero_spatial", "id", "test")
    with pytest.raises(InputError, match="libero_spatial has no split 'train': use validation or test"):
        load("libero_spatial", "pos", "train")


@pytest.mark.libero
def test_prompts_from_file_names_are_the_task_that_was_there_before():
    asked, by_name = load("libero_goal", "task", "test")[:10], load("libero_goal", "task_by_name", "test")[:10]
    assert [s.spatial for s in asked] == [s.spatial for s in by_name] and [s.task.goal for s in asked] == [s.task.goal for s in by_name]
    names = [tasks.task(s.spatial.layout).prompt_from_name for s in asked]
    assert [s.task.instruction for s in by_name] == names
    assert sum(a.task.instruction != n for a, n in zip(asked, names, strict=True)) >= 8
