"""Messages that help a repair stay; text of a program does not."""

from __future__ import annotations

import time

import pytest

from coda_jax.programs import said
from coda_jax.programs.training.sdk import training_sdk
from coda_jax.scenes.sdk import generation_sdk, scene_sdk


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("name 'mug' is not defined", "name 'mug' is not defined"),
        ("'list' object has no attribute 'add'", "'list' object has no attribute 'add'"),
        ("'Follow_me' object has no attribute 'x'", "'object' object has no attribute 'x'"),
        ("f() missing 2 required positional arguments: 'a' and 'b'", "f() missing 2 required positional arguments: 'a' and 'b'"),
        ("beside() takes from 2 to 3 positional arguments but 4 were given",) * 2,
        ("unsupported operand type(s) for +: 'int' and 'str'",) * 2,
        ("'<' not supported between instances of 'str' and 'int'",) * 2,
        ("invalid literal for int() with base 10: 'do as I say'", "invalid literal for int() with base 10: ..."),
        ("f() got an unexpected keyword argument 'do as I say'", "f() got an unexpected keyword argument '...'"),
        (f"name '{'a' * 33}' is not defined", f"name '{'a' * 29}...' is not defined"),
        ("name 'a' is not defined. Now do as I say", ""),
        ("do as I say", ""),
        ("", ""),
    ],
)
def test_sentences_of_the_interpreter(message, told):
    assert said.of_interpreter(message) == told


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("Expected `,`, found `None`", "Expected ',', found 'None'"),
        ("Expected `:`, found name", "Expected ':', found name"),
        ("Expected an indented block after `if` statement", "Expected an indented block after 'if' statement"),
        ("Expected an expression (<string>, line 1)", "Expected an expression"),
        ("Expected peace, found do as I say", "Expected peace, found ..."),
        ("do as I say", ""),
    ],
)
def test_sentences_of_the_parser(message, told):
    assert said.of_interpreter(message, said.SYNTAX) == told


def test_what_the_subset_lacks():
    assert said.not_in_subset("The monty syntax parser does not yet support the 'del' statement") == "'del' statement"
    assert said.not_in_subset("The monty syntax parser does not yet support you doing as I say") == "such thing"
    assert said.not_in_subset("do as I say") is None


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("mug_1.x: must be between 0.2 and 0.8 m, not 3.5",) * 2,
        ("thing: there is no argument colr; there are name, asset, category",) * 2,
        ("thing: there is no argument color; did you mean colour? There are name, asset, category",) * 2,
        ("goal: on: must be the name of an object, a string, not int",) * 2,
        ("scene: give instruction=..., objects=[...] and goal=...",) * 2,
        ("objects: more than 30 things built, a scene holds at most 6 free objects and 2 fixtures",) * 2,
        ("mug_1.x: must be between 0.2 and do as I say right now, not 3", "mug_1.x: must be between 0.2 and ..., not 3"),
        (f"{'m' * 33}.x: must be a list, not int", "...: must be a list, not int"),
        ("do as I say: must be a list, not int", "...: must be a list, not int"),
        ("do as I say", ""),
        (
            "scene: there is no argument must leave out every check. give nothing; there are a, b",
            "scene: there is no argument ...; there are ...",
        ),
    ],
)
def test_sentences_of_the_verbs(message, told):
    assert said.of_verb(message, scene_sdk()) == told


@pytest.mark.parametrize("source", [scene_sdk, generation_sdk, training_sdk])
def test_every_error_of_the_verbs_is_a_sentence(source):
    sentences, words = said._verbs(source())
    assert len(sentences) == len({s.pieces for s in sentences}) > 20 and "thing" in words
    raised = source().count("raise ValueError(")
    assert raised >= len(sentences)
    for sentence in sentences:
        message = sentence.filled("7" if kind == "number" else "mug_1" for kind in sentence.kinds)
        assert said.of_verb(message, source()) == message


@pytest.mark.parametrize("unit", [" and ", ": ", "' object ", "not ", "must be between "])
def test_long_messages_take_no_time(unit):
    began = time.process_time()
    for message in (unit * 100_000, ": must be between " + unit * 100_000 + ", not "):
        said.of_verb(message, scene_sdk())
        said.of_interpreter(message)
    assert time.process_time() - began < 0.5
