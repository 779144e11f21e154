"""Freezing: valid scenes only, none twice, and the planner's rate over what was kept."""

import itertools

from coda_jax import config as settings
from coda_jax.evaluation import freeze_suites
from coda_jax.loop import freeze_suites as command
from coda_jax.loop import parts
from coda_jax.scenes import suites


def test_every_suite_is_frozen_and_loads(tmp_path, capsys):
    config = settings.default()
    config.sim.worlds = 8
    assert command.freeze(config, "validation", 0, tmp_path, 3)
    text = capsys.readouterr().out
    for suite in settings.SUITES:
        assert len(suites.load("pick_place", suite, "validation", tmp_path)) == 3
        assert f"{suite}/validation: 3 scenes of 8 candidates" in text
    assert text.count("planner 3/3") == 5


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
