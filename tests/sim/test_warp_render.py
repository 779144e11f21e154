"""Warp's renderer against jax's and MuJoCo's; the first run on a machine builds warp's kernels, some 40 s."""

import numpy as np
import pytest

from coda_jax.sim import raycast, render, warp_extra, warp_render
from coda_jax.sim.cameras import FRONT, OBSERVED, WRIST
from coda_jax.sim.eyes import Batched
from coda_jax.sim.frames import BACKGROUND, ROBOT
from coda_jax.types import TABLE
from tests.sim.looked_at import inside, moved_states, scenes_of_every_family

HEIGHT, WIDTH = 40, 56
needs_warp = pytest.mark.skipif(not warp_extra.installed(), reason="needs the extra warp")


@pytest.fixture(scope="module")
def scenes():
    return scenes_of_every_family()


@pytest.fixture(scope="module")
def states(scenes):
    return moved_states(scenes)


@needs_warp
@pytest.mark.slow
@pytest.mark.parametrize("camera", OBSERVED, ids=["front", "wrist"])
def test_depth_and_segmentation_are_those_of_the_others(scenes, states, camera):
    models = [s.model for s in scenes]
    ours = warp_render.frames(models, states, camera, height=HEIGHT, width=WIDTH)
    jaxs = raycast.frames(models, states, camera, height=HEIGHT, width=WIDTH)
    mujocos = render.frames(models, states, camera, height=HEIGHT, width=WIDTH, samples=1)
    for theirs in (jaxs, mujocos):
        same = inside(theirs.segmentation)
        assert same.mean() > 0.5
        np.testing.assert_array_equal(ours.segmentation[same], theirs.segmentation[same])
        np.testing.assert_allclose(ours.depth[same], theirs.depth[same], atol=1e-3)
        assert (ours.segmentation != theirs.segmentation).mean() < 0.005
        apart = np.abs(ours.rgb[same].astype(int) - theirs.rgb[same]).max(-1)
        assert np.mean(apart <= 2) > 0.99  # what is left are edges of shadows and of the table's squares
    seen = set(np.unique(ours.segmentation))
    assert {TABLE, ROBOT} <= seen and len(seen) > 4 and (camera is WRIST or BACKGROUND in seen)


@needs_warp
@pytest.mark.slow
def test_any_scenes_of_a_bucket_share_a_stage(scenes, states):
    renderer = Batched(warp_render.frames, 4)
    pictures = renderer(scenes, states, FRONT, 24, 24)
    stages = warp_render._stage.cache_info().currsize
    np.testing.assert_array_equal(renderer(scenes[2:5], states[2:5], FRONT, 24, 24), pictures[2:5])
    np.testing.assert_array_equal(renderer(scenes[::-1], states[::-1], FRONT, 24, 24), pictures[::-1])
    assert warp_render._stage.cache_info().currsize == stages


def test_without_warp_the_extra_is_named(scenes, states, monkeypatch):
    monkeypatch.setattr(warp_extra, "installed", lambda: False)
    with pytest.raises(warp_extra.WarpMissingError, match="pip install '.\\[warp\\]'"):
        warp_render.frames([scenes[0].model], states[:1])
