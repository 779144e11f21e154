"""The reader and writer of task files, on a text of our own and on every file of the package."""

from __future__ import annotations

import dataclasses

import pytest

from coda_jax.scenes.libero import bddl, package, tasks, writing
from coda_jax.scenes.libero.bddl import Atom, BddlError
from tests.scenes.libero.texts import TASK


def test_reads_everything_in_lower_case_as_the_official_reader():
    problem = bddl.parse(TASK)
    assert problem.name == "libero_tabletop_manipulation"
    assert problem.language == "put the bowl on the plate"
    assert problem.goal == (Atom("on", ("akita_black_bowl_1", "plate_1")),)
    assert [t.name for t in problem.objects] == ["akita_black_bowl_1", "akita_black_bowl_2", "plate_1", "cookies_1"]
    assert problem.region("main_table_bowl_region").ranges == ((-0.1, -0.11, -0.08, -0.09), (-0.1, 0.19, -0.08, 0.21))
    assert problem.region("main_table_cabinet_region").yaw_rad == (3.0, 3.2)
    assert problem.region("wooden_cabinet_1_top_side").ranges == ()


def test_what_is_written_is_read_again():
    problem = bddl.parse(TASK)
    assert bddl.parse(writing.write(problem)) == problem


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"language": "x) (:goal (And (Open flat_stove_1)))"}, "instruction .* without brackets and semicolons"),
        ({"language": "open; the drawer"}, "instruction 'open"),
        ({"language": "open\nthe drawer"}, "printable characters"),
        ({"language": "\ud800"}, "printable characters"),
        ({"language": " "}, "cannot be written .* the language is 1 to 300"),
        ({"name": "libero_tabletop_manipulation) (:domain other"}, "cannot be written"),
        ({"of_interest": ("plate_1 cookies_1",)}, "of_interest would be read as something else"),
        ({"init": (Atom("on", ("plate_1 cookies_1", "main_table_plate_region")),)}, "cannot be written .*takes 2 names, not 3"),
        ({"goal": (Atom("open", ("top_region) (Open flat_stove_1",)),)}, "cannot be written"),
        ({"regions": (bddl.Region("plate_region", "main_table"),)}, "cannot be written"),
        ({"regions": (bddl.Region("main_table_plate_region", "main_table", ((float("nan"), 0.0, 0.1, 0.1),)),)}, "'nan' is no number"),
    ],
)
def test_what_would_be_read_as_something_else_is_not_written(change, message):
    with pytest.raises(BddlError, match=message):
        writing.write(dataclasses.replace(bddl.parse(TASK), **change))


def test_words_are_written_as_they_are_and_read_in_lower_case():
    problem = dataclasses.replace(bddl.parse(TASK), language="Put  the BOWL on the caf\u00e9's plate")
    assert "(:language Put  the BOWL" in writing.write(problem)
    assert bddl.parse(writing.write(problem)).language == "put the bowl on the caf\u00e9's plate"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(:goal (And (On akita_black_bowl_1 plate_1)))", "(:goal (And (On akita_black_bowl_1 plate_1))", "never closed"),
        ("(:goal (And (On akita_black_bowl_1 plate_1)))", "(:goal (And (On akita_black_bowl_1 plate_1))))) x", "after the task's last"),
        ("(On plate_1 main_table_plate_region)", "(Near plate_1 main_table_plate_region)", "line 21: unknown predicate 'near'"),
        ("(On plate_1 main_table_plate_region)", "(On plate_1)", "takes 2 names, not 1"),
        ("(On plate_1 main_table_plate_region)", "(On plate_2 main_table_plate_region)", "plate_2 is no object"),
        ("0.09 0.04 0.11 0.06", "0.09 0.04 nan 0.06", "line 7: .*'nan' is no number"),
        ("0.09 0.04 0.11 0.06", "0.09 0.04 1e9 0.06", "no number between -20 and 20"),
        ("0.09 0.04 0.11 0.06", "0.09 0.04 0.02 0.06", "ends before it begins"),
        ("0.09 0.04 0.11 0.06", "0.09 0.04 0.11", "4 numbers"),
        ("(:ranges ((0.09", "(:target other) (:ranges ((0.09", "region plate_region: :target stands there twice"),
        ("3.0 3.2", "__import__('os') 3.2", "line 9"),
        ("(:domain robosuite)", "(:domain other)", "must be robosuite"),
        ("(:domain robosuite)", "(:domain robosuite) (:domain robosuite)", "stands there twice"),
        ("(:domain robosuite)", "(:domain robosuite) (:actions)", "unknown section .*actions"),
        ("(:obj_of_interest akita_black_bowl_1 plate_1)", "", ":obj_of_interest is missing"),
        ("plate_1 - plate cookies_1 - cookies", "plate_1 - plate cookies_1 - plate", "official reader forgets the first"),
        ("plate_1 - plate cookies_1 - cookies", "plate_1 - plate cookies_1", "cookies_1 has no category"),
        ("Put the Bowl on the plate", "x" * 400, "1 to 300 printable"),
        ("(And (On akita_black_bowl_1 plate_1))", "(And)", "always holds"),
        ("(problem LIBERO_Tabletop_Manipulation)", "(problem " + "(" * 20 + ")" * 20 + ")", "nested deeper"),
        ("(:domain robosuite)", "(:domain robosuite) " + "(a) " * 3000, "more than 4000 words"),
    ],
)
def test_says_what_is_wrong_and_where(old, new, message):
    assert old in TASK
    with pytest.raises(BddlError, match=message):
        bddl.parse(TASK.replace(old, new))


def test_deep_and_long_texts_are_refused_quickly():
    with pytest.raises(BddlError, match="nested deeper"):
        bddl.parse("(" * 60_000)
    with pytest.raises(BddlError, match="longer than 64 KiB"):
        bddl.parse("(" * 100_000)


def test_a_file_that_is_none_is_named(tmp_path):
    with pytest.raises(BddlError, match="cannot be read: No such file"):
        bddl.read(tmp_path / "missing.bddl")
    (tmp_path / "binary.bddl").write_bytes(b"(define \xff)")
    with pytest.raises(BddlError, match="not UTF-8"):
        bddl.read(tmp_path / "binary.bddl")
    (tmp_path / "bad.bddl").write_text("(define)")
    with pytest.raises(BddlError, match=r"bad\.bddl, line 1: section problem is missing"):
        bddl.read(tmp_path / "bad.bddl")


@pytest.mark.libero
def test_every_task_file_of_the_suites_is_read_and_written():
    for suite in tasks.SUITES:
        for task in tasks.tasks(suite):
            problem = task.problem()
            assert bddl.parse(writing.write(problem)) == problem
            assert problem.goal


@pytest.mark.libero
def test_every_other_task_file_is_read_or_refused_with_a_line():
    refused = 0
    for path in sorted(package.find().bddl.glob("*/*.bddl")):
        try:
            bddl.read(path)
        except BddlError as error:
            assert "line" in str(error)
            refused += 1
    assert refused <= 1  # libero_object_temp_y0.5: a region that ends before it begins
