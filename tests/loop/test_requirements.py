"""What the machine or this version cannot do is refused before anything starts."""

import re

import jax
import pytest

from coda_jax import config as settings
from coda_jax.loop import mjx_worlds, parts, requirements
from coda_jax.runtime import InputError
from coda_jax.scenes import families
from coda_jax.scenes.catalogue import Catalogue


def test_the_defaults_can_be_carried_out():
    requirements.check(settings.default())
    assert (requirements.machine_bytes() or 0) > 1e9


@pytest.mark.parametrize(("section", "key", "value"), [("policy", "width", 65536), ("demos", "count", 1_000_000), ("sim", "worlds", 65536)])
def test_too_little_memory_is_named(section, key, value, monkeypatch):
    monkeypatch.setattr(requirements, "machine_bytes", lambda: 16 * 10**9)
    config = settings.default()
    config[section][key] = value
    settings.validate(config)
    with pytest.raises(InputError, match=r"need about [\d.]+ GB of memory, this machine has 16.0 GB; lower demos.count"):
        requirements.check(config)


@pytest.mark.parametrize("family", families.names())
def test_mjx_takes_the_scenes_of_every_family(family):
    config = settings.default()
    config.sim.backend, config.family, config.sim.mjx_worlds = "mjx", family, 2
    requirements.check(config)
    for bucket in (requirements.evaluation_bucket(config), parts.training_bucket(config, Catalogue("train"))):
        made = parts.simulator(config, Catalogue.all(), bucket)
        assert made.bucket.free >= bucket.free and made.bucket.articulated == bucket.articulated and made.worlds == 2


@pytest.mark.parametrize(("heads", "width"), [(3, 4), (3, 7)])
def test_the_smallest_allowed_policies_can_be_made(heads, width):
    config = settings.default()
    config.policy.heads, config.policy.width = heads, width
    settings.validate(config)
    assert requirements.parameter_count(config) > 0


def test_the_largest_seed_makes_a_key_of_its_own():
    low, high = (jax.random.key_data(jax.random.key(s)) for s in (0, settings.AT_MOST["seed"]))
    assert (low != high).any() and parts.policy_of(settings.default())


def test_a_table_without_room_for_a_round_is_refused_before_it_begins():
    """The numbers that the message asks for are enough."""
    config = settings.default()
    config.rounds.count, config.experience.rows = 1, 4096
    with pytest.raises(InputError, match=r"a round may learn from 1,508 episodes of up to 31 decisions") as error:
        requirements.check(config)
    ((episodes, rows),) = re.findall(r"at least (\d+) and (\d+)", str(error.value))
    config.experience.episodes, config.experience.rows = int(episodes), int(rows)
    requirements.check(config)
    config.experience.episodes -= 1
    with pytest.raises(InputError):
        requirements.check(config)
    config.awr.improve = "filtered"
    requirements.check(config)


def test_pictures_are_counted_of_the_worlds_that_are_looked_at(monkeypatch):
    config = settings.default()
    config.obs = "pixels"
    config.sim.worlds, config.sim.mjx_worlds = 300, 700
    native = requirements.memory_bytes(config)
    assert requirements.worlds_looked_at(config) == 300
    config.sim.mjx_worlds = 800
    assert requirements.memory_bytes(config) == native, "no world of MJX is looked at"
    config.sim.backend, config.evaluate.suites = "mjx", ("id",)
    assert requirements.worlds_looked_at(config) == 800
    assert requirements.memory_bytes(config) - native == pytest.approx(500 * (3 * 2 * 3 + 5) * 64 * 64)
    config.sim.mjx_worlds = 0
    assert requirements.worlds_looked_at(config) == mjx_worlds.ON_CPU * jax.local_device_count()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert requirements.worlds_looked_at(config) == mjx_worlds.CANDIDATES[-1] * jax.local_device_count()
