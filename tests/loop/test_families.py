"""One policy for several families: scenes in turn, demonstrations, suites and figures of each; rounds keep their modes apart."""

from __future__ import annotations

import importlib.util
import re
import zlib
from collections import Counter
from pathlib import Path

import pytest

from coda_jax import config as settings
from coda_jax.evaluation import freeze_suites
from coda_jax.evaluation.metrics import read_metrics, read_summary
from coda_jax.loop import coevolve, own_families, parts, seed_scenes
from coda_jax.loop.journal import read_commits
from coda_jax.memory.rows import Mode
from coda_jax.memory.store import FILE, Memory
from coda_jax.runtime import InputError
from coda_jax.scenes import fingerprint, suites
from tests.loop.small import small_config

FAMILIES = ("put_inside", "stack_insert")


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    """A handful of scenes of every suite of both families."""
    folder, config = tmp_path_factory.mktemp("suites"), settings.default()
    config.sim.worlds = 4
    for family in FAMILIES:
        for suite in ("id", "tasks"):
            found = freeze_suites.select(suites.suite_specs(family, suite, "validation"), 2, parts.validity_of(config))
            suites.write(folder, family, suite, "validation", found.specs)
    return folder


@pytest.fixture
def own_suites(frozen, monkeypatch):
    caches = suites._frozen_in_package, fingerprint._package_index
    for cached in caches:
        cached.cache_clear()
    monkeypatch.setattr(suites, "_package_data", lambda: frozen)
    yield
    for cached in caches:
        cached.cache_clear()


def test_several_families_share_a_policy(own_suites, tmp_path):
    config = small_config()
    config.family = ",".join(FAMILIES)
    coevolve.run(config, tmp_path, dry_run=False)
    summary = read_summary(tmp_path)
    assert set(summary.suites) == set(FAMILIES)
    assert all(by_suite[suite]["after"].n == 2 for by_suite in summary.suites.values() for suite in ("id", "tasks"))
    drawn = Counter(s.spec.task.family for s in seed_scenes.load(tmp_path, read_commits(tmp_path)[-1]))
    assert set(drawn) == set(FAMILIES) and abs(drawn[FAMILIES[0]] - drawn[FAMILIES[1]]) <= 2
    solved = {r["category"].split()[0] for r in read_metrics(tmp_path / "metrics.jsonl") if r["kind"] == "planner"}
    assert solved <= set(FAMILIES) and solved
    page = (tmp_path / "report.html").read_text()
    assert all(f"<h3>{family}</h3>" in page for family in FAMILIES)


@pytest.mark.slow
def test_rounds_keep_modes_of_families_apart(own_suites, tmp_path):
    path = Path(__file__).parents[2] / "experiments" / "nano.py"
    spec = importlib.util.spec_from_file_location("nano", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    config = module.get_config()
    config.family, config.rounds.count = ",".join(FAMILIES), 1
    config.evaluate.suites, config.evaluate.scenes = ("id",), 2
    coevolve.run(config, tmp_path, dry_run=False)
    with Memory.open(tmp_path / FILE) as memory:
        modes = memory.rows(Mode, "")
    assert modes and {m.family for m in modes} <= set(FAMILIES)
    assert read_summary(tmp_path).rounds == 1


def test_families_are_checked():
    config = settings.default()
    for value, message in (("put_insid", 'did you mean "put_inside"'), ("put_inside,put_inside", "name each family once")):
        config.family = value
        with pytest.raises(InputError, match=message):
            settings.validate(config)
    config.family, config.own_families = "mine", "no_such_module_of_mine"
    settings.validate(config)
    with pytest.raises(InputError, match="no_such_module_of_mine cannot be imported"):
        own_families.add(config)
    config.own_families = "json"
    with pytest.raises(InputError, match='"mine", which no module registers'):
        own_families.add(config)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def broken(:", "SyntaxError"),
        ("raise KeyError('boo')", "KeyError: 'boo'"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("from coda_jax.scenes.families import register\nregister(3)", "3 is no family"),
    ],
)
def test_a_module_that_fails_is_bad_input(tmp_path, monkeypatch, text, says):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"tasks_{zlib.crc32(text.encode())}"  # a module is imported once
    (tmp_path / f"{name}.py").write_text(text)
    config = settings.default()
    config.own_families = name
    with pytest.raises(InputError, match=f"{name} fails when it is imported .*{re.escape(says)}"):
        own_families.add(config)
    config.own_families = "..tasks"
    with pytest.raises(InputError, match="fails when it is imported"):
        own_families.add(config)
