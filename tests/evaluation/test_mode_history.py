"""Modes gathered from rows of metrics.jsonl, also from rows that nobody sane would write."""

from typing import Any

import pytest

from coda_jax.evaluation.metrics import Tally
from coda_jax.evaluation.mode_history import mode_histories, number, tally, whole

A, B, C = "a" * 16, "b" * 16, "c" * 16


def diagnosed(mode: Any, at: Any = 1, cause="target_reference_m:high", factor="SPATIAL"):
    return {"kind": "diagnosis", "round": at, "mode": mode, "factor": factor, "phase": "transport", "cause": cause}


def control(mode, verdict, at=1):
    row = {"kind": "control_test", "round": at, "mode": mode, "factor": "SPATIAL", "phase": "transport", "cause": "target_reference_m:high"}
    return row | {"mean": 0.2, "low": 0.1, "high": 0.3, "verdict": verdict, "scenes": 16}


def value(mode, at=1, se: float | None = 0.1):
    return {
        "kind": "learning_value",
        "round": at,
        "mode": mode,
        "scenes": 4,
        "before": 3,
        "after": 9,
        "n": 16,
        "gain": 0.4,
        "value": 0.3,
        "se": se,
    }


def test_a_mode_gathers_its_rounds():
    rows = [
        diagnosed(A),
        diagnosed(A),
        {"kind": "program", "round": 1, "mode": A, "verb": "distance", "levels": {"1": [2, 8], "0.25": [7, 8]}, "level": 0.25},
        control(A, "undecided"),
        value(A, se=None),
        value(A, se=0.0),
        diagnosed(A, 2),
        control(A, "confirmed", 2),
        value(A, 2) | {"controls": {"before": 4, "after": 3, "n": 8}},
    ]
    (mode,) = mode_histories(rows)
    assert (mode.factor, mode.phase, mode.cause) == ("SPATIAL", "transport", "target_reference_m:high")
    assert mode.diagnoses == {1: 2, 2: 1} and mode.total == 3
    assert mode.searches[0].levels == ((0.25, Tally(7, 8)), (1.0, Tally(2, 8))) and mode.searches[0].level == 0.25
    assert [t.verdict for t in mode.tests] == ["undecided", "confirmed"] and mode.verdict == "confirmed"
    assert [v.interval is None for v in mode.values] == [True, True, False]
    assert mode.values[2].interval == pytest.approx((0.4 - 0.196, 0.4 + 0.196), abs=1e-3)
    assert (mode.values[2].before, mode.values[2].after, mode.values[2].scenes) == (Tally(3, 16), Tally(9, 16), 4)
    assert [v.controls for v in mode.values] == [None, None, (Tally(4, 8), Tally(3, 8))]
    wrong = ({"before": 9, "after": 3, "n": 8}, {"before": 1, "n": 8}, [1, 2, 8], "x", None)
    assert [mode_histories([value(A) | {"controls": told}])[0].values[0].controls for told in wrong] == [None] * 5


def test_a_mode_that_was_only_diagnosed_has_canonical_words():
    (mode,) = mode_histories([diagnosed(A)])
    assert mode.cause == "target_reference_m:high" and mode.verdict == ""


def test_confirmed_modes_come_first_then_common_ones():
    rows = [diagnosed(A), diagnosed(B), diagnosed(B), diagnosed(C), control(C, "confirmed"), control(A, "refuted")]
    assert [m.mode_id for m in mode_histories(rows)] == [C, A, B]


def test_an_imported_mode_is_known_before_any_diagnosis():
    row = {"kind": "imported", "round": 0, "mode": "b", "factor": "SPATIAL", "phase": "grasp", "cause": "gap to neighbour low"}
    found = {m.mode_id: m for m in mode_histories([row, diagnosed("a")])}
    assert (found["b"].imported, found["b"].total, found["b"].cause) == (True, 0, "gap to neighbour low")
    assert not found["a"].imported


def test_execution_makes_no_mode():
    assert mode_histories([diagnosed(None, factor="EXECUTION", cause="")]) == []


@pytest.mark.parametrize(
    "row",
    [
        diagnosed(["x"]),
        diagnosed(A, at="1"),
        diagnosed(A, at=1.5),
        diagnosed(A, at=True),
        {"kind": "control_test"},
        {"kind": ["control_test"], "mode": A, "round": 1},
    ],
)
def test_rows_without_a_mode_or_a_round_are_passed_over(row):
    assert mode_histories([row]) == []


@pytest.mark.parametrize(
    "broken",
    [
        control(A, "confirmed") | {"mean": "0.2"},
        control(A, "confirmed") | {"low": float("nan")},
        value(A) | {"before": 17},
        value(A) | {"gain": None},
        value(A) | {"n": 10**400},
    ],
)
def test_fields_that_are_no_numbers_leave_the_entry_out(broken):
    (mode,) = mode_histories([diagnosed(A), broken])
    assert mode.tests == () and mode.values == ()


def test_levels_that_are_none_are_left_out():
    levels = {"x": [1, 2], "nan": [1, 2], "2": [1, 2], "0.5": [3, 2], "0.75": "12", "1": [1, 2], "0": [0, 0]}
    row = {"kind": "program", "round": 1, "mode": A, "verb": "mass", "levels": levels, "level": 10**400}
    (mode,) = mode_histories([row])
    assert mode.searches[0].levels == ((1.0, Tally(1, 2)),) and mode.searches[0].level is None
    (bare,) = mode_histories([row | {"levels": [1]}])
    assert bare.searches[0].levels == ()


def test_numbers_of_rows():
    assert [number(v) for v in (1, 0.5, True, "1", None, float("inf"), 10**400)] == [1.0, 0.5, None, None, None, None, None]
    assert [whole(v) for v in (3, 3.0, 3.5, 10**20, -1)] == [3, 3, None, None, -1]
    assert tally(1, 2) == Tally(1, 2) and tally(-1, 2) is None and tally(3, 2) is None
