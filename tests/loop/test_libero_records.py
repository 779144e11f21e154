"""Evaluation rollouts as records of the official format."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from coda_jax import config as settings
from coda_jax.doors.server import PolicyServer, ServeSettings
from coda_jax.evaluation.libero import records
from coda_jax.evaluation.libero.pairs import pairs
from coda_jax.evaluation.libero.totals import totals
from coda_jax.evaluation.metrics import Moment, Summary, write_summary
from coda_jax.evaluation.records import EvalRecord, tally, write_records
from coda_jax.evaluation.report import write_report
from coda_jax.learning.policies.remote import RemotePolicy, RemoteSettings
from coda_jax.loop import evaluation, libero_records
from coda_jax.scenes.libero import families, importing, tasks
from coda_jax.scenes.suites import load
from coda_jax.types import HEALTH_NAN

FAMILY = "libero_goal"


@pytest.fixture(scope="module", autouse=True)
def registered():
    families.add()
    yield
    families.remove()


def record(suite, scene_id, success, steps, moment: Any = "after", seed=0, health=0, split: Any = "test"):
    return EvalRecord(FAMILY, suite, split, moment, scene_id, seed, success, steps, None if success else "grasp", "words", health)


def test_who_acted_is_told_by_every_parameter():
    params = {"a": np.arange(3.0), "b": np.ones(2, np.int32)}
    assert libero_records.fingerprint(params) == libero_records.fingerprint({"a": np.arange(3.0), "b": np.ones(2, np.int32)})
    assert libero_records.fingerprint(params) != libero_records.fingerprint({**params, "b": np.zeros(2, np.int32)})
    assert libero_records.fingerprint(params) != libero_records.fingerprint(params, {"c": np.ones(1)})
    assert libero_records.fingerprint(params) != libero_records.fingerprint(params, settings="argmax")


def test_a_policy_behind_a_server_is_told_by_what_the_server_says():
    def who(size: int) -> str:
        said = {"server": "made up", "size": size}
        with (
            PolicyServer(lambda message: {}, said, ServeSettings("127.0.0.1", 0, 8, 16.0)) as server,
            RemotePolicy(RemoteSettings(f"ws://127.0.0.1:{server.port}", 5.0, 0, 1)) as policy,
        ):
            return evaluation._who(None, None, policy)

    assert who(1) == who(1) != who(2)


@pytest.mark.libero
def test_rollouts_become_records_that_are_added_up_and_paired(tmp_path):
    config = settings.default()
    config.family, config.evaluate.suites, config.evaluate.split = FAMILY, ("task", "task_by_name"), "test"
    who = libero_records.fingerprint(np.zeros(3))
    moments: dict[Moment, int] = {"before": 1, "after": 3}
    for moment, good in moments.items():
        for suite in config.evaluate.suites:
            specs = load(FAMILY, suite, "test")[:6]
            done = [record(suite, s.scene_id, i < good, 40 if i < good else 300, moment) for i, s in enumerate(specs)]
            done[5] = record(suite, specs[5].scene_id, False, 12, moment, health=HEALTH_NAN)
            done.append(record(suite, specs[0].scene_id, False, 300, moment, seed=1))  # a second rollout of a scene counts here only once
            path = libero_records.write(tmp_path, config, suite, moment, specs, done, who)
            assert path == tmp_path / "libero" / f"{moment}_{suite}.jsonl"
    read = records.read(tmp_path / "libero" / "after_task.jsonl")
    (total,) = [t for t in totals(read) if t.source == "bddl"]
    assert (total.group, total.k, total.n, total.errors) == ("libero_goal_task", 3, 5, 1)
    one, spec = read[0], load(FAMILY, "task", "test")[0]
    assert (one.prompt, one.step_limit, one.replan_steps, one.decisions) == (spec.task.instruction, 300, config.evaluate.executed, 10)
    assert set(one.fixtures) == {"wooden_cabinet_1", "flat_stove_1", "wine_rack_1"} and one.fixtures["flat_stove_1"][2] == pytest.approx(
        0.905
    )
    task = tasks.task(spec.spatial.layout)
    again = importing.initial_scene(task, one.init_index, one.fixture_seed or 0)
    assert libero_records.episode(config, "task", again, done[0], who).fixtures == one.fixtures
    assert {e.prompt_source for e in records.read(tmp_path / "libero" / "after_task_by_name.jsonl")} <= {"filename", "both"}
    (pair,) = [p for p in pairs(records.read(tmp_path / "libero" / "before_task.jsonl"), read) if p.source == "bddl"]
    assert (pair.n, pair.first, pair.second, pair.errors) == (5, 1, 3, 1)
    fresh = load(FAMILY, "task", "validation")[:2]  # places of our own: the official runner has none to compare with
    rows = [record("task", s.scene_id, True, 40, split="validation") for s in fresh]
    assert libero_records.write(tmp_path, config, "task", "after", fresh, rows, who) is None


@pytest.mark.libero
def test_rollouts_among_few_primitives_are_never_added_to_others():
    config = settings.default()
    config.family, config.evaluate.suites = FAMILY, ("task",)
    spec = load(FAMILY, "task", "test")[0]
    who, done = libero_records.fingerprint(np.zeros(3)), record("task", spec.scene_id, True, 40)
    native = libero_records.episode(config, "task", spec, done, who)
    config.sim.backend = "mjx"
    few = libero_records.episode(config, "task", spec, done, who)
    assert (native.stack, few.stack) == ("native", "mjx")
    with pytest.raises(ValueError, match="stack"):
        totals([native, few])


@pytest.mark.parametrize(
    ("config", "said", "unsaid"),
    [
        ({}, ["no pictures"], ["few primitives", "two cameras"]),
        ({"obs": "state", "sim": {"backend": "mjx"}}, ["no pictures", "few primitives"], ["two cameras"]),
        ({"obs": "pixels", "sim": {"backend": "auto"}}, ["pictures of two cameras"], ["few primitives"]),
        ({"obs": None, "sim": 3}, ["no pictures"], ["few primitives"]),
    ],
)
def test_the_report_says_what_the_policy_saw_and_what_it_moved(tmp_path, config, said, unsaid):
    (tmp_path / "episodes").mkdir()
    (tmp_path / "config.json").write_text(json.dumps({"config": config}))
    done = [record("pos", f"{i:016x}", i < 2, 40) for i in range(4)]
    write_records(tmp_path, done)
    write_summary(tmp_path, Summary(0, 1.0, 1, {}, [0], 1, tally(done, "test"), rounds=0))
    page = write_report(tmp_path).read_text("utf-8")
    note = page[page.index("This policy sees") :]
    note = note[: note.index("</p>")]
    assert all(words in note for words in said) and not any(words in note for words in unsaid)


def test_the_report_has_both_wordings_beside_the_papers_table(tmp_path):
    done = [record(suite, f"{i:016x}", i < k, 40, moment) for suite, moment, k in (
        ("pos", "before", 1), ("pos", "after", 3), ("task", "after", 2), ("task_by_name", "after", 1), ("standard", "after", 4),
    ) for i in range(4)]  # fmt: skip
    (tmp_path / "episodes").mkdir()
    write_records(tmp_path, done)
    summary = Summary(
        seed=0, wall_s=1.0, accepted=1, rejected={}, compiles_per_round=[0], sim_steps=1, suites=tally(done, "test"), rounds=1
    )
    write_summary(tmp_path, summary)
    page = write_report(tmp_path).read_text("utf-8")
    text = page[page.index("LIBERO-Pro") :]
    assert "no pictures" in text and "pi0.5" in text and "are not the same experiment" in text
    row = text[text.index("Pos: exchanged places") :]
    row = row[: row.index("</tr>")]
    assert [part in row for part in ("task file", "1/4", "3/4", "25 %", "82 %", "84 %")] == [True] * 6
    named = text[text.index("file name") :]
    assert "1/4" in named[: named.index("</tr>")] and "72 %" not in named[: named.index("</tr>")]
    order = [text.index(f">{name}") for name in ("standard LIBERO", "Pos: exchanged", "Task: other")]
    assert order == sorted(order)
