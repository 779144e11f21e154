"""Two renderers that share no ray: MuJoCo's and jax's must see the same things at the same depths."""

import mujoco
import numpy as np
import pytest

from coda_jax.sim import poses, raycast, render
from coda_jax.sim.cameras import FRONT, OBSERVED, WRIST, seen_at
from coda_jax.sim.eyes import Batched
from coda_jax.sim.frames import BACKGROUND, ROBOT
from coda_jax.sim.state import rotation_matrices
from coda_jax.types import TABLE
from tests.sim.looked_at import inside, moved_states, scenes_of_every_family

SIZE = 40


@pytest.fixture(scope="module")
def scenes():
    return scenes_of_every_family()


@pytest.fixture(scope="module")
def states(scenes):
    return moved_states(scenes)


@pytest.mark.parametrize("camera", OBSERVED, ids=["front", "wrist"])
def test_depth_and_segmentation_are_those_of_mujoco(scenes, states, camera):
    models = [s.model for s in scenes]
    ours = raycast.frames(models, states, camera, height=SIZE, width=SIZE)
    theirs = render.frames(models, states, camera, height=SIZE, width=SIZE, samples=1)
    same = inside(theirs.segmentation)
    assert same.mean() > 0.5
    np.testing.assert_array_equal(ours.segmentation[same], theirs.segmentation[same])
    np.testing.assert_allclose(ours.depth[same], theirs.depth[same], atol=1e-3)
    assert (ours.segmentation != theirs.segmentation).mean() < 0.005
    apart = np.abs(ours.rgb[same].astype(int) - theirs.rgb[same]).max(-1)
    assert np.mean(apart <= 2) > 0.99  # what is left are edges of shadows and of the table's squares
    seen = set(np.unique(theirs.segmentation))
    assert {TABLE, ROBOT} <= seen and len(seen) > 4 and (camera is WRIST or BACKGROUND in seen)


def test_kinematics_are_those_of_mujoco(scenes, states):
    models = [s.model for s in scenes]
    at, turn = poses.body_poses(poses.tree_of(models[0]), poses.bodies_of(models), states)
    for model, qpos, pos, quat in zip(models, states, at, turn, strict=True):
        data = mujoco.MjData(model)
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        np.testing.assert_allclose(pos, data.xpos, atol=1e-9)
        np.testing.assert_allclose(rotation_matrices(quat).reshape(-1, 9), data.xmat, atol=1e-9)


@pytest.mark.parametrize("camera", OBSERVED, ids=["front", "wrist"])
def test_an_object_is_seen_where_its_centre_is_projected(scenes, camera):
    scene = scenes[0]
    data = mujoco.MjData(scene.model)
    data.qpos[:] = scene.qpos
    mujoco.mj_forward(scene.model, data)
    grip = data.site("grip")
    found = render.frames(scene.model, scene.qpos[None], camera, height=96, width=96, samples=1)
    compared = 0
    for token in (t for t in range(6) if scene.present[t]):
        rows, columns = np.nonzero(found.segmentation[0] == token)
        if len(rows) < 12 or rows.min() == 0 or columns.min() == 0 or rows.max() == 95 or columns.max() == 95:
            continue  # out of the picture, or cut by its edge
        body = data.body(f"o{token}")
        place, depth = seen_at(camera, body.xpos[None, None], grip.xpos[None], grip.xmat.reshape(1, 3, 3), 1.0)
        box = [(columns.min() + columns.max() + 1) / 96 - 1, 1 - (rows.min() + rows.max() + 1) / 96]
        np.testing.assert_allclose(place[0, 0], box, atol=0.12)
        assert depth[0, 0] == pytest.approx(np.median(found.depth[0][rows, columns]), abs=0.08)
        compared += 1
    assert compared


def test_any_number_of_states_needs_one_executable(scenes, states):
    renderer = Batched(raycast.frames, 4)
    pictures = renderer(scenes, states, FRONT, 24, 24)
    before = raycast.cast._cache_size()  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_array_equal(renderer(scenes[2:5], states[2:5], FRONT, 24, 24), pictures[2:5])
    np.testing.assert_array_equal(renderer(scenes[:1], states[:1], WRIST, 24, 24).shape, (1, 24, 24, 3))
    assert raycast.cast._cache_size() == before  # pyright: ignore[reportAttributeAccessIssue]


def test_what_rays_do_not_know_is_named():
    mesh = "<mesh name='t' vertex='0 0 0 1 0 0 0 1 0 0 0 1'/>"
    model = mujoco.MjModel.from_xml_string(
        f"<mujoco><asset>{mesh}</asset><worldbody><body name='o0'><geom name='odd' type='mesh' mesh='t'/></body></worldbody></mujoco>"
    )
    with pytest.raises(ValueError, match="geom 'odd' is no plane"):
        raycast.frames([model], np.zeros((1, 0)))
    with pytest.raises(ValueError, match="2 models for 1 states"):
        raycast.frames([model, model], np.zeros((1, 0)))
