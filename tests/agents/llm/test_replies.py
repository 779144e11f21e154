"""Programs as models wrap them."""

import contextlib
import time

import pytest

from coda_jax.agents.llm.replies import ReplyError, ReplyErrorKind, program_in, unfenced

PROGRAM = 'scene = Scene("pick_place")\nmug = scene.add("mug", at=(0.4, 0.1))\nresult = scene\n'
OTHER = "result = 2\n"


@pytest.mark.parametrize(
    ("text", "fenced"),
    [
        (PROGRAM, False),
        (f"\n\n{PROGRAM}\n\n", False),
        (PROGRAM.replace("\n", "\r\n"), False),
        (f"```python\n{PROGRAM}```", True),
        (f"```\n{PROGRAM}\n```\n", True),
        (f"~~~py\n{PROGRAM}~~~", True),
        (f"````python\n{PROGRAM}````", True),
        (f"Here is the program you asked for:\n\n```python\n{PROGRAM}```\n\nIt puts a mug on the table.", True),
        (f"```python\n{PROGRAM}", True),  # cut off, or closed by nothing
        (f"  ```python title=scene\n{PROGRAM}  ```", True),
        (f"```python\n{PROGRAM}```\nThe same again:\n```python\n{PROGRAM}```", True),
        (f"```bash\npip install x\n```\n```python\n{PROGRAM}```", True),
        (f"Sorry for the wait.\n```python\n{PROGRAM}```", True),
    ],
)
def test_the_one_program(text, fenced):
    program, was = program_in(text)
    assert was is fenced
    assert program.replace("\r", "") == PROGRAM


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", ReplyErrorKind.EMPTY),
        (" \n\t ", ReplyErrorKind.EMPTY),
        ("A mug could stand on the left, and the tray on the right.", ReplyErrorKind.NO_PROGRAM),
        ("1. Put the mug (red) down.\n2. Take the other mug = done.", ReplyErrorKind.NO_PROGRAM),
        ("```\n\n```", ReplyErrorKind.NO_PROGRAM),
        ('```json\n{"number": 3}\n```', ReplyErrorKind.NO_PROGRAM),
        ("I'm sorry, but I can't help with that.", ReplyErrorKind.REFUSAL),
        ("I\u2019m sorry, I can\u2019t do this.", ReplyErrorKind.REFUSAL),
        ("I cannot write such a scene (it is unsafe).", ReplyErrorKind.REFUSAL),
        (f"First:\n```python\n{PROGRAM}```\nor:\n```python\n{OTHER}```", ReplyErrorKind.TWO_PROGRAMS),
        (f"```python\n{PROGRAM}```\n~~~\n{OTHER}", ReplyErrorKind.TWO_PROGRAMS),
    ],
)
def test_no_one_program(text, kind):
    with pytest.raises(ReplyError) as error:
        program_in(text)
    assert error.value.kind is kind and error.value.message


def test_programs_with_mistakes_are_programs():
    for broken in ("result = (1,\n", "for x in range(3)\n    scene.add(x)\n", "scene.add('mug'\n    at=(1, 2))\n"):
        assert program_in(broken) == (broken, False)


def test_a_fence_inside_a_longer_one_is_text():
    inner = 'note = "a"\n```\nresult = note'
    assert program_in(f"````python\n{inner}\n````") == (inner + "\n", True)


@pytest.mark.parametrize(
    "text", ["`" * 10**6, "```" + "a" * 10**6 + "`", "```\n" * 10**5, "a b " * 250_000, "(" * 10**6, "i am " * 200_000]
)
def test_odd_texts_take_no_time(text):
    began = time.monotonic()
    with contextlib.suppress(ReplyError):
        program_in(text)
    unfenced(text)
    assert time.monotonic() - began < 1


def test_wrapped_json():
    assert unfenced('```json\n{"a": 1}\n```') == '{"a": 1}'
    assert unfenced('{"a": "```"}') == '{"a": "```"}'
    assert unfenced(" 3 ") == " 3 "
