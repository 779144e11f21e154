"""Scenes as task files: what is written is read back as the same places, and what a file cannot say stands beside it."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from coda_jax.runtime import InputError
from coda_jax.scenes.libero import bddl, exporting, families, importing, placing, tasks
from coda_jax.scenes.spec import SceneSpec, from_json, to_json
from tests.scenes.libero.texts import TASK

LAYOUT = "libero_goal/made_up"


@pytest.fixture
def spec(monkeypatch) -> SceneSpec:
    """A scene of our own text, which stands in for the package's file of that name."""
    problem = bddl.parse(TASK)

    class Known:
        key = LAYOUT

        def problem(self):
            return problem

    monkeypatch.setattr(tasks, "task", lambda key: Known())
    return importing.scene(problem, "libero_goal", LAYOUT, placing.draw(problem, 5))


def changed(spec: SceneSpec, name: str, **fields) -> SceneSpec:
    objects = tuple(dataclasses.replace(o, **fields) if o.object == name else o for o in spec.attributes.objects)
    return dataclasses.replace(spec, attributes=dataclasses.replace(spec.attributes, objects=objects))


def test_the_file_gives_the_same_places_whatever_the_seed(spec):
    problem = bddl.parse(exporting.export(spec).bddl)
    assert problem.language == spec.task.instruction and [str(a) for a in problem.goal] == ["On(akita_black_bowl_1, plate_1)"]
    for seed in (0, 1):
        again = placing.draw(problem, seed)
        for place in spec.spatial.placements:
            if place.support == "table":
                assert again[place.object].pos_m == pytest.approx(place.pos_m, abs=3e-6)
                assert again[place.object].yaw_rad == pytest.approx(place.yaw_rad, abs=1e-6)
            assert ((again[place.object].opening or 0.0) >= 0.5) == ((place.opening or 0.0) >= 0.5)


def test_another_goal_and_other_words_are_written(spec):
    from coda_jax.programs.expressions import Expr

    goal = Expr("libero_in", ("cookies_1", "wooden_cabinet_1_top_region"))
    task = dataclasses.replace(spec.task, goal=goal, instruction="put the box in the drawer")
    problem = bddl.parse(exporting.export(dataclasses.replace(spec, task=task)).bddl)
    assert problem.language == "put the box in the drawer"
    assert [str(a) for a in problem.goal] == ["In(cookies_1, wooden_cabinet_1_top_region)"]
    assert problem.of_interest == ("cookies_1", "wooden_cabinet_1")
    with pytest.raises(InputError, match="is no predicate of a task file"):
        exporting.export(dataclasses.replace(spec, task=dataclasses.replace(task, goal=Expr("inside", ("cookies_1", "plate_1")))))


def test_what_a_file_cannot_say_stands_beside_it(spec):
    edited = changed(changed(spec, "plate_1", mass_kg=0.3), "cookies_1", scale=1.2, friction=0.4)
    beside = exporting.export(edited).beside
    only = json.loads(beside)["only_here"]
    assert "plate_1 has mass_kg 0.3, not 0.011522" in only and "cookies_1 has scale 1.2, not 1" in only
    assert "cookies_1 has friction 0.4, not 0.95" in only and "where on wooden_cabinet_1 akita_black_bowl_2 stands" in only
    assert exporting.read_beside(beside) == from_json(to_json(edited))
    for text in ("{", "[]", '{"format": 2}', '{"format": 1}', '{"format": 1, "scene": {}}', "[" * 100_000):
        with pytest.raises(InputError, match="export the scene again"):
            exporting.read_beside(text)


def test_a_scene_of_other_things_is_refused(spec):
    with pytest.raises(InputError, match="edit places, not what is there"):
        exporting.problem_of(changed(spec, "cookies_1", asset="libero/butter"))


def test_a_scene_that_says_something_else_than_it_shows_is_not_written(spec, tmp_path):
    """Names and sentences of a scene may be anything; in a task file they would become sections of it."""
    place = dataclasses.replace(spec.spatial.placements[0], support="cabinet", region="a)) (:goal (And (Open b)))")
    told = dataclasses.replace(spec.task, instruction="x) (:goal (And (Open flat_stove_1)))")
    for hostile in (
        dataclasses.replace(spec, task=told),
        dataclasses.replace(spec, spatial=dataclasses.replace(spec.spatial, placements=(place, *spec.spatial.placements[1:]))),
        dataclasses.replace(spec, spatial=dataclasses.replace(spec.spatial, placements=())),
    ):
        with pytest.raises(InputError):
            exporting.write_files(hostile, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_field_that_is_wrong_beside_a_task_file_is_named(spec):
    beside = json.loads(exporting.export(spec).beside)
    beside["scene"]["spatial"]["placements"][0]["yaw_rad"] = "left"
    with pytest.raises(InputError, match=r"spatial\.placements\.0\.yaw_rad.*: .*valid number: export the scene again"):
        exporting.read_beside(json.dumps(beside))


@pytest.mark.libero
def test_scenes_of_the_package_are_written_and_read():
    for family in tasks.FAMILIES:
        for task in tasks.tasks(family)[::4]:
            spec = importing.initial_scene(task, 3, seed=3)
            problem = bddl.parse(exporting.export(spec).bddl)
            assert problem.goal == task.problem().goal and problem.language == task.problem().language


@pytest.mark.libero
def test_the_pages_example_edits_a_task_and_writes_it(repository, capsys, monkeypatch, tmp_path):
    page = (repository / "docs" / "libero_scenes.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))
    try:
        exec(compile(example, "docs/libero_scenes.md", "exec"), {})
    finally:
        families.remove()
    (written,) = tmp_path.glob("*.bddl")
    assert str(written) in capsys.readouterr().out and bddl.parse(written.read_text()).name == "libero_tabletop_manipulation"
