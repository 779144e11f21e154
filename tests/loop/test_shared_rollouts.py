"""Episodes whose two prompts agree: run once, counted for both, and what would have been rolled out again is the same to the last bit."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from coda_jax import config as settings
from coda_jax.evaluation.libero import records
from coda_jax.evaluation.libero.pairs import pairs
from coda_jax.loop import evaluation, parts
from coda_jax.loop.shared_rollouts import rollout_key, twin
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.libero import families

FAMILY, STEPS = "libero_goal", 8


def test_both_sources_of_prompts_have_the_same_noise_and_no_other_suites_do():
    names = settings.SUITES + settings.LIBERO_SUITES
    keys = {name: tuple(np.asarray(jax.random.key_data(rollout_key(3, name))).tolist()) for name in names}
    assert all(keys[name] == keys[twin(name)] for name in settings.LIBERO_SUITES)
    assert len(set(keys.values())) == len(settings.SUITES) + 3
    assert twin("pos") == "pos_by_name" and twin("pos_by_name") == "pos"


@pytest.fixture
def registered():
    families.add()
    yield
    families.remove()


@pytest.mark.libero
@pytest.mark.slow
def test_a_scene_with_one_wording_is_rolled_out_once_and_counts_for_both(tmp_path, monkeypatch, registered):
    config = settings.default()
    config.family, config.horizon[FAMILY], config.sim.worlds = FAMILY, STEPS, 4
    config.evaluate.update({"suites": ("standard", "standard_by_name"), "split": "test", "scenes": 10, "films": 0})
    params = parts.policy_of(config).init(jax.random.key(0))
    ended: dict[str, list] = {}
    plain = evaluation.rollout

    def watched(*arguments, **named):
        for result in plain(*arguments, **named):
            ended[where].append(result)
            yield result

    monkeypatch.setattr(evaluation, "rollout", watched)

    def run(folder, skip=()):
        ended[where] = []
        outcomes: dict[str, evaluation.SuiteOutcome] = {}
        evaluation.each_suite(
            config, folder, skip, params, parts.encoder_of(), Catalogue.all(), lambda o: outcomes.update({o.suite: o}), moment="before"
        )
        return outcomes

    where = "both"
    both = run(tmp_path / "both")
    asked, named = both["standard"], both["standard_by_name"]
    assert (asked.shared, named.shared) == (0, 5) and len(ended["both"]) == 15  # five of the ten tasks have one wording
    assert named.sim_steps < asked.sim_steps and "5 of them as in standard" in evaluation.describe(named)
    assert [r.suite for r in named.records] == ["standard_by_name"] * 10

    where = "alone"
    config.evaluate.suites = ("standard_by_name",)
    alone = run(tmp_path / "alone")["standard_by_name"]
    assert alone.shared == 0 and alone.records == named.records
    first = {r.episode.spec.scene_id: r for r in ended["both"][:10]}
    same = [(first[r.episode.spec.scene_id], r) for r in ended["alone"] if r.episode.spec.scene_id in first]
    assert len(same) == 5
    for one, again in same:
        assert np.array_equal(one.qpos, again.qpos) and np.array_equal(one.actions, again.actions)

    where = "resumed"  # the other way round, by a process that finds one suite done
    config.evaluate.suites = ("standard", "standard_by_name")
    resumed = run(tmp_path / "alone", skip=("standard_by_name",))["standard"]
    assert resumed.shared == 5 and resumed.records == asked.records

    files = [records.read(tmp_path / "both" / "libero" / f"before_{suite}.jsonl") for suite in config.evaluate.suites]
    assert [sum(e.prompt_source == "both" for e in file) for file in files] == [5, 5]
    assert [e for e in files[0] if e.prompt_source == "both"] == [e for e in files[1] if e.prompt_source == "both"]
    assert [(p.source, p.n, p.same_steps) for p in pairs(*files)] == [("bddl", 5, 5), ("filename", 5, 5)]
