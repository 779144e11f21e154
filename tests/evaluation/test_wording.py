import pytest

from coda_jax.agents.scripted.engine import TASK_VERBS
from coda_jax.evaluation.wording import cause_in_words, difficulty_in_words, margin_in_words
from coda_jax.memory.causes import canonical
from coda_jax.scenes.measures import MEASURES


@pytest.mark.parametrize("name", [m.name for m in MEASURES.values() if m.factor != "task"])
@pytest.mark.parametrize("way", ["high", "low"])
def test_every_measured_cause_has_words_of_its_own(name, way):
    raw = f"{name}:{way}"
    words = cause_in_words("SPATIAL", raw)
    assert words == cause_in_words("SPATIAL", canonical(raw))
    assert words.split()[0] in ("larger", "smaller", "more", "fewer") and MEASURES[name].what in words
    others = {cause_in_words("SPATIAL", f"{m}:{w}") for m in MEASURES for w in ("high", "low") if (m, w) != (name, way)}
    assert words not in others


@pytest.mark.parametrize("part", list(TASK_VERBS))
def test_every_part_of_a_task_has_words(part):
    assert cause_in_words("TASK", part) != part


def test_other_causes_stay_as_they_are():
    assert cause_in_words("SPATIAL", "the mug hides behind the tray") == "the mug hides behind the tray"
    assert "no scene factor" in cause_in_words("EXECUTION", "")


def test_margin():
    assert (
        margin_in_words("gripper_to_target", 0.0412, 54, 0.03, "m") == "gripper to target 0.0412 m at best, at step 54; 0.03 m is asked for"
    )


def test_a_line_of_the_terminal_names_no_measure():
    line = difficulty_in_words("SPATIAL", "grasp", "nearest_gap_m:low")
    assert line == "SPATIAL, grasp, smaller gap of the target to its nearest neighbour"
