"""What can go wrong in warp's shared pool of contacts is flagged, whenever it happens."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.sim import mjx_warp, warp_extra
from coda_jax.sim.mjx import MjxSimulator
from coda_jax.sim.mjx_buckets import MJX_BUCKETS
from coda_jax.types import HEALTH_OVERFLOW
from tests.sim.test_mjx import BUCKET, CATALOGUE, EPISODES


@pytest.mark.slow  # warp's kernels take minutes to build, once on a machine
@pytest.mark.skipif(not warp_extra.installed(), reason="needs the extra warp")
def test_contacts_renewed_after_the_last_step_are_flagged_too(monkeypatch):
    """Steps that flag nothing stand for a pool that only the last pose fills."""
    monkeypatch.setitem(MJX_BUCKETS, BUCKET, dataclasses.replace(MJX_BUCKETS[BUCKET], contacts=2))
    mjx_warp.blank.cache_clear()
    monkeypatch.setattr(mjx_warp, "_full", lambda data: jnp.zeros(len(data.qpos), bool))
    simulator = MjxSimulator(CATALOGUE, BUCKET, 2, 3, impl="warp")
    state = simulator.reset(simulator.compile(EPISODES[:2]))
    mjx_warp.blank.cache_clear()
    assert (np.asarray(state.health) == HEALTH_OVERFLOW).all()
