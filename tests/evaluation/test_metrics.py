"""metrics.jsonl, summary.json, evaluation records: schema, atomicity, resume."""

import json
import os
from typing import Any

import numpy as np
import pytest

from coda_jax.evaluation import metrics, records
from coda_jax.evaluation.metrics import MetricsWriter, Summary, Tally
from coda_jax.runtime import InputError


def summary(**changes):
    fields: dict[str, Any] = {
        "seed": 1,
        "wall_s": 2.5,
        "accepted": 3,
        "rejected": {"penetration": 2},
        "compiles_per_round": [4, 0],
        "sim_steps": 9,
        "suites": {"pick_place": {"id": {"after": Tally(3, 4)}}},
    }
    return Summary(**(fields | changes))


def test_writer_commits_and_resumes(tmp_path):
    path = tmp_path / "m.jsonl"
    with MetricsWriter(path, 0) as writer:
        writer.write("train", step=np.int64(1), loss=np.float32(0.5), curve=np.arange(2))
        committed = writer.commit()
        assert committed == os.path.getsize(path)
        writer.write("train", step=2, loss=float("nan"))
    assert [r["step"] for r in metrics.read_metrics(path)] == [1, 2]
    assert metrics.read_metrics(path)[1]["loss"] is None
    with MetricsWriter(path, committed) as writer:  # the row after the commit is orphaned work
        writer.write("train", step=3)
        assert writer.commit() == os.path.getsize(path)
    assert [r["step"] for r in metrics.read_metrics(path)] == [1, 3]
    assert metrics.read_metrics(path)[0] == {"kind": "train", "step": 1, "loss": 0.5, "curve": [0, 1]}
    with pytest.raises(ValueError, match="the last commit names 9999"):
        MetricsWriter(path, 9999)


def test_half_written_line_is_left_out_and_a_broken_one_named(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"kind": "a"}\n{"kind": "b')
    assert metrics.read_metrics(path) == [{"kind": "a"}]
    path.write_bytes(b'{"kind": "a"}\n{oops\n{"kind": "c"}\n')
    with pytest.raises(ValueError, match=r"m.jsonl:2 is not JSON"):
        metrics.read_metrics(path)


def test_summary_round_trip_in_the_documented_shape(tmp_path):
    path = metrics.write_summary(tmp_path, summary())
    raw = json.loads(path.read_text())
    assert raw["suites"]["pick_place"]["id"]["after"] == {"k": 3, "n": 4}
    assert raw["rejected"] == {"penetration": 2} and raw["compiles_per_round"] == [4, 0]
    assert metrics.read_summary(tmp_path) == summary()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("wall_s", float("inf"), "wall_s"),
        ("accepted", -1, "accepted"),
        ("rejected", {"reason": 1.5}, "reason"),
        ("suites", {"pick_place": {"id": {"during": {"k": 1, "n": 2}}}}, "during"),
        ("suites", {"pick_place": {"id": {"after": {"k": 3, "n": 2}}}}, "suites.pick_place.id.after"),
    ],
)
def test_summary_schema_refuses(tmp_path, field, value, message):
    with pytest.raises(ValueError, match=message):
        summary(**{field: value})
    raw = json.loads(metrics.write_summary(tmp_path, summary()).read_text())
    (tmp_path / metrics.SUMMARY).write_text(json.dumps(raw | {field: value}))
    with pytest.raises(ValueError, match="schema"):
        metrics.read_summary(tmp_path)


def test_a_tally_holds_k_within_n():
    with pytest.raises(ValueError, match="k must lie in 0..n"):
        Tally(3, 2)


def test_missing_summary_says_what_to_run(tmp_path):
    with pytest.raises(ValueError, match="--mode=run"):
        metrics.read_summary(tmp_path)


def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    metrics.atomic_write(path, b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError):
        metrics.atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x.json"]


def record(**changes):
    fields: dict[str, Any] = {
        "family": "pick_place",
        "suite": "id",
        "split": "validation",
        "moment": "after",
        "scene_id": "ab",
        "seed": 0,
        "success": True,
        "steps": 40,
        "phase_failed": None,
        "instruction": "put it\u2028there",
    }
    return records.EvalRecord(**(fields | changes))


def test_records_round_trip_replace_and_tally(tmp_path):
    first = [record(moment="before", success=False, phase_failed="grasp"), record(), record(suite="tasks", success=False)]
    records.write_records(tmp_path, first)
    records.write_records(tmp_path, [record(scene_id="cd"), record(scene_id="ef", success=False)])
    got = records.read_records(tmp_path)
    assert [(r.suite, r.moment, r.scene_id) for r in got] == [
        ("id", "before", "ab"),
        ("id", "after", "cd"),
        ("id", "after", "ef"),
        ("tasks", "after", "ab"),
    ]
    assert got[1].instruction == "put it\u2028there"
    expected = {"pick_place": {"id": {"before": Tally(0, 1), "after": Tally(1, 2)}, "tasks": {"after": Tally(0, 1)}}}
    assert records.tally(got, "validation") == expected
    assert records.tally(got, "test") == {}
    flagged = [record(), record(scene_id="cd", success=False, phase_failed="grasp", health=1)]  # counts as a failure
    assert records.tally(flagged, "validation") == {"pick_place": {"id": {"after": Tally(1, 2)}}}


def test_record_schema(tmp_path):
    with pytest.raises(ValueError, match="suite"):
        record(suite="../evil")
    path = tmp_path / records.records_name("id", "after")
    path.parent.mkdir()
    path.write_text('{"family": 3}\n')
    with pytest.raises(ValueError, match=r"eval_after_id.jsonl:1 is not an evaluation record"):
        records.read_records(tmp_path)


def test_the_log_is_never_a_link_or_a_pipe(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("x")
    (tmp_path / "link.jsonl").symlink_to(precious)
    os.mkfifo(tmp_path / "pipe.jsonl")
    for name in ("link.jsonl", "pipe.jsonl"):
        with pytest.raises(InputError, match="no plain file"):
            MetricsWriter(tmp_path / name, 0)
    assert precious.read_text() == "x"


def test_a_blanked_line_is_passed_over(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"kind": "a"}\n' + " " * 13 + '\n{"kind": "c"}\n')
    assert [r["kind"] for r in metrics.read_metrics(path)] == ["a", "c"]
    path.write_text("[" * 100_000 + "\n")
    with pytest.raises(InputError, match="m.jsonl:1 is not JSON"):
        metrics.read_metrics(path)


def test_records_of_a_moment_have_a_file_of_their_own(tmp_path):
    records.write_records(tmp_path, [record(moment="before")])
    before = (tmp_path / records.records_name("id", "before")).read_bytes()
    records.write_records(tmp_path, [record(moment="after")])
    assert (tmp_path / records.records_name("id", "before")).read_bytes() == before
    (tmp_path / "episodes" / "eval_notes.jsonl").write_text("not ours")
    assert [r.moment for r in records.read_records(tmp_path)] == ["before", "after"]
