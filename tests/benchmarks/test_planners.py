"""Tables of the planners benchmark: families, demonstrations of a scene, causes and categories over several rows."""

from __future__ import annotations

import pytest

from benchmarks.planner_tables import tables


def row(family, solved, each=1, plain=None, causes=None, categories=None):
    arm = {"first": solved - 1, "solved": solved, "all": solved - 2, "a_cpu_minute": 100.0 * solved, "steps": 50.0}
    arm |= {"causes": causes or {}, "remarks": {"slipped": 1}, "by_category": categories or {"mug": [solved - 1, solved, 10]}}
    made = {"name": f"planner.{family}", "edits": 0, "noise": True, "each": each, "drawn": 11, "valid": 10, "supervised": arm}
    return made | ({"plain": {"solved": plain}} if plain else {})


@pytest.fixture(scope="module")
def text():
    rows = [
        row("pick_place", 9, plain=8, causes={"mug_1 lies on its side: lift it": 1, "gave up after 3 attempts": 2}),
        row("pick_place", 10, causes={"no_way_3 lies on its side": 2}, categories={"mug": [10, 10, 10], "can": [30, 30, 30]}),
        row("pick_place", 7, each=4),
    ]
    return tables(rows)


def test_success_with_control_where_it_was_measured(text):
    assert "| `pick_place` | 0 | yes | 10/11 | 8/10 = 80.0 % " in text and "| 8/10 = 80.0 % (49.0 .. 94.3) |\n" in text
    assert "| not measured |" in text
    assert "| `pick_place` | 4 | 5/10 = 50.0 % (23.7 .. 76.3) | 7/10 = 70.0 % " in text


def test_causes_are_counted_without_names_and_categories_over_rows(text):
    assert "| `pick_place` | a thing lies on its side 3, gave up after 3 attempts 2 | slipped 2 |" in text
    assert "| `pick_place` | mug: 18, 19 of 20 | 1 categories: 30, 30 of 30 |" in text
    assert "| `pick_place` | 700 .. 1000 | 50 .. 50 |" in text
