"""Files that annotators save, and files that anybody may have written."""

import json
import os
from pathlib import Path

import pytest

from coda_jax.evaluation.annotation.answers import Answer, read_answers
from coda_jax.runtime import InputError

SURE = {"episode": 7, "scene_id": "0123456789abcdef", "factor": "SPATIAL", "phase": "grasp", "unsure": False}
UNSURE = SURE | {"episode": 8, "factor": None, "phase": None, "unsure": True}
GOOD = {"kind": "coda_jax.annotation", "version": 1, "sheet": "0123456789abcdef", "annotator": "AB", "answers": [SURE, UNSURE]}


def write(tmp_path, value):
    path = tmp_path / "a.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return path


def test_answers_come_back(tmp_path):
    found = read_answers(write(tmp_path, GOOD))
    assert (found.annotator, found.answers[0]) == ("AB", Answer(**SURE)) and found.answers[1].unsure


def one(**change):
    return GOOD | {"answers": [SURE | change]}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "Invalid JSON"),
        ("[]", "the file"),
        ("[" * 10_000, "Invalid JSON"),
        (GOOD | {"version": 2}, "version"),
        (GOOD | {"kind": "x"}, "kind"),
        (GOOD | {"sheet": "../../etc"}, "sheet"),
        (GOOD | {"annotator": "<b>"}, "annotator"),
        (GOOD | {"annotator": "x" * 41}, "annotator"),
        (GOOD | {"annotator": "A\n"}, "annotator"),
        (GOOD | {"more": 1}, "more"),
        (GOOD | {"answers": [SURE, SURE]}, "answered twice"),
        (one(factor="LUCK"), "factor"),
        (one(phase="dance"), "phase"),
        (one(episode="7"), "episode"),
        (one(episode=0), "episode"),
        (one(episode=True), "episode"),
        (one(episode=2**60), "episode"),
        (one(scene_id="zz"), "scene_id"),
        (one(unsure=1), "unsure"),
        (one(unsure=True), "neither and unsure"),
        (one(factor=None), "neither and unsure"),
        ("\x1b]0;owned\x07", "Invalid JSON"),
        (GOOD | {"\x1b[31mred\n": 1}, "Unexpected keyword"),
    ],
)
def test_files_that_the_page_does_not_save(tmp_path, value, said):
    with pytest.raises(InputError, match="no file that the annotation page saves") as error:
        read_answers(write(tmp_path, value))
    assert said in str(error.value) and str(error.value).isprintable()


def test_files_that_are_not_there_or_too_large(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        read_answers(tmp_path / "none.json")
    with pytest.raises(InputError, match="more than 2,000,000 bytes"):
        read_answers(write(tmp_path, " " * 2_000_001))


def test_what_is_no_plain_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(InputError, match="cannot read .*plain file"):
            read_answers(path)
