"""Examples of a question: the most similar first, those of memory only where they helped."""

import dataclasses

import pytest

from coda_jax.agents.base import Failing
from coda_jax.agents.llm.exemplars import WANTED, Exemplar, distance, library, nearest, remembered
from coda_jax.agents.scripted.causes import OTHER
from coda_jax.agents.scripted.engine import TASK_VERBS
from coda_jax.memory.rows import Gain, LearningValue, Mode, Program, mode_id_of, program_id_of
from coda_jax.memory.store import Memory
from coda_jax.scenes.families import PHASES
from coda_jax.scenes.measures import MEASURES

WANT = Failing("pick_place", "SPATIAL", "grasp", "gap_to_target:low")
SAME = Exemplar("pick_place", "SPATIAL", "grasp", "gap_to_target:low", "a", 0.1)


def test_distance_is_the_stated_sum():
    assert distance(WANT, SAME) == 0
    for changes, by in (
        ({"family": "put_inside"}, 1),
        ({"family": "articulated"}, 3),
        ({"phase": "release"}, 3),
        ({"factor": "TASK"}, 1),
        ({"factor": None}, 0.5),
        ({"cause": "gap_to_target:high"}, 0.5),
        ({"cause": ""}, 0.5),
        ({"cause": "target_mass_kg:high"}, 1),
    ):
        assert distance(WANT, dataclasses.replace(SAME, **changes)) == by


@pytest.mark.parametrize("cause", [f"{name}:{way}" for name in MEASURES for way in ("high", "low")] + [OTHER, *TASK_VERBS])
def test_a_cause_of_the_vocabulary_is_shown_as_it_is(cause):
    assert f'cause "{cause}"' in dataclasses.replace(SAME, cause=cause).said


@pytest.mark.parametrize("cause", ["<b>x</b>\n# Task", "nearest_gap_m:high\n# Task", "nearest_gap_m:<b>", "x:high\n# Task"])
def test_any_other_cause_is_cleaned(cause):
    said = dataclasses.replace(SAME, cause=cause).said
    assert said.isprintable() and not set("<>#") & set(said)


def test_the_nearest_are_different_and_what_helped_more_comes_first():
    better, copy = dataclasses.replace(SAME, text="b", gain=0.3), dataclasses.replace(SAME, family="articulated")
    far = dataclasses.replace(SAME, phase="release", text="c")
    assert nearest(WANT, [far, copy, SAME, better]) == [better, SAME, far]


def test_the_library_leaves_out_what_the_scripted_compiler_would_answer():
    ours = library("diagnosed", 4, 0.01, True)
    assert {(e.family, e.phase) for e in ours} >= {(f, p) for f in ("pick_place", "articulated") for p in PHASES}
    found = nearest(WANT, ours)
    answer = {e.text for e in ours if e.family == "pick_place" and e.phase == "grasp"}
    assert len(found) == WANTED == len({e.text for e in found}) and not answer & {e.text for e in found}
    assert {e.phase for e in found} <= {"approach", "transport", "place"}
    helped = Exemplar("pick_place", "SPATIAL", "grasp", "", answer.pop(), 0.2)
    assert nearest(WANT, [*ours, helped])[0] == helped  # what helped is known for that


def _mode(cause: str) -> Mode:
    return Mode(mode_id_of("pick_place", "SPATIAL", "grasp", cause), 1, "pick_place", "SPATIAL", "grasp", cause, 0.3, 0.0, "new", 1)


def _program(mode: Mode, text: str, version: int, status, round_number: int) -> Program:
    return Program(program_id_of("training", text), version, "training", text, mode.mode_id, None, status, None, round_number)


def test_memory_gives_programs_under_which_training_gained(tmp_path):
    good, bad = _mode("gap_to_target:low"), _mode("target_mass_kg:high")
    gain = tuple(Gain(f"{i:016x}", 1, 3, 4) for i in range(8))
    nothing = tuple(Gain(f"{i:016x}", 0, 0, 2) for i in range(3))
    with Memory.open(tmp_path / "memory.sqlite") as memory:
        with memory.transaction() as t:
            for row in (
                good,
                bad,
                _program(good, "# one", 1, "active", 1),
                LearningValue(good.mode_id, 1, gain, 0.5, 0.4),
                _program(bad, "# two", 1, "active", 1),
                LearningValue(bad.mode_id, 1, gain, 0.1, -0.1),
                LearningValue(bad.mode_id, 2, nothing, 0.12, 0.12),  # of controls that fell
            ):
                t.add(row)
        with memory.transaction() as t:
            for row in (_program(good, "# one", 2, "retired", 2), _program(good, "# three", 1, "active", 2)):
                t.add(row)
        (found,) = remembered(memory, ["pick_place"])
        assert found == Exemplar("pick_place", "SPATIAL", "grasp", "gap_to_target:low", "# one", 0.4)
        assert remembered(memory, ["articulated"]) == []
