"""One template per bucket: what a compiled scene holds, and that nothing of another scene is left in it."""

import dataclasses
import itertools

import mujoco
import mujoco.batch
import numpy as np
import pytest

from coda_jax.scenes.assets import Primitive
from coda_jax.scenes.catalogue import CATEGORIES
from coda_jax.scenes.shapes.build import volume
from coda_jax.sim.bucket import FREE_SLOT_SIZES, GEOM_SLOT_SIZES, Bucket
from coda_jax.sim.compile import SceneError, bucket_of, compile_scene, contact_sensors, token_index
from coda_jax.sim.inertia import mass_distribution
from coda_jax.types import FIXTURE_SLOTS
from tests.sim.tabletop import BALL, BLOCK, BOARD, CAN, CATALOGUE, Thing, scene

BUCKETS = [Bucket(f, g) for f in FREE_SLOT_SIZES for g in GEOM_SLOT_SIZES]
HAMMER = Thing("hammer_1", "hammer_04", 0.45, 0.2, yaw=0.7, mass_kg=0.15)
BIN = Thing("bin_1", "bin_01", 0.6, 0.25, yaw=0.2)


@pytest.mark.parametrize("bucket", BUCKETS, ids=lambda b: b.name)
def test_every_bucket_compiles(bucket):
    compiled = compile_scene(scene(BLOCK, BOARD), CATALOGUE, bucket)
    model = compiled.model
    assert (model.nq, model.nv, model.nu) == (9 + 7 * bucket.free, 9 + 6 * bucket.free, 9)
    assert model.nsensordata == len(contact_sensors(bucket))
    geoms = [model.geom_bodyid == model.body(f"o{i}").id for i in range(bucket.free)]
    assert all(rows.sum() == bucket.geoms for rows in geoms)
    np.testing.assert_allclose(compiled.qpos[9:12], (0.5, 0.1, CATALOGUE.get("block_00").half_extent_m[2]))
    assert compiled.present.tolist() == [True] + [False] * 5 + [True, False]
    # a parked slot touches nobody
    parked = model.geom_bodyid == model.body("o1").id
    assert not model.geom_conaffinity[parked].any() and set(model.geom_contype[parked]) == {8}


def test_scenes_of_a_bucket_share_one_layout():
    bucket = Bucket(4, 3)
    scenes = [scene(BLOCK, BOARD), scene(HAMMER, CAN, BALL, BIN), scene(BALL, BLOCK, CAN, HAMMER), scene(CAN, BIN, BOARD)]
    models = [compile_scene(s, CATALOGUE, bucket).model for s in scenes]
    batch = mujoco.batch.Batch(models[0], len(models), nthread=1)
    batch.set_models(models)  # raises where a layout differs
    batch.step(nstep=2)


def _arrays(model):
    return {k: np.array(v) for k in dir(model) if not k.startswith("_") and isinstance(v := getattr(model, k), np.ndarray)}


def test_model_does_not_depend_on_what_was_compiled_before():
    bucket = Bucket(4, 3)
    sparse, full = scene(dataclasses.replace(BLOCK, friction=0.7, yaw=0.4), BOARD), scene(HAMMER, CAN, BALL, BLOCK, BIN, BOARD)
    first = _arrays(compile_scene(sparse, CATALOGUE, bucket).model)
    compile_scene(full, CATALOGUE, bucket)
    for name, value in _arrays(compile_scene(sparse, CATALOGUE, bucket).model).items():
        np.testing.assert_array_equal(value, first[name], err_msg=name)


def test_names_of_the_scene_do_not_reach_the_model():
    model = compile_scene(scene(dataclasses.replace(BLOCK, name="ignore_this"), BOARD), CATALOGUE, Bucket(2, 1)).model
    assert b"ignore_this" not in model.names and b"board" not in model.names


def _mujoco_inertia(asset, mass):
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body()
    body.add_freejoint()
    density = mass / sum(volume(p) for p in asset.primitives)
    for p in asset.primitives:
        body.add_geom(
            type=getattr(mujoco.mjtGeom, f"mjGEOM_{p.shape.upper()}"), size=p.size_m, pos=p.pos_m, quat=p.quat_wxyz, density=density
        )
    model = spec.compile()
    axes = np.empty(9)
    mujoco.mju_quat2Mat(axes, model.body_iquat[1])
    axes = axes.reshape(3, 3)
    return model.body_ipos[1], axes @ np.diag(model.body_inertia[1]) @ axes.T


@pytest.mark.parametrize("category", [c.name for c in CATEGORIES.values() if c.kind == "object"])
def test_mass_and_inertia_are_those_of_the_solid(category):
    asset = CATALOGUE.instances(category)[3]
    centre, tensor = mass_distribution(asset.primitives, 0.25)
    expected_centre, expected = _mujoco_inertia(asset, 0.25)
    np.testing.assert_allclose(centre, expected_centre, atol=1e-9)
    np.testing.assert_allclose(tensor, expected, atol=1e-6 * expected.max())
    thing = Thing("thing_1", asset.asset_id, 0.5, 0.0, mass_kg=0.25)
    body = compile_scene(scene(thing, BOARD), CATALOGUE, bucket_of(scene(thing, BOARD), CATALOGUE)).model.body("o0")
    assert body.mass[0] == pytest.approx(0.25)
    np.testing.assert_allclose(np.sort(body.inertia), np.sort(np.linalg.eigvalsh(expected)), rtol=1e-6)
    np.testing.assert_allclose(body.ipos, expected_centre, atol=1.1e-5)


@pytest.mark.parametrize("shape", ["box", "cylinder", "sphere", "capsule", "ellipsoid"])
def test_inertia_of_every_shape(shape):
    size = {"sphere": (0.03, 0.0, 0.0), "cylinder": (0.02, 0.05, 0.0), "capsule": (0.02, 0.05, 0.0)}.get(shape, (0.02, 0.03, 0.05))
    turned = Primitive(shape, size, (0.01, -0.02, 0.03), (0.8, 0.0, 0.6, 0.0))
    asset = dataclasses.replace(CATALOGUE.get("block_00"), primitives=(turned, Primitive("box", (0.01, 0.02, 0.01), (0.0, 0.05, 0.0))))
    centre, tensor = mass_distribution(asset.primitives, 0.2)
    expected_centre, expected = _mujoco_inertia(asset, 0.2)
    np.testing.assert_allclose(centre, expected_centre, atol=1e-9)
    np.testing.assert_allclose(tensor, expected, atol=1e-6 * expected.max())


def test_who_collides_with_whom():
    model = compile_scene(scene(BLOCK, CAN, BOARD), CATALOGUE, Bucket(2, 1)).model

    def collide(a, b):
        return bool(model.geom_contype[a] & model.geom_conaffinity[b] or model.geom_contype[b] & model.geom_conaffinity[a])

    table, pad, palm = (model.geom(n).id for n in ("table", "pad_left", "palm"))
    block, can, board = (model.geom(n).id for n in ("o0_g0", "o1_g0", "f0_g0"))
    for a, b in itertools.combinations((table, board), 2):
        assert not collide(a, b)
    for robot in (pad, palm):
        assert all(collide(robot, other) for other in (table, board, block, can))
    assert not collide(pad, palm)
    for a, b in ((block, can), (block, board), (block, table)):
        assert collide(a, b)


def test_friction_of_the_object_decides():
    model = compile_scene(scene(dataclasses.replace(BLOCK, friction=0.3), BOARD), CATALOGUE, Bucket(2, 1)).model
    data = mujoco.MjData(model)
    data.qpos[:] = compile_scene(scene(dataclasses.replace(BLOCK, friction=0.3), BOARD), CATALOGUE, Bucket(2, 1)).qpos
    data.qpos[11] -= 1e-4
    mujoco.mj_forward(model, data)
    assert data.ncon and all(c.friction[0] == pytest.approx(0.3) for c in data.contact)  # the table's 1.0 would win without priority


def test_tokens_follow_the_program_within_each_kind():
    index = token_index(scene(BIN, CAN, BOARD, BLOCK), CATALOGUE)
    assert index == {"can_1": 0, "block_1": 1, "bin_1": 6, "board_1": 7}


def test_what_cannot_be_built_is_named():
    with pytest.raises(SceneError, match=r"can_1: does not fit bucket f2g1 \(2 free objects of 1 geoms\)"):
        compile_scene(scene(BLOCK, BALL, CAN, BOARD), CATALOGUE, Bucket(2, 1))
    with pytest.raises(SceneError, match=r"hammer_1: does not fit bucket f2g1"):
        compile_scene(scene(HAMMER, BOARD), CATALOGUE, Bucket(2, 1))
    with pytest.raises(SceneError, match=r"block_1: unknown colour 'mauve'; use one of black, blue"):
        compile_scene(scene(dataclasses.replace(BLOCK, colour="mauve"), BOARD), CATALOGUE, Bucket(2, 1))
    fixtures = [dataclasses.replace(BIN, name=f"bin_{i}") for i in range(FIXTURE_SLOTS + 1)]
    with pytest.raises(SceneError, match=r"1 free objects and 3 fixtures; at most 6 and 2: remove some"):
        compile_scene(scene(BLOCK, *fixtures), CATALOGUE, Bucket(2, 1))
    crowd = [dataclasses.replace(BLOCK, name=f"block_{i}") for i in range(7)]
    with pytest.raises(SceneError, match=r"7 free objects; at most 6 fit: remove 1"):
        bucket_of(scene(*crowd, BOARD), CATALOGUE)


def test_bucket_of_a_scene_is_the_smallest():
    assert bucket_of(scene(BLOCK, BOARD), CATALOGUE) == Bucket(2, 1)
    assert bucket_of(scene(BLOCK, CAN, BALL, BOARD), CATALOGUE) == Bucket(4, 1)
    assert bucket_of(scene(HAMMER, BLOCK, BOARD), CATALOGUE) == Bucket(2, 3)
