"""When warp draws: where it is installed on an NVIDIA device, or where it is asked for."""

import jax
import pytest

from coda_jax import combinations
from coda_jax.config import default, validate
from coda_jax.loop import parts
from coda_jax.runtime import InputError
from coda_jax.sim import raycast, warp_extra, warp_render
from coda_jax.sim.eyes import Batched
from coda_jax.sim.render import NativeRenderer


@pytest.mark.parametrize(
    ("platform", "nvidia", "installed", "draws"),
    [
        ("cpu", False, True, "native"),
        ("gpu", True, True, "warp"),
        ("gpu", True, False, "jax"),
        ("gpu", False, True, "jax"),
        ("tpu", False, True, "jax"),
    ],
)
def test_auto(monkeypatch, platform, nvidia, installed, draws):
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    monkeypatch.setattr(parts, "on_nvidia", lambda: nvidia)
    monkeypatch.setattr(warp_extra, "installed", lambda: installed)
    assert parts.renderer_name(default()) == draws


def test_what_is_asked_for_is_taken():
    config = default()
    for name, frames in (("jax", raycast.frames), ("warp", warp_render.frames)):
        config.pixels.renderer = name
        assert parts.renderer_of(config) == Batched(frames, config.sim.worlds)
    config.pixels.renderer = "native"
    assert parts.renderer_of(config) == NativeRenderer(config.sim.threads)


@pytest.mark.parametrize("name", ["pixels.renderer", "sim.mjx_impl"])
def test_without_warp_the_extra_is_named(monkeypatch, name):
    monkeypatch.setattr(combinations, "package_version", lambda _: None)
    config = default()
    config.update_from_flattened_dict({name: "warp"})
    with pytest.raises(InputError, match=rf"config\.{name} is .warp., which is not installed: pip install '\.\[warp\]'"):
        validate(config)
