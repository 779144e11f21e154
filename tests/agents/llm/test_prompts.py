"""The data engine's prompts: versioned, filled completely, and every example in them is a program that passes."""

import importlib.resources
import re

import pytest

from coda_jax.agents.llm.scene_author import EXAMPLES, examples
from coda_jax.agents.prompts import prompt
from coda_jax.loop import parts
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes import families, language
from coda_jax.scenes.generation import evaluate_generation
from coda_jax.scenes.leakage import refuse_held_out
from coda_jax.scenes.lifting import bind, generate
from coda_jax.scenes.program import evaluate_scene
from coda_jax.sim.validity import check
from tests.agents.llm.desk import TRAIN, bases, config_of

NAMES = sorted(
    p.name.removesuffix(".md") for p in importlib.resources.files("coda_jax.agents.prompts").iterdir() if p.name.startswith("engine_")
)
_PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(parts.limits_of(config_of())) as opened:
        yield opened


@pytest.mark.parametrize("name", NAMES)
def test_prompts_have_a_version_and_are_plain_text(name):
    found = prompt(name)
    assert found.version >= 1 and found.text.strip()
    assert all(c == "\n" or " " <= c <= "~" for c in found.text)


@pytest.mark.parametrize("name", ["loop", *EXAMPLES])
def test_worked_scenes_pass_every_check_as_they_are(name, sandbox):
    (program,) = _PROGRAM.findall(prompt(f"engine_example_{name}").text)
    spec = evaluate_scene(program, sandbox, TRAIN)
    refuse_held_out(spec, TRAIN)
    assert name in ("loop", spec.task.family)
    template = language.match(spec.task.instruction, spec.task.family)
    assert template is not None and template.split == "train"
    assert check([spec], TRAIN, parts.validity_of(config_of()))[0].failures == ()


def test_worked_generation_programs_pass_the_door_and_apply(sandbox):
    found = _PROGRAM.findall(prompt("engine_generation").text)
    assert len(found) == 2
    for text in found:
        program = evaluate_generation(text, sandbox, TRAIN)
        applied = [b for base in bases("pick_place", 8) for b in bind(program, base, TRAIN)[:1]]
        assert applied and generate(program, next(b for b in bases("pick_place", 8) if bind(program, b, TRAIN)), applied[0], 0, TRAIN)


@pytest.mark.parametrize("chosen", [("pick_place",), ("articulated",), ("pick_place", "stack_insert"), EXAMPLES])
def test_at_least_two_examples_are_shown_with_one_of_each_family(chosen):
    shown = examples(chosen)
    assert len(_PROGRAM.findall(shown)) >= 2
    assert all(f'family="{name}"' in shown for name in chosen)


def test_a_family_without_an_example_gets_the_general_ones():
    assert set(EXAMPLES) == set(families.names())
    assert len(_PROGRAM.findall(examples(("gather",)))) == 2
