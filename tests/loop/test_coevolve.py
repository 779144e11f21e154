"""The whole job at its smallest: real scenes, physics, planner, training and rollouts; stopped and resumed it ends the same."""

import json
import re

import numpy as np
import pytest

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.evaluation.metrics import read_metrics, read_summary
from coda_jax.evaluation.records import read_records
from coda_jax.learning import clone as cloning
from coda_jax.loop import coevolve, demonstrations, parts, seed_scenes, view
from coda_jax.loop.commit import COMMIT, Journal
from coda_jax.runtime import InputError, Stopped
from coda_jax.scenes import generate
from coda_jax.scenes.catalogue import Catalogue


@pytest.fixture(scope="module")
def config():
    config = settings.default()
    config.sim.worlds = 8
    config.demos.count, config.demos.wave = 6, 8
    config.policy.width = 32
    config.clone.steps, config.clone.batch, config.clone.warmup = 40, 32, 5
    config.checkpoint.every = 20
    config.evaluate.scenes, config.evaluate.films = 3, 1
    config.evaluate.suites = ("id", "tasks")
    config.horizon = 90
    return config


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    coevolve.run(config, folder, dry_run=False)
    return folder


def parameters(config, folder):
    state = json.loads((folder / COMMIT).read_text())["state"]
    return coevolve.restore_policy(config, folder, state["demonstrations"]["blocks"])


def test_the_job_leaves_its_results(config, whole):
    summary = read_summary(whole)
    records = read_records(whole)
    assert {(r.suite, r.split) for r in records} == {("id", "validation"), ("tasks", "validation")}
    assert summary.suites["pick_place"]["id"]["after"].n == 3
    assert summary.suites["pick_place"]["tasks"]["after"].k == sum(r.success for r in records if r.suite == "tasks")
    assert all(r.success == (r.phase_failed is None) for r in records)
    assert summary.accepted >= 6 and summary.sim_steps > 6 * 20 * 20
    rows = [r for r in read_metrics(whole / "metrics.jsonl") if r["kind"] == "stage"]
    assert [r["name"] for r in rows] == ["demonstrations", "clone", "evaluate"]
    page = (whole / "report.html").read_text()
    assert records[0].instruction in page and not re.search(r'src="http', page)
    films = [r.film for r in records if r.film]
    assert films and all((whole / f).stat().st_size > 1000 for f in films)


def test_nothing_compiles_for_new_scenes_goals_and_programs(whole):
    assert read_summary(whole).compiles_per_round == [0]


def test_a_stopped_run_ends_the_same_bit_for_bit(config, whole, tmp_path, monkeypatch):
    calls = 0

    def stop_once():
        nonlocal calls
        calls += 1
        if calls == 2:  # in the middle of cloning: after the only block of demonstrations
            raise Stopped("stopped by the test")

    monkeypatch.setattr(cloning, "BLOCK", 10)
    monkeypatch.setattr(runtime, "check_stop", stop_once)
    with pytest.raises(Stopped):
        coevolve.run(config, tmp_path, dry_run=False)
    (tmp_path / "metrics.jsonl").open("ab").write(b'{"kind": "train", "step": 9999}\n')  # work that was never committed
    coevolve.run(config, tmp_path, dry_run=False)
    assert not any(r.get("step") == 9999 for r in read_metrics(tmp_path / "metrics.jsonl"))
    a, b = (np.concatenate([np.ravel(x) for x in _leaves(parameters(config, f))]) for f in (whole, tmp_path))
    np.testing.assert_array_equal(a, b)
    strip = [[(r.scene_id, r.success, r.steps) for r in read_records(f)] for f in (whole, tmp_path)]
    assert strip[0] == strip[1]


def _leaves(tree):
    import jax

    return [np.asarray(x) for x in jax.tree.leaves(tree)]


def test_stored_demonstrations_come_back(config, whole, tmp_path):
    demos = demonstrations.load(whole, 1)
    assert len(demos) == 6
    demonstrations.store(tmp_path, 0, demos)
    again = demonstrations.load(tmp_path, 1)
    for x, y in zip(demos, again, strict=True):
        assert (x.instruction, x.names, x.roles) == (y.instruction, y.names, y.roles)
        np.testing.assert_array_equal(x.actions, y.actions)
        np.testing.assert_array_equal(x.obs["pos"], y.obs["pos"])
        assert np.abs(x.actions).max() <= 1.0


def test_a_damaged_block_is_named(whole, tmp_path):
    (tmp_path / "demonstrations").mkdir()
    (tmp_path / "demonstrations" / "block_0000.npz").write_bytes(b"garbage")
    with pytest.raises(InputError, match="block_0000"):
        demonstrations.load(tmp_path, 1)


def test_a_damaged_commit_is_named(tmp_path):
    (tmp_path / COMMIT).write_text("{")
    with pytest.raises(InputError, match="commit.json is damaged"):
        Journal(tmp_path)


def test_seed_scenes_refuse_held_out_content(config, monkeypatch):
    import collections

    from coda_jax.programs.sandbox import Sandbox

    text = generate.sample(Catalogue.all(), "pick_place", "categories", "test", 0)
    monkeypatch.setattr(generate, "sample", lambda *_: text)
    rejected = collections.Counter()
    with Sandbox(parts.limits_of(config)) as sandbox:
        assert seed_scenes.seed_scenes("pick_place", range(2), sandbox, parts.validity_of(config), rejected) == []
    assert sum(rejected.values()) == 2


def test_view_draws_a_scene(config, tmp_path, capsys):
    path = view.run(config, None, "layouts", 1, tmp_path / "scene.png")
    assert path.stat().st_size > 2000
    assert "invalid" not in capsys.readouterr().out
    with pytest.raises(InputError, match="has scenes 0 to"):
        view.run(config, None, "layouts", 999, None)


def test_dry_run_starts_nothing(config, tmp_path, capsys):
    coevolve.run(config, tmp_path, dry_run=True)
    assert "demonstrations   6" in capsys.readouterr().out
    assert not any(tmp_path.iterdir())
