"""MJX against its native twin in a scene of every family: the planner's actions, recorded in the twin, replayed in MJX."""

from __future__ import annotations

import numpy as np
import pytest

from coda_jax.config import default
from coda_jax.loop import parts
from coda_jax.scenes import families
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim import mjx_model, warp_extra
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import bucket_of
from coda_jax.sim.demonstrate import demonstrate
from coda_jax.sim.mjx import MjxSimulator
from coda_jax.sim.mjx_buckets import declared
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.simulator import episode_of
from coda_jax.types import ARTICULATED_TOKEN, FREE_SLOTS

pytestmark = pytest.mark.slow
WORLDS = 4
CATALOGUE = Catalogue.all()


WARP = pytest.param("warp", marks=pytest.mark.skipif(not warp_extra.installed(), reason="needs the extra warp"))


@pytest.mark.parametrize("impl", ["jax", WARP])
@pytest.mark.parametrize("family", families.names())
def test_same_physics_and_verdicts_as_native(family, impl):
    config, episodes, seed = default(), [], 0
    bucket = Bucket(2, 7, family == "articulated")
    while len(episodes) < WORLDS:
        spec = sample_spec(Catalogue("train"), family, "id", "train", seed)
        if declared(bucket_of(spec, CATALOGUE)) == bucket:
            episodes.append(episode_of(spec, parts.horizon_of(config)(spec), (seed, 0)))
        seed += 1
    twin = NativeSimulator(CATALOGUE, bucket, WORLDS, threads=1, robot=mjx_model.ROBOT, build=mjx_model.compiled)
    by_key = {t.episode.key: t for t in demonstrate(twin, CATALOGUE, episodes, parts.planner_of(config), None, 0)}
    told = [by_key[e.key] for e in episodes]
    assert any(t.success for t in told), "the planner solves none: the comparison would be empty"
    first = twin.reset(twin.compile(episodes)).view

    simulator = MjxSimulator(CATALOGUE, bucket, WORLDS, chunk=1, impl=impl)
    batch = simulator.compile(episodes)
    state = simulator.reset(batch)
    np.testing.assert_allclose(state.view.pos, first.pos, atol=1e-3)  # rest, m
    np.testing.assert_allclose(state.view.articulation, first.articulation, atol=1e-3)
    np.testing.assert_allclose(state.view.articulation_range, first.articulation_range, atol=1e-6)
    np.testing.assert_array_equal(state.view.contact, first.contact)
    steps = max(len(t.executed) for t in told)
    terminated, seen = np.zeros(WORLDS, bool), 0
    for k in range(steps):
        actions = np.stack([t.executed[min(k, len(t.executed) - 1)] for t in told])
        state, trace = simulator.step_chunk(batch, state, actions[:, None])
        terminated |= np.asarray(trace.terminated)
        for w, t in enumerate(told):
            if k < min(8, len(t.qpos)):  # before anything is touched
                assert np.abs(np.asarray(trace.qpos)[w, 0, :7] - t.qpos[k, :7]).max() < 1e-4  # rad
            if k < len(t.qpos) and family == "articulated":
                assert abs(float(state.view.articulation[w, ARTICULATED_TOKEN]) - float(t.qpos[k, -1])) < 0.02  # rad or m
            elif k < len(t.qpos) and bool(np.asarray(trace.active)[w, 0]):
                held = np.asarray(t.views.finger_contact)[k + 1, :FREE_SLOTS].all(1)  # what was let go rolls as it likes
                there, here = np.asarray(t.views.pos)[k + 1, :FREE_SLOTS], np.asarray(state.view.pos)[w, :FREE_SLOTS]
                seen += int(held.sum())
                assert np.abs(here - there)[held].max(initial=0.0) < 0.01, (episodes[w].key, k)  # m
    assert seen > 0 or family == "articulated", "nothing was held: the comparison would be empty"
    assert not np.asarray(state.health).any()
    assert terminated.tolist() == [t.success for t in told]
