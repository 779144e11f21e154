"""Freezing: valid scenes only, none twice, and the planner's rate over what was kept."""

import itertools

import pytest

from coda_jax import config as settings
from coda_jax.evaluation import freeze_suites
from coda_jax.loop import freeze_suites as command
from coda_jax.loop import parts
from coda_jax.scenes import suites
from coda_jax.scenes.suites import SuiteError


def test_every_suite_is_frozen_and_loads(tmp_path, capsys):
    config = settings.default()
    config.sim.worlds = 8
    assert command.freeze(config, "pick_place", "validation", 0, tmp_path, 3)
    text = capsys.readouterr().out
    for suite in settings.SUITES:
        assert len(suites.load("pick_place", suite, "validation", tmp_path)) == 3
        assert f"{suite}/validation: 3 scenes of 8 candidates" in text
    assert text.count("planner 3/3") == 5
    frozen = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(SuiteError, match=r"id\.validation\.jsonl is frozen already \(version 1\).*--new_version"):
        command.freeze(config, "pick_place", "validation", 100, tmp_path, 3)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == frozen


def test_an_unfair_split_writes_nothing(tmp_path, monkeypatch, capsys):
    config = settings.default()
    config.sim.worlds, config.horizon.pick_place = 2, 4  # no time to reach anything
    monkeypatch.setattr(settings, "SUITES", ("id", "tasks"))
    assert not command.freeze(config, "pick_place", "validation", 0, tmp_path, 2)
    text = capsys.readouterr().out
    assert "planner 0/2" in text and text.count("too few: at least 95 % must be solved") == 2
    assert not list(tmp_path.iterdir())


def test_invalid_and_taken_scenes_are_passed_over():
    config = settings.default()
    config.sim.worlds = 4
    config.validity.longest_m = (0.015, 0.11)
    candidates = list(itertools.islice(suites.suite_specs("pick_place", "id", "validation"), 16))
    taken = frozenset({candidates[0].scene_id})
    found = freeze_suites.select(iter(candidates), 2, parts.validity_of(config), taken)
    assert candidates[0].scene_id not in {s.scene_id for s in found.specs}
    assert found.rejected["scale"] >= 1
    order = [s.scene_id for s in candidates]
    assert [order.index(s.scene_id) for s in found.specs] == sorted(order.index(s.scene_id) for s in found.specs)


@pytest.mark.parametrize("family", ["put_inside", "stack_insert"])
def test_suites_of_other_families_can_be_built(family, tmp_path):
    config = settings.default()
    config.sim.worlds = 4
    for suite in settings.SUITES:
        found = freeze_suites.select(suites.suite_specs(family, suite, "validation"), 3, parts.validity_of(config))
        suites.write(tmp_path, family, suite, "validation", found.specs)
        assert {s.task.family for s in suites.load(family, suite, "validation", tmp_path)} == {family}
