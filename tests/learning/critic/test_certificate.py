"""The certificate holds for the target code, for every backup and unit, and no known mistake would pass it."""

from __future__ import annotations

import numpy as np
import pytest

from coda_jax.learning.critic import targets
from coda_jax.learning.critic.backup import BACKUPS, Backup
from coda_jax.learning.critic.certificate import certificate, ordered_subgoals
from coda_jax.learning.critic.targets import Rule


@pytest.mark.parametrize("unit", targets.GAMMA_UNITS)
@pytest.mark.parametrize("kind", BACKUPS)
def test_shaping_moves_values_by_the_potential_alone(kind, unit):
    found = certificate(Rule(0.9, unit, 0.5), Backup(kind, 0.1))
    assert found.deviation < 1e-12
    assert found.same_choice and found.holds
    assert found.low >= -1.0 - 1e-12 and found.high <= 1.0  # [-beta m, 1]


@pytest.mark.parametrize("gamma, stages", [(0.99, 2), (0.95, 1), (0.95, 3), (0.95, 4)])
def test_mistakes_are_told(gamma, stages):
    found = certificate(Rule(gamma, "step", 0.5), Backup("max", 0.1), stages)
    assert found.holds and found.tells_mistakes, found.mistakes
    assert set(found.mistakes) == {
        "gamma instead of gamma^h",
        "no discount of the potential",
        "a potential at the terminal",
        "clipped at zero",
    }
    assert min(found.mistakes.values()) > 0.2
    assert found.low >= -0.5 * stages - 1e-12


def test_a_wrong_target_code_is_caught(monkeypatch):
    right = targets.shaping
    monkeypatch.setattr(targets, "shaping", lambda phi, next_phi, d, factor, beta: right(phi, next_phi, d, 0 * factor + 0.9, beta))
    assert not certificate(Rule(0.9, "step", 0.5), Backup("max", 0.1)).holds


def test_the_problem_has_early_ends_and_cut_chunks():
    table = ordered_subgoals(2)
    steps = table.mask.sum(-1)
    assert set(steps[table.terminal]) >= {1, 2, 3, 4}  # success at every step of a chunk
    assert set(steps[~table.terminal]) == {3, 4}  # cut by the clock, or whole
    assert table.rewards.sum(-1).tolist() == table.terminal.astype(float).tolist()
    assert np.all(table.phi < 2) and np.all(table.phi >= 0)


def test_refused():
    with pytest.raises(ValueError, match="below 1"):
        certificate(Rule(1.0, "step", 0.5), Backup("max", 0.1))
    with pytest.raises(ValueError, match="at least 1"):
        certificate(Rule(0.9, "step", 0.5), Backup("max", 0.1), 0)
