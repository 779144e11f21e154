"""The report's section on the language model: its numbers, and hostile names that stay text."""

import json
import re

from coda_jax.evaluation import metrics
from coda_jax.evaluation.metrics import MetricsWriter, Summary
from coda_jax.evaluation.report import write_report
from tests.evaluation.pages import HOSTILE, Page

QUESTIONS = {"engine.write": {"answered": 30, "schema": 4, "deadline": 5, "budget": 1}, HOSTILE: {"truncated": 2, HOSTILE: 3}}
AGENTS = {
    "engine.write": {"answered": 30, "schema": 4, "accepted": 12, "rejected:syntax": 11, "rejected:invalid_scene": 7, "fallback": 9},
    HOSTILE: {HOSTILE: 6, "fallback": 1},
}


def _page(folder, config: dict | None = None, ledger: dict | None = None, **changes) -> Page:
    fields = {"tokens": 1500, "tokens_in": 1200, "tokens_out": 300, "tokens_estimated": 2, "questions": QUESTIONS, "agents": AGENTS}
    metrics.write_summary(folder, Summary(0, 60.0, 8, {}, [0], 100, {}, **(fields | changes)))
    with MetricsWriter(folder / metrics.METRICS, 0) as writer:
        writer.write("language_model", stage="r1.propose", purpose="engine.write", tokens_in=700, tokens_out=200, outcomes={}, counts={})
        writer.write("language_model", stage="r1.propose", purpose="diagnoser", tokens_in=50, tokens_out=50, outcomes={}, counts={})
        writer.write("language_model", stage=HOSTILE, purpose=HOSTILE, tokens_in="x", tokens_out=-5)
        writer.write("language_model")
        writer.commit()
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    if ledger is not None:
        (folder / "ledger.json").write_text(json.dumps(ledger))
    page = Page()
    page.source = write_report(folder).read_text("utf-8")
    page.feed(page.source)
    return page


def _config(**llm) -> dict:
    return {"config": {"agents": {"llm": {"model": "qwen", "tokens": 6000, "replay": ""} | llm}}}


def test_the_numbers_are_those_of_the_run(tmp_path):
    one = {"calls": 41, "recorded": 3, "tokens_in": 900, "tokens_out": 100, "seconds": 12.0, "cost": 0.25}
    page = _page(tmp_path, _config(), {"starts": 1, "stages": {}, "language_model": {"round_1": {"engine.write": one, "b": one}}})
    text = " ".join(page.text)
    assert "qwen was asked 45 questions: 1,200 tokens read and 300 written of 6,000 in the budget." in text
    assert "Of 2 questions no server counted them" in text
    assert "In 10 places a scripted agent did the work instead" in text
    assert re.search(r"engine\.write 40 30 12 18 0 9", re.sub(r"\s+", " ", text))
    assert re.search(r"engine\.write schema 4 ", re.sub(r"\s+", " ", text))  # an agent's count of it is the same thing
    assert "rejected:invalid scene" in text and "r1.propose 750 250 1,000" in re.sub(r"\s+", " ", text)
    assert "calls that went out, every try 82" in re.sub(r"\s+", " ", text) and "price 0.5" in re.sub(r"\s+", " ", text)


def test_hostile_names_stay_text(tmp_path):
    page = _page(tmp_path, _config(model=HOSTILE), {"starts": 1, "stages": {}, "language_model": {HOSTILE: {HOSTILE: {HOSTILE: HOSTILE}}}})
    assert page.open == [] and "script" not in page.tags
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert "Language model" in "".join(page.text)


def test_odd_files_do_not_stop_it(tmp_path):
    for config in ({}, {"config": 3}, {"config": {"agents": []}}, _config(model=3, tokens="many", replay=None)):
        page = _page(tmp_path, config, {"starts": 1, "stages": {}, "language_model": [1]})
        assert "A model was asked 45 questions" in " ".join(page.text)


def test_replays_and_runs_without_fallback_say_so(tmp_path):
    page = _page(tmp_path, _config(replay="x"), agents={"engine.write": {"accepted": 1}}, tokens_estimated=0)
    text = " ".join(page.text)
    assert "answered from a recording" in text and "No scripted agent had to stand in." in text and "no server counted" not in text


def test_scripted_runs_have_no_such_section(tmp_path):
    page = _page(tmp_path, questions={}, agents={}, tokens=0, tokens_in=0, tokens_out=0)
    assert "Language model" not in " ".join(page.text)
