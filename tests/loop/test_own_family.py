"""The family of docs/families.md goes the way of the page: refused before its suites are frozen, frozen, loaded, held out."""

from __future__ import annotations

import pytest

from coda_jax import config as settings
from coda_jax.loop import freeze_suites, own_families
from coda_jax.scenes import families, suites
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
from tests import own_family

NAME, MODULE = "gather_frozen", "tasks_to_freeze"


@pytest.fixture
def config(repository, tmp_path, monkeypatch):
    own_family.save(repository, tmp_path, monkeypatch, MODULE, NAME)
    config = settings.default()
    config.sim.worlds, config.own_families, config.family = 6, MODULE, NAME
    own_families.add(config)
    yield config
    families.unregister(NAME)


def test_the_example_is_frozen_and_loads(config, tmp_path, capsys):
    folder = tmp_path / "frozen"
    folder.mkdir()
    command = f"freeze_suites --own_families={MODULE} --family={NAME} --split=validation"
    with pytest.raises(suites.SuiteError, match=rf"suites of validation first \(.*{command}\)$"):
        suites.load(NAME, "id", "validation", folder)
    assert freeze_suites.freeze(config, NAME, "validation", 0, folder, 6), capsys.readouterr().out
    specs = {s: suites.load(NAME, s, "validation", folder) for s in settings.SUITES}
    assert all(len(found) == 6 for found in specs.values())
    with pytest.raises(HeldOutContent, match="held out for validation"):
        refuse_held_out(sample_spec(Catalogue.all(), NAME, "tasks", "validation", 0), Catalogue("train"))
    (folder / f"{NAME}.id.validation.jsonl").unlink()
    with pytest.raises(suites.SuiteError, match=rf"validation again \(.*{command} --new_version\)"):
        suites.load(NAME, "id", "validation", folder)
