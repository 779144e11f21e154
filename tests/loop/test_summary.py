"""What a run's summary says of its modes, round by round, and of the sandbox."""

import dataclasses

import pytest

from coda_jax.evaluation.metrics import Calibration, Coverage, Verification, read_summary, write_summary
from coda_jax.evaluation.report import write_report
from coda_jax.loop.run import opened
from coda_jax.loop.summary import calibrations, coverage_of, modes_of_round, summary_of, verification_of
from coda_jax.memory.rows import Mode
from coda_jax.memory.store import FILE, Memory
from coda_jax.programs import sandbox
from tests.loop.small import small_config
from tests.memory import made


def test_a_mode_is_removed_in_one_round_whatever_is_measured_later(tmp_path):
    first = made.mode("gap to neighbour low", version=1, round=1, status="new")
    back = made.mode("turn of target high", version=1, round=1, status="new")

    def later(mode: Mode, version: int, round_number: int, **changes) -> Mode:
        return dataclasses.replace(mode, version=version, round=round_number, **changes)

    versions = [
        later(first, 2, 2, status="removed"),
        later(back, 2, 2, status="removed"),
        later(first, 3, 3, status="removed", severity=0.5),  # replayed
        later(back, 3, 3, status="kept"),  # diagnosed again
        later(back, 4, 3, status="removed"),  # and refuted again
        later(back, 5, 4, status="kept"),
    ]
    with Memory.open(tmp_path / FILE) as memory:
        with memory.transaction() as t:
            for row in (first, back, *versions):
                t.add(row)
            t.commit("r4.after1", 0, "{}")
        found = [modes_of_round(memory, number) for number in range(1, 5)]
    assert found == [
        {"new": 2, "kept": 0, "removed": 0},
        {"new": 0, "kept": 0, "removed": 2},
        {"new": 0, "kept": 0, "removed": 1},
        {"new": 0, "kept": 1, "removed": 0},
    ]


def test_the_critic_of_finished_rounds_only():
    def row(at: int, error: float | None) -> dict:
        return {"kind": "critic", "round": at, "decisions": 10 * at, "calibration_error": error, "rows": 99}

    rows = [row(2, None), row(1, 0.25), {"kind": "train", "name": "critic", "step": 5}, row(3, 0.5)]
    assert calibrations(rows, 2) == [Calibration(1, 10, 0.25), Calibration(2, 20, None)]


def _checks(proposed: int, first: int, valid: int, traces: bool = True) -> dict:
    return {"proposed": proposed, "first": first, "valid": valid, "traces": traces}


def test_verification_adds_the_stages_of_a_round():
    rows = [
        {"kind": "collect", "round": 1, "edited_k": 3, "edited_n": 10},  # drawn at random in every strategy
        {"kind": "construction", "stage": "propose", "round": 1, "checks": _checks(20, 20, 20)},
        {"kind": "environments", "round": 1, "checks": _checks(99, 0, 0)},  # begun again, so the later row counts
        {"kind": "environments", "round": 1, "checks": _checks(10, 5, 7)},
        {"kind": "construction", "stage": "propose", "round": 2, "checks": _checks(4, 4, 4, traces=False)},
        {"kind": "train", "name": "policy", "step": 3},
    ]
    assert verification_of(rows, 1) == Verification(30, 25, 27, True)
    assert verification_of(rows, 2) == Verification(4, 4, 4, False)
    assert verification_of(rows, 3) == Verification(0, 0, 0, False)


def test_coverage_of_rounds_and_run():
    rows = [
        {"kind": "environments", "round": 1, "edits": [[["mass", 0.1]], [["yaw", 0.1]], []]},
        {"kind": "environments", "round": 2, "edits": [[["mass", 0.9]], [["yaw", 0.9]]]},
        {"kind": "environments", "round": 3},  # of a run before edits were told
    ]
    assert coverage_of(rows, [1]) == coverage_of(rows, [2]) == Coverage(2, 1.0)
    assert coverage_of(rows, range(1, 4)) == Coverage(4, 2.0)
    assert coverage_of(rows, [3]) == Coverage(0, None)


@pytest.mark.parametrize(("proposed", "first", "valid"), [(10, 9, 8), (5, 5, 6)])
def test_a_verification_is_in_order(proposed, first, valid):
    with pytest.raises(ValueError, match="each lies within the next"):
        Verification(proposed, first, valid, True)


def test_layers_that_the_sandbox_did_without_in_any_process_are_told(tmp_path, monkeypatch):
    config = small_config()
    told = []
    for settled in (("seccomp,landlock", None), None, ("", None), ("seccomp", None)):
        monkeypatch.setattr(sandbox, "_settled", settled)
        with opened(config, tmp_path) as job:
            job.charge("scenes")
            job.commit()
            told.append(summary_of(job, []).sandbox_without)
            write_summary(job.folder, summary_of(job, []))
    assert told == [["landlock", "seccomp"]] * 4
    assert "left out: landlock, seccomp." in write_report(tmp_path).read_text()


def test_a_confined_sandbox_is_no_news(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "_settled", ("", None))
    with opened(small_config(), tmp_path) as job:
        job.charge("scenes")
        job.commit()
        write_summary(job.folder, summary_of(job, []))
    assert read_summary(tmp_path).sandbox_without == [] and "left out:" not in write_report(tmp_path).read_text()
