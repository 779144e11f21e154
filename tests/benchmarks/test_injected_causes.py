"""A diagnoser that sees what happens, one that always says the same, chance, and the scripted one, on failures with a known cause."""

import json
from pathlib import Path

import pytest

from benchmarks.injected_bench import Bench, diagnose_case, read
from benchmarks.injected_tables import confusion, records, right, side_by_side, tables
from coda_jax.agents.llm.chat import Reply
from coda_jax.agents.llm.diagnoser import LlmDiagnoser, LlmDiagnoserSettings
from coda_jax.agents.llm.tally import Tally
from coda_jax.agents.scripted.random_diagnoser import RandomDiagnoser
from coda_jax.loop import parts
from coda_jax.loop.footage import Footage
from tests.agents.llm.watched import Says
from tests.benchmarks.open_loop import open_loop

ANSWERS = json.loads((Path(__file__).parent / "injected_answers.json").read_text("utf-8"))
TRUTH = {"mass": "ATTRIBUTE", "support_height": "SPATIAL", "goal_swap": "TASK", "reach": "SPATIAL"}
STUBBORN = {"seen": "", "factor": "ATTRIBUTE", "phase": "release", "cause": "target_mass_kg:high", "steps": [1], "confidence": 1.0}


class Strong:
    """A Chat with an answer for each case, written by hand after watching its failures."""

    def __init__(self):
        self.case = ""

    def ask(self, requests):
        return [Reply(json.dumps(ANSWERS[self.case] | {"objects": []}), (), (10, 10)) for _ in requests]


class Stubborn(Says):
    def ask(self, requests):
        return [Reply(json.dumps(STUBBORN | {"objects": []}), (), (10, 10)) for _ in requests]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    policy, tally, strong = open_loop(), Tally(), Strong()
    scripted = parts.scripted_diagnoser(policy.config)
    settings = LlmDiagnoserSettings(frames=2, rows=6, pictures=True, answer_tokens=300, seed=0)
    watch = Footage(policy.config, policy.run.everything, policy.run.train)

    def asking(chat):
        return LlmDiagnoser(chat, settings, tally, scripted, watch)

    who = {"strong": asking(strong), "stubborn": asking(Stubborn()), "random": RandomDiagnoser(0), "scripted": scripted}
    folder = tmp_path_factory.mktemp("injected")
    bench = Bench(policy.run, policy, policy.bases, folder, who, policy.unedited())
    for strong.case in TRUTH:
        diagnose_case(bench, strong.case, 3)
    before = (folder / "results.jsonl").read_bytes()
    for strong.case in TRUTH:  # a second start has nothing to do
        diagnose_case(bench, strong.case, 3)
    assert (folder / "results.jsonl").read_bytes() == before
    assert tally.counts["diagnoser"] == {"answered": 16, "accepted": 16}
    return read(folder)


def test_the_table_tells_them_apart(rows):
    found = {name: right(rows, TRUTH_CASES, name) for name in ("strong", "stubborn", "random", "scripted")}
    assert all(r.n == 8 for r in found.values())
    assert found["strong"].k == 8 and found["stubborn"].k == 2  # the heavy things
    assert found["stubborn"].interval.high < found["strong"].interval.low
    assert found["random"].interval.high < found["strong"].interval.low
    assert found["scripted"].k >= 5  # a policy without noise leaves it no doubt


TRUTH_CASES = {case: {truth: ()} for case, truth in TRUTH.items()}


def test_confusion_is_told_case_by_case(rows):
    lines = confusion(rows, TRUTH_CASES, "stubborn")
    assert lines[0].startswith("| case | truth | success | TASK | SPATIAL | ATTRIBUTE | EXECUTION |") and len(lines) == 2 + len(TRUTH)
    assert next(line for line in lines if line.startswith("| goal_swap")).endswith("| 0 | 0 | 2 | 0 | 0/2 |")
    text = tables(rows, TRUTH_CASES)
    assert all(f"{name}:\n" in text for name in ("strong", "stubborn", "random", "scripted"))
    assert side_by_side(rows, TRUTH_CASES)[2].startswith("| strong | 8/8, 100 % |")
    by_name = {r["name"]: r for r in records(rows, TRUTH_CASES)}
    assert by_name["injected_causes_strong"]["value"] == 1.0 and json.dumps(by_name)
    assert by_name["injected_causes_stubborn"]["blamed"]["reach"] == {"ATTRIBUTE": 2}


def test_what_was_not_hard_does_not_count():
    rows = [{"kind": "case", "case": c, "k": k, "n": 10} for c, k in (("none", 8), ("hard", 2), ("easy", 7))]
    rows += [{"kind": "diagnosis", "case": c, "diagnoser": "x", "factor": "TASK", "truth": ["TASK"]} for c in ("hard", "easy")]
    cases = {"hard": {"TASK": ()}, "easy": {"TASK": ()}, "none": {}}
    assert right(rows, cases, "x")[:2] == (1, 1)
    assert "not hard" in confusion(rows, cases, "x")[3]
