"""Probe environments in chunked form through the whole training code: every backup and both projections reach the known values."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning.critic import certificate, steps
from coda_jax.learning.critic.backup import BACKUPS, Backup
from coda_jax.learning.critic.targets import targets
from coda_jax.learning.critic.values import table_values
from tests.learning.critic import probes, small

TOLERANCE = 0.03
TEMPERATURE = 0.2
KINDS = [(kind, "hl_gauss") for kind in BACKUPS] + [("max", "two_hot")]
PROBES = ("constant", "observation", "action", "delay", "inside", "time", "subgoals")


@functools.cache
def trained(kind, projection):
    """Known transitions, their decoded values after 500 updates, and the last metrics."""
    backup = Backup(kind, TEMPERATURE)
    critic, training = small.critic(support=small.support(projection=projection)), small.training(backup=backup)
    known = probes.known(backup)
    table = probes.table(known)
    state = steps.init_state(critic, training, critic.init(jax.random.key(0)))
    for count in (450, 50):
        state, row = steps.critic_steps(critic, training, small.Draw(64), state, table, jax.random.key(1), jnp.asarray(count, jnp.int32))
    found = table_values(critic, state.params, table, small.gather, Backup("mean", TEMPERATURE))
    return known, found, dict(zip(steps.METRICS, np.asarray(row).tolist(), strict=True))


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("kind, projection", KINDS)
def test_known_values_are_reached(kind, projection, probe):
    known, found, _ = trained(kind, projection)
    own = [i for i, step in enumerate(known) if step.probe == probe]
    assert len(own) >= 2
    np.testing.assert_allclose(np.asarray(found.q)[own], [known[i].value for i in own], atol=TOLERANCE)


@pytest.mark.parametrize("kind, projection", KINDS)
def test_candidates_and_advantages_of_the_action_probe(kind, projection):
    known, found, metrics = trained(kind, projection)
    for i, step in enumerate(known):
        if step.probe == "action":
            np.testing.assert_allclose(found.candidates[i], [0.729, 0.0], atol=TOLERANCE)
            assert float(found.advantage[i]) == pytest.approx(step.value - 0.729 / 2, abs=TOLERANCE)
    assert abs(metrics["bias"]) < 0.01 and metrics["clip_share"] == 0.0
    assert metrics["bins_used"] < 0.5  # twelve distinct values, not the whole support


@pytest.mark.parametrize("kind", BACKUPS)
def test_the_known_values_solve_the_targets(kind):
    """The hand-worked numbers are the fixed point of the target code: neither may drift alone."""
    backup = Backup(kind, TEMPERATURE)
    known = probes.known(backup)
    batch = small.gather(probes.table(known), np.arange(len(known)))
    value = {(s.state, s.candidate): s.value for s in known}
    bootstrap = [0.0 if s.successor is None else backup(np.array([value[s.successor, c] for c in (0, 1)])) for s in known]
    rewards, mask, terminal, phi, next_phi = (np.asarray(x) for x in (batch.rewards, batch.mask, batch.terminal, batch.phi, batch.next_phi))
    y = targets(small.training().rule, rewards, mask, terminal, phi, next_phi, np.array(bootstrap))
    np.testing.assert_allclose(y, [s.value for s in known], atol=1e-6)


def test_the_subgoals_probe_agrees_with_the_certificate():
    """Both say the same of shaping: without the potential the probe's values differ by beta Phi and by nothing else."""
    plain = {**probes.PHI}
    shaped = {(s.state, s.candidate): s.value for s in probes.known(Backup("max", TEMPERATURE)) if s.probe == "subgoals"}
    assert shaped["half way", probes.FORWARD] + 0.5 * plain["half way"] == pytest.approx(0.9**2)
    assert shaped["started", probes.FORWARD] + 0.5 * plain["started"] == pytest.approx(0.9**6)
    assert certificate.certificate(small.training().rule, Backup("max", TEMPERATURE)).holds
