"""The table of who diagnoses."""

import json

from coda_jax.evaluation.diagnosers import HEADER, arm_of, read_agreement, rows
from coda_jax.evaluation.metrics import Moment, Summary, Tally


def summary(after: int, verdicts=None, agents=None) -> Summary:
    both: dict[Moment, Tally] = {"before": Tally(5, 10), "after": Tally(after, 10)}
    suites = {"pick_place": {s: dict(both) for s in ("layouts", "tasks")}}
        "pick_place": {s: {"before": Tally(5, 10), "after": Tally(after, 10)} for s in ("layouts", "tasks")}
    }
    suites["pick_place"]["id"] = {"after": Tally(9, 10)}
    return Summary(0, 1.0, 0, {}, [0], 0, suites, diagnoses=verdicts or {}, agents=agents or {})


def test_a_row_a_run_and_a_mean_of_seeds():
    said = {"shares": {"all diagnoses": {"both": {"k": 14, "n": 19}}, "refuted ones removed": {"both": {"k": 8, "n": 10}}}}
    arms = [
        arm_of("s0", "scripted", summary(6, {"confirmed": 3, "refuted": 1}), said),
        arm_of("l0", "llm", summary(7, {}, {"diagnoser": {"answered": 9, "fallback": 2}}), None),
        arm_of("s1", "scripted", summary(8, {"refuted": 1}), said),
    ]
    first, second, mean, model = found = rows(arms)
    assert all(len(row) == len(HEADER) for row in found)
    rates = ("9/10, 90.0 % (60 .. 98)", "12/20, 60.0 % (39 .. 78)", "+10.0", "1/4, 25.0 % (5 .. 70)")
    assert first == ("s0", "scripted", *rates, "73.7 %", "80.0 %", "-")
    assert second[:2] == ("s1", "scripted") and model[0] == "l0" and model[5:] == ("-", "-", "-", "2")
    means = ("90.0 +- 0.0 %", "70.0 +- 10.0 %", "+20.0 +- 10.0 %", "62.5 +- 37.5 %", "73.7 +- 0.0 %", "80.0 +- 0.0 %")
    assert mean == ("mean of 2", "scripted", *means, "")


def test_agreement_that_cannot_be_used_is_none(tmp_path):
    for text in ("", "[]", "{", '{"shares": 3}', json.dumps({"shares": {"all diagnoses": {"both": {"k": 0, "n": 0}}}})):
        path = tmp_path / "agreement.json"
        path.write_text(text, "utf-8")
        found = read_agreement(path)
        assert arm_of("x", "scripted", summary(5), found).agreement is None
    assert read_agreement(tmp_path / "none.json") is None
