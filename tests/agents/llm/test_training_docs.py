"""What prompts say of training programs comes from the registries, and the prompts of potentials and supervision are whole."""

import importlib.resources
import re

import pytest

from coda_jax.agents.llm import training_docs
from coda_jax.agents.llm.training_docs import TOOLS, VERBS, landmark_lines, signatures
from coda_jax.agents.llm.training_docs import training_docs as docs
from coda_jax.agents.prompts import prompt
from coda_jax.programs.expressions import COMBINATORS
from coda_jax.programs.helpers import HELPERS
from coda_jax.programs.sandbox import Sandbox
from coda_jax.programs.sdk import TRAINING_VERBS
from coda_jax.programs.training import limits
from coda_jax.programs.training.program import NAME_WORDS, Tools, evaluate_training
from coda_jax.programs.training.vocabulary import ROLES
from tests.agents.llm.gated import checked
from tests.programs.training.made import LIMITS

NAMES = sorted(
    p.name.removesuffix(".md")
    for p in importlib.resources.files("coda_jax.agents.prompts").iterdir()
    if p.name.startswith(("potential_", "inspector", "supervisor"))
)


@pytest.mark.parametrize("name", NAMES)
def test_prompts_have_a_version_and_are_plain_text(name):
    found = prompt(name)
    assert found.version >= 1 and all(c == "\n" or " " <= c <= "~" for c in found.text)
    assert not re.search(r"\d\.\d", found.text)  # ranges and thresholds come from registries and demonstrations


def test_there_is_a_prompt_for_every_question():
    asked = {"potential_write", "potential_task_text", "potential_free_form", "potential_repair", "potential_refine", "potential_rules"}
    assert set(NAMES) == asked | {"inspector", "supervisor"}


def test_every_verb_tool_helper_and_range_stands_in_the_page():
    page = docs()
    assert tuple(VERBS) == tuple(signatures()) == TRAINING_VERBS and set(TOOLS) == set(Tools.__dataclass_fields__)
    for call in signatures().values():
        assert f"{call}: " in page and "others" not in call
    for helper in HELPERS.values():
        assert f"  {helper.signature}: {helper.formula} ({helper.unit}, {helper.low:g} to {helper.high:g})" in page
    for combinator in COMBINATORS.values():
        assert re.search(rf"^  {combinator.name}\(.*: {re.escape(combinator.formula)}$", page, re.MULTILINE)
    for name, (low, high) in limits.TOOL_RANGES.items():
        assert re.search(rf"^  {name}: .*; {low:g} to {high:g}$", page, re.MULTILINE)
    assert f"1 to {limits.MAX_STAGES} subgoal" in page and "({:g} to {:g})".format(*limits.DENSE_WEIGHT) in page
    assert all(word in page for word in NAME_WORDS) and all(repr(role) in page for role in ROLES)


def test_a_change_of_a_registry_changes_the_page(monkeypatch):
    monkeypatch.setitem(limits.TOOL_RANGES, "demo_share", (0.25, 0.75))
    assert "0.25 to 0.75" in training_docs.training_docs.__wrapped__()


def test_a_program_made_of_what_the_page_says_passes():
    with Sandbox(LIMITS) as sandbox:
        for name, (low, high) in limits.TOOL_RANGES.items():
            for value in (low, high):
                evaluate_training(f"result = training(sparse(), tools({name}={value}))", sandbox)


@pytest.mark.parametrize("family", ["pick_place", "articulated"])
def test_landmarks_tell_what_changes_in_demonstrations(family):
    marks = checked(family).landmarks()
    said = landmark_lines(marks)
    assert [m.phase for m in marks][:3] == ["approach", "grasp", "transport"] and "-0.000" not in said
    reach = next(v for q, v in marks[0].values.items() if q.op == "distance")
    assert reach[0] > 0.15 > 0.08 > reach[1]
    assert ("opening(" in re.sub("gripper_opening", "", said)) == (family == "articulated")
    assert ("one thing here" in said) == (family == "articulated") == ("horizontal_distance" not in said)
    for mark in marks:
        assert mark.steps[0] < mark.steps[1] and 1 <= mark.shown <= 6
