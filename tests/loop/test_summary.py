"""What a run's summary says of its modes, round by round."""

import dataclasses

from coda_jax.evaluation.metrics import Calibration
from coda_jax.loop.summary import calibrations, modes_of_round
from coda_jax.memory.rows import Mode
from coda_jax.memory.store import FILE, Memory
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
