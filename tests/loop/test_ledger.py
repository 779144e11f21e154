"""Costs survive restarts; a damaged ledger begins anew."""

import json

import pytest

from coda_jax.agents.llm.budget import Paid, Prices
from coda_jax.loop.ledger import FILE, Ledger


def test_costs_add_up_over_starts(tmp_path):
    for _ in range(2):
        ledger = Ledger(tmp_path)
        ledger.charge("collect", physics_steps=200, rollouts=3)
        ledger.save()
    stored = json.loads((tmp_path / FILE).read_text())
    assert stored["starts"] == 2 and stored["stages"]["collect"]["rollouts"] == 6
    assert stored["stages"]["collect"]["simulated_s"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"starts": 1}', '{"starts": 1, "stages": {"a": {"wall_s": "x"}}}', '{"starts": 1, "stages": {"a": {"cost": 1}}}', "\xff"],
)
def test_a_damaged_ledger_begins_anew(tmp_path, text):
    (tmp_path / FILE).write_bytes(text.encode("latin-1"))
    ledger = Ledger(tmp_path)
    assert ledger.stages == {} and ledger.starts == 1
    ledger.charge("collect")
    ledger.save()


def test_calls_of_language_models_add_up_over_starts(tmp_path):
    for _ in range(2):
        ledger = Ledger(tmp_path)
        ledger.charge_calls("round_1", {"engine.write": Paid(2, 1, 1000, 500, 0.5)}, Prices(1.0, 4.0))
        ledger.save()
    stored = json.loads((tmp_path / FILE).read_text())["language_model"]["round_1"]["engine.write"]
    assert stored == {"calls": 4, "recorded": 2, "tokens_in": 2000, "tokens_out": 1000, "seconds": 1.0, "cost": pytest.approx(0.006)}


@pytest.mark.parametrize("calls", [3, [], {"a": 1}, {"a": {"b": {"calls": "x"}}}, {"a": {"b": {"other": 1}}}])
def test_damaged_calls_begin_anew(tmp_path, calls):
    (tmp_path / FILE).write_text(json.dumps({"starts": 1, "stages": {}, "language_model": calls}))
    ledger = Ledger(tmp_path)
    assert ledger.calls == {} and ledger.starts in (1, 2)
