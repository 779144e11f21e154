"""The seam between the loop and where scenes are simulated."""

from __future__ import annotations

import pytest

from coda_jax import config as settings
from coda_jax.loop import parts
from coda_jax.runtime import InputError
from coda_jax.scenes import families
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families import Family
from coda_jax.scenes.generate import sample_spec, training_scene
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
from coda_jax.sim import compile as compiling
from coda_jax.sim import platforms, validity
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.panda import PANDA

TRAIN = Catalogue("train")
PAIRS = {("on", "support"): "train"}
PHRASES = {"on": {"train": ("put the {target} on the {reference}",)}}


class Elsewhere(Family):
    """A family whose scenes are simulated somewhere else."""

    name = "elsewhere"
    platform = "moon"
    pairs, phrases = PAIRS, PHRASES

    def held_out(self, spec):
        return ("scene", "the moon is held out") if spec.spatial.layout == "moon/dark" else None

    def frozen(self, suite, split):
        return (sample_spec(TRAIN, "pick_place", "id", "train", 1),) if suite == "craters" else None

    def seed_scene(self, catalogue, seed):
        return f"crater {seed}", sample_spec(catalogue, "pick_place", "id", "train", seed)


@pytest.fixture
def elsewhere():
    yield families.register(Elsewhere())
    families.unregister("elsewhere")


@pytest.mark.parametrize("name", settings.FAMILIES)
def test_our_own_families_stand_on_the_table(name):
    spec = sample_spec(TRAIN, name, "id", "train", 2)
    platform = platforms.of(spec)
    bucket = platform.bucket([spec], TRAIN)
    assert bucket == compiling.bucket_of(spec, TRAIN)
    assert platforms.token_index(spec, TRAIN) == compiling.token_index(spec, TRAIN)
    words = platform.token_words(spec, TRAIN)
    assert {i for i, word in enumerate(words) if word} == set(platforms.token_index(spec, TRAIN).values())
    config = settings.default()
    assert platforms.check([spec], TRAIN, parts.validity_of(config)) == validity.check([spec], TRAIN, parts.validity_of(config))
    drawn, compiled = platform.drawable(spec, TRAIN, None, PANDA), compiling.compile_scene(spec, TRAIN, bucket, PANDA)
    assert (drawn.qpos == compiled.qpos).all()
    sim = platform.simulator(TRAIN, bucket, 1, 1, PANDA)
    assert isinstance(sim, NativeSimulator) and sim.bucket == bucket


def test_one_bucket_takes_scenes_of_several_families():
    specs = [sample_spec(TRAIN, name, "id", "train", 0) for name in settings.FAMILIES]
    each = [compiling.bucket_of(spec, TRAIN) for spec in specs]
    found = parts.common_bucket(specs, TRAIN)
    assert found == Bucket(max(b.free for b in each), max(b.geoms for b in each), True)
    assert platforms.check([], TRAIN, parts.validity_of(settings.default())) == []


def test_a_run_has_one_platform(elsewhere):
    config = settings.default()
    config.family = "pick_place,elsewhere"
    with pytest.raises(InputError, match=r"pick_place on tabletop, elsewhere on moon.*one run has one platform"):
        parts.platform_of(config)
    config.family = "elsewhere"
    with pytest.raises(ValueError, match="there is no platform 'moon': use tabletop"):
        parts.platform_of(config)


def test_a_family_may_bring_scenes_and_suites_with_it(elsewhere):
    from coda_jax.scenes import suites

    assert training_scene(TRAIN, "elsewhere", 5) == sample_spec(TRAIN, "pick_place", "id", "train", 5)
    assert training_scene(TRAIN, "pick_place", 5) == sample_spec(TRAIN, "pick_place", "id", "train", 5)
    assert len(suites.load("elsewhere", "craters", "test")) == 1
    with pytest.raises(suites.SuiteError, match="unknown suite 'seas'"):
        suites.load("elsewhere", "seas", "test")


def test_what_may_be_trained_on_elsewhere_the_family_says(elsewhere):
    import dataclasses

    spec = sample_spec(TRAIN, "pick_place", "id", "train", 0)
    there = dataclasses.replace(spec, task=dataclasses.replace(spec.task, family="elsewhere", instruction="put the anvil on the mug"))
    refuse_held_out(there, TRAIN)
    dark = dataclasses.replace(there, spatial=dataclasses.replace(there.spatial, layout="moon/dark"))
    with pytest.raises(HeldOutContent, match="the moon is held out"):
        refuse_held_out(dark, TRAIN)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"family": "libero_goal"}, "config.evaluate.suites names id, which config.family=libero_goal has not; use any of: standard"),
        ({"evaluate.suites": "standard"}, "config.evaluate.suites names standard, which config.family=pick_place has not"),
        ({"family": "libero_goal,pick_place", "evaluate.suites": "pos"}, "pick_place is simulated on another platform"),
        ({"family": "libero_goal", "evaluate.suites": "pos", "obs": "pixels", "rounds.count": "0"}, 'config.obs is "pixels"'),
        (
            {"family": "libero_goal", "evaluate.suites": "pos", "sim.backend": "mjx", "sim.mjx_impl": "warp"},
            'config.sim.mjx_impl is "warp"; with families of LIBERO-Pro it must be jax',
        ),
        ({"family": "libero_gaol"}, 'config.family is "libero_gaol" (did you mean "libero_goal"?)'),
    ],
)
def test_settings_that_belong_to_another_platform_are_refused(changes, message):
    config = settings.default()
    for path, text in changes.items():
        settings.override(config, path, text)
    with pytest.raises(InputError) as refused:
        settings.validate(config)
    assert message in str(refused.value)


def test_the_suites_and_horizons_are_those_of_the_families():
    config = settings.default()
    assert settings.suites(config) == settings.SUITES and settings.horizon(config, "libero_spatial") == 220
    config.family, config.evaluate.suites = "libero_goal,libero_object", ("task", "standard")
    settings.validate(config)
    assert settings.suites(config) == settings.LIBERO_SUITES and settings.longest_horizon(config) == 300
