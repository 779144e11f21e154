"""Costs survive restarts; a damaged ledger begins anew."""

import json

import pytest

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
