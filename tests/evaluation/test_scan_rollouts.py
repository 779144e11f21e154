"""The loop on the device against the loop on the host: the same episodes, whoever runs beside them and however they are dealt out."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax import runtime
from coda_jax.evaluation.rollouts import rollout
from coda_jax.evaluation.scan_rollouts import InScan, _programs, build, deal, expected_size
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim import mjx_model
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.mjx import MjxSimulator
from coda_jax.sim.simulator import Episode
from coda_jax.types import HEALTH_NAN, HEALTH_OVERFLOW, MOVING_FIELDS
from tests.sim.test_mjx import scene

BUCKET = Bucket(2, 1)
WORLDS, EXECUTED = 4, 5
KEY = jax.random.key(3)
CATALOGUE = Catalogue.all()
PLACES = ((0.5, 0.1), (0.45, 0.05), (0.55, 0.15), (0.5, 0.0), (0.4, 0.1), (0.6, 0.05), (0.5, 0.2))


def decide(params, obs, keys):
    """To a place above the first object, where nothing is touched, with noise of the key and more steps than are executed."""
    noise_scale, edge_m = params
    noise = jax.vmap(lambda key: jax.random.normal(key, (EXECUTED + 2, 7)))(keys)
    towards = jnp.clip((obs.pos[:, 0] + jnp.array([0.0, 0.0, 0.12]) - obs.ee_pos) / 0.05, -1, 1)
    words = obs.text.sum((1, 2)) + obs.instruction.sum(1)
    moved = noise_scale * noise + 0.01 * words[:, None, None]
    chunk = moved.at[:, :, :3].add(0.9 * towards[:, None])
    return jnp.where((obs.pos[:, 0, 0] > edge_m)[:, None, None], jnp.nan, chunk)  # a policy that breaks beyond an edge


POLICY = InScan(decide, np.array([0.2, 9.0], np.float32))


def embed(sentences) -> np.ndarray:
    return np.array([[len(s), s.count("e")] for s in sentences], np.float32) / 10


def jobs() -> list[Episode]:
    made = [scene(place, (0.5, -0.2), brick_xy=(0.62, 0.28) if i % 2 else None) for i, place in enumerate(PLACES)]
    jobs = [dataclasses.replace(e, horizon=9 + 4 * (i % 3), key=(i, i % 2)) for i, e in enumerate(made)]
    jobs[3] = dataclasses.replace(jobs[3], prefix=np.full((7, 7), 0.3, np.float32))
    return jobs


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    return jobs()


def simulator() -> MjxSimulator:
    """With room for prefixes as long as the longest horizon."""
    return MjxSimulator(CATALOGUE, BUCKET, WORLDS, EXECUTED, prefix_steps=17)


def results(sim: MjxSimulator, episodes, policy_fn, record: bool = True) -> dict:
    found = list(rollout(sim, CATALOGUE, episodes, policy_fn, embed, EXECUTED, KEY, record=record))
    assert len({r.episode.key for r in found}) == len(found) == len(episodes)
    return {r.episode.key: r for r in found}


def same(one, other) -> None:
    """Two executables add up in other orders."""
    for field in ("predicates", "qpos", "actions", "executed", "chunks"):
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), atol=2e-5, err_msg=field)
    for field in ("success", "clipped", "health", "prefix"):
        assert getattr(one, field) == getattr(other, field), field
    for field in (*MOVING_FIELDS, "pos0", "half_extent", "present"):
        atol = 1e-3 if "vel" in field else 2e-5
        np.testing.assert_allclose(getattr(one.views, field), getattr(other.views, field), atol=atol, err_msg=field)


@pytest.fixture(scope="module")
def on_host(episodes) -> dict:
    sim = simulator()
    return results(sim, episodes, lambda obs, keys: POLICY(obs, keys))


def test_same_episodes_as_the_loop_on_the_host(episodes, on_host):
    sim = simulator()
    found = results(sim, episodes, POLICY)
    assert found.keys() == on_host.keys()
    assert {r.steps for r in found.values()} == {9, 13, 17}
    assert found[(3, 1)].prefix == 5 and np.allclose(found[(3, 1)].actions[:5], 0.3)
    for key, result in found.items():
        same(result, on_host[key])


def test_the_loop_on_the_host_builds_nothing_for_a_first_record_or_for_other_lengths(episodes):
    sim = MjxSimulator(CATALOGUE, BUCKET, WORLDS, EXECUTED)
    act = lambda obs, keys: POLICY(obs, keys)  # noqa: E731
    results(sim, episodes[:5], act, record=False)
    before = runtime.compile_count()
    other = [dataclasses.replace(e, horizon=7 + i, key=(20 + i, 0)) for i, e in enumerate(episodes)]
    assert {r.steps for r in results(sim, other, act).values()} == set(range(7, 14))
    assert runtime.compile_count() == before


def test_alone_or_among_others_to_the_bit_and_without_a_compilation(episodes):
    sim = simulator()
    together = results(sim, episodes, POLICY)
    before = runtime.compile_count()
    with jax.transfer_guard("disallow"):  # whatever goes to the device or comes back is asked for by name
        again = results(sim, episodes, POLICY)
    assert again.keys() == together.keys()
    alone = results(sim, episodes[4:5], POLICY)[episodes[4].key]
    other = results(
        sim, [dataclasses.replace(scene((0.47, 0.12)), key=(9, 9), horizon=6)], InScan(decide, np.array([0.4, 9.0], np.float32))
    )
    assert runtime.compile_count() == before, "new scenes, fewer of them, or other parameters compiled"
    assert other[(9, 9)].steps == 6
    for field in ("predicates", "qpos", "actions", "chunks"):
        np.testing.assert_array_equal(getattr(alone, field), getattr(together[episodes[4].key], field))


def test_a_broken_world_is_counted_and_its_place_is_sound_again(episodes):
    sim = simulator()
    broken = dataclasses.replace(scene((0.6, 0.05)), horizon=9, key=(8, 1))
    others = [dataclasses.replace(episodes[0], key=(20 + i, 0), horizon=13) for i in range(4)]
    found = results(sim, [broken, *others], InScan(decide, np.array([0.0, 0.57], np.float32)))
    assert found[(8, 1)].health == HEALTH_NAN and not found[(8, 1)].success and found[(8, 1)].steps == 1
    for number in range(4):  # the last of them ran where the broken one had been
        assert found[(20 + number, 0)].health == 0
        np.testing.assert_array_equal(found[(20 + number, 0)].qpos, found[(20, 0)].qpos)


SPREAD = """
import sys
import jax, numpy as np
from coda_jax import runtime
runtime.setup()
from coda_jax.sim import mjx_model
from coda_jax.sim.mjx import MjxSimulator
from tests.evaluation import test_scan_rollouts as here
mesh = jax.make_mesh((8,), ("data",))
try:
    MjxSimulator(here.CATALOGUE, here.BUCKET, 12, here.EXECUTED, mesh)
except ValueError as error:
    assert "12 worlds on 8 devices: take a multiple of 8 worlds" in str(error)
else:
    raise AssertionError("12 worlds were dealt out to 8 devices")
sim = MjxSimulator(here.CATALOGUE, here.BUCKET, 8, here.EXECUTED, mesh, prefix_steps=17)
jobs = here.jobs()
found = here.results(sim, jobs + [here.dataclasses.replace(e, key=(i, 30)) for i, e in enumerate(jobs)], here.POLICY, record=False)
before = runtime.compile_count()
here.results(sim, jobs[2:4], here.POLICY, record=False)
assert runtime.compile_count() == before, "fewer episodes compiled"
assert len(sim.blank.qpos.sharding.device_set) == 8
np.savez(sys.argv[1], **{f"{a}_{b}": r.qpos for (a, b), r in found.items()})
"""


def test_worlds_spread_over_eight_devices(repository, episodes, tmp_path):
    here = simulator()
    jobs = episodes + [dataclasses.replace(e, key=(i, 30)) for i, e in enumerate(episodes)]
    found = results(here, jobs, POLICY, record=False)
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    run = [sys.executable, "-c", SPREAD, str(tmp_path / "found.npz")]
    subprocess.run(run, cwd=repository, env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}, check=True, timeout=600)
    spread = np.load(tmp_path / "found.npz")
    assert set(spread.files) == {f"{a}_{b}" for a, b in found}
    for (a, b), result in found.items():
        np.testing.assert_allclose(spread[f"{a}_{b}"], result.qpos, atol=2e-5)


def test_a_start_that_is_flagged_while_it_settles_ends_there(episodes):
    sim = simulator()
    reset = sim.reset

    def flagged(batch):
        state = reset(batch)
        health = [HEALTH_OVERFLOW * (e is not None and e.key == (2, 0)) for e in batch.episodes]
        return dataclasses.replace(state, health=jax.device_put(np.array(health, np.int32), sim.by_world))

    sim.reset = flagged
    for policy in (POLICY, lambda obs, keys: POLICY(obs, keys)):
        found = results(sim, episodes[:3], policy)
        assert found[(2, 0)].health == HEALTH_OVERFLOW and found[(2, 0)].steps == 0 and not found[(2, 0)].success
        assert found[(0, 0)].health == 0 and found[(0, 0)].steps == 9


def test_a_prefix_may_be_as_long_as_the_horizon(episodes):
    """300 actions for an episode of 13 control steps: the rest is never carried out, here as on the host."""
    actions = np.full((300, 7), 0.1, np.float32)
    actions[5:] = -0.2
    long = dataclasses.replace(episodes[1], prefix=actions)
    found = [results(simulator(), [long], policy)[long.key] for policy in (POLICY, lambda obs, keys: POLICY(obs, keys))]
    same(*found)
    assert found[0].prefix == found[0].steps == 13
    np.testing.assert_array_equal(found[0].actions, actions[:13])


def test_a_prefix_that_was_not_told_of_is_refused(episodes):
    sim = simulator()
    sim.prefix_steps = 6
    with pytest.raises(ValueError, match="a prefix of 16 control steps.*prefix_steps = 6"):
        results(sim, [dataclasses.replace(episodes[1], prefix=np.zeros((16, 7), np.float32))], POLICY)


def test_episodes_go_to_whom_has_fewest_waiting():
    assert deal(np.array([0, 0, 0]), 2, 5).tolist() == [2, 2, 1]  # nobody waits: in turn
    assert deal(np.array([3, 0, 1]), 2, 6).tolist() == [1, 2, 2]  # a wave has two rows a device, so one episode waits for the next
    assert deal(np.array([4, 3, 4]), 2, 6).tolist() == [0, 1, 0]  # a ring has room for four
    assert deal(np.array([4]), 2, 1).tolist() == [0]


def test_the_host_prepares_the_next_wave_while_the_device_works(episodes):
    """The ring has room for two waves; the scenes of a third are built before the first call is waited for. Each is built once."""
    sim, events = simulator(), []
    fields, get = mjx_model.scene_fields, jax.device_get

    def built(spec, *args):
        events.append("scene")
        return fields(spec, *args)

    def waited(tree):
        events.append("wait")
        return get(tree)

    many = [dataclasses.replace(scene((0.4 + 0.01 * i, 0.1)), key=(i, 40), horizon=6) for i in range(4 * WORLDS)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mjx_model, "scene_fields", built)
        patch.setattr(jax, "device_get", waited)
        for _ in rollout(sim, CATALOGUE, many, POLICY, embed, EXECUTED, KEY):
            events.append("result")
    assert events[: events.index("wait")].count("scene") == 3 * WORLDS
    assert events.count("scene") == events.count("result") == len(many)


def test_an_iterable_may_have_more_once_it_heard_results(episodes):
    heard = []

    class Later:
        """Gives two episodes, and one more for each that it heard of."""

        given = 0

        def __iter__(self):
            return self

        def __next__(self):
            if self.given >= min(2 + len(heard), 5):
                raise StopIteration
            self.given += 1
            return dataclasses.replace(episodes[0], key=(self.given, 50))

    for result in rollout(simulator(), CATALOGUE, Later(), POLICY, embed, EXECUTED, KEY):
        heard.append(result.episode.key)
    assert sorted(heard) == [(i, 50) for i in range(1, 6)]


def test_memory_is_told_before_a_compile_and_confirmed_after_it(episodes):
    sim = simulator()
    told = []
    _programs.cache_clear()
    build(sim, CATALOGUE, episodes[0], POLICY, embed, EXECUTED, KEY, told.append)
    rollouts = next(b for b in told if b.name == "mjx rollout")
    assert rollouts.memory is not None and rollouts.expected is not None
    assert rollouts.memory.held == pytest.approx(rollouts.expected.held, rel=0.02)
    assert rollouts.memory.given == pytest.approx(rollouts.expected.given, rel=0.02)
    assert rollouts.memory.working == pytest.approx(rollouts.expected.working, rel=0.5)
    assert "expected)" in rollouts.line()
    size = expected_size(sim, episodes[0], POLICY, embed)
    assert size.peak_bytes(WORLDS) > size.world.peak_bytes(WORLDS)
    assert f"rollouts in {WORLDS} worlds: " in size.line(WORLDS)
