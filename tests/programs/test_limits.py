"""Checking a text takes time in proportion to its size, whatever stands in it."""

from __future__ import annotations

import time

import pytest

from coda_jax.programs.errors import ErrorKind, ProgramError
from coda_jax.programs.limits import Limits, check_text

LIMITS = Limits(1 << 20, 2.0, 1.0, 64 << 20, 200, 10_000, 200_000)
LINES = {
    "escaped quotes over line ends": '\\"' * 240 + "\\\n",
    "quotes that never close": "\\'" * 240 + "\n",
    "triple quotes": '\\"""' * 100 + "\n",
    "signs": "- " * 8 + "1, " + "~" * 8 + "1\n",
    "blanks after signs": "1 -" + " " * 480 + "1\n",
    "strings": "'a' " * 120 + "\n",
    "backslashes": "\\" * 480 + "\n",
}


def checked(text: str) -> float:
    """CPU time of the quickest of five checks, s."""
    best = float("inf")
    for _ in range(5):
        began = time.process_time()  # a wall clock would time the neighbours too
        try:
            check_text(text, LIMITS)
        except ProgramError as error:
            assert error.kind is ErrorKind.TEXT
        best = min(best, time.process_time() - began)
    return best


@pytest.mark.parametrize("name", LINES)
def test_four_times_the_text_takes_about_four_times_as_long(name):
    small, large = (checked(LINES[name] * n) for n in (40, 160))
    assert large < 8 * small + 0.005


def test_strings_end_on_their_line():
    for text in ('a = "b\n"', "a = 'b\\\nc'", 'a = "\\"'):
        with pytest.raises(ProgramError, match="not closed on its line") as refusal:
            check_text("x = 1\n" + text, LIMITS)
        assert refusal.value.line == 2
    for text in ("a = 'b\\'c'", 'a = """b\\\nc\n"""', "a = f'{b[\"c\"]}'  # it's fine", "a = ''"):
        assert check_text(text, LIMITS) == text
