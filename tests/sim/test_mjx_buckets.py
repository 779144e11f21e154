"""The declared MJX buckets: every scene has one, layouts are native ones, and what a scene leaves empty touches nothing."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from coda_jax.scenes import families, generate
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim import mjx_buckets, mjx_model, mjx_pairs
from coda_jax.sim.bucket import FREE_SLOT_SIZES, GEOM_SLOT_SIZES, Bucket
from coda_jax.sim.compile import SceneError, bucket_of, compile_scene
from coda_jax.sim.mjx_buckets import MJX_BUCKETS, declared, holds
from tests.sim.articulated import ONE_OF_EACH, articulated

CATALOGUE = Catalogue.all()
NATIVE = [Bucket(f, g, a) for f in FREE_SLOT_SIZES for g in GEOM_SLOT_SIZES for a in (False, True)]


def test_at_most_eight_take_every_native_bucket():
    assert len(MJX_BUCKETS) <= 8
    for bucket in NATIVE:
        mine = declared(bucket)
        assert holds(bucket) and mine.free >= bucket.free and mine.articulated == bucket.articulated
        assert MJX_BUCKETS[mine].slot.count("box") >= bucket.geoms and len(MJX_BUCKETS[mine].slot) == mine.geoms
    assert not holds(Bucket(8, 1))
    with pytest.raises(SceneError, match=r"f8g1 has no MJX executable.*native"):
        declared(Bucket(8, 1))
    with pytest.raises(SceneError, match=r"f2g3 is not declared for MJX; its scenes run in f2g7"):
        mjx_model.frame(Bucket(2, 3))


@pytest.mark.parametrize("family", families.names())
def test_training_scenes_become_fields_of_their_bucket(family):
    for seed in range(6):
        spec = generate.sample_spec(Catalogue("train"), family, "id", "train", seed)
        bucket = declared(bucket_of(spec, CATALOGUE))
        scene, fields, qpos = mjx_model.scene_fields(spec, CATALOGUE, bucket)
        model, extra = mjx_model.frame(bucket), int(bucket.articulated)
        assert qpos.shape == (model.nq,) and scene.model.nq + extra == model.nq and scene.model.ngeom == model.ngeom
        assert fields["geom_size"].shape == (model.ngeom, 3) and fields["dof_M0"].shape == (model.nv,)
        solid = scene.model.geom_group != 5
        np.testing.assert_array_equal(scene.model.geom_type[solid], model.geom_type[solid])
        for bits in ("geom_contype", "geom_conaffinity", "geom_priority", "geom_condim"):
            np.testing.assert_array_equal(getattr(scene.model, bits)[solid], getattr(model, bits)[solid], err_msg=bits)
        # masses and inertia are those of the true shapes
        own = compile_scene(spec, CATALOGUE, bucket_of(spec, CATALOGUE)).model
        for name in [f"o{i}" for i in range(min(bucket_of(spec, CATALOGUE).free, bucket.free))] + ["link"] * extra:
            np.testing.assert_allclose(scene.model.body(name).mass, own.body(name).mass)
            np.testing.assert_allclose(scene.model.body(name).inertia, own.body(name).inertia)
            np.testing.assert_allclose(scene.model.body(name).ipos, own.body(name).ipos)


@pytest.mark.parametrize("bucket", MJX_BUCKETS, ids=lambda b: b.name)
def test_every_slot_collides_while_mjx_traces(bucket):
    model = mjx_model.frame(bucket)
    assert set(model.geom_contype[model.geom_group == 5]) == {1, 2}
    assert set(mjx_pairs.kinds(bucket)) == {"plane box", "plane capsule", "box box", "capsule box", "capsule capsule"}
    fixed = [g for g in range(model.ngeom) if model.geom(g).name.startswith(("f", "base")) or model.geom(g).name == "table"]
    for pairs in mjx_pairs.kinds(bucket).values():
        assert not (np.isin(pairs[:, 0], fixed) & np.isin(pairs[:, 1], fixed)).any(), "static things never meet"


@pytest.mark.parametrize("asset_id", ONE_OF_EACH)
def test_the_joint_that_a_link_has_not_is_without_an_axis(asset_id):
    bucket = declared(bucket_of(spec := articulated(asset_id, opening=0.4, friction=0.7, damping=0.9, stiffness=0.2), CATALOGUE))
    scene, fields, qpos = mjx_model.scene_fields(spec, CATALOGUE, bucket)
    own, blank = (-1, -2) if scene.joint.hinge else (-2, -1)
    assert qpos[own] == pytest.approx(scene.joint.start) and qpos[own] > 0 == qpos[blank]
    assert not fields["jnt_axis"][blank].any() and np.linalg.norm(fields["jnt_axis"][own]) == pytest.approx(1.0)
    assert fields["jnt_range"][own][1] == pytest.approx(scene.joint.high) and fields["jnt_range"][blank][0] == 0.0
    for name, value in (("dof_frictionloss", 0.7), ("dof_damping", 0.9), ("jnt_stiffness", 0.2)):
        assert fields[name][own] == pytest.approx(value), name
    assert fields["dof_damping"][blank] == fields["jnt_stiffness"][blank] == 0.0
    assert fields["dof_M0"][blank] * fields["dof_invweight0"][blank] == pytest.approx(1.0)


def test_empty_geoms_lie_inside_of_solid_ones():
    spec = articulated("chest_00", opening=0.5)
    scene, fields, _ = mjx_model.scene_fields(spec, CATALOGUE, declared(bucket_of(spec, CATALOGUE)))
    empty = np.flatnonzero((scene.model.geom_group == 5) & np.isin(scene.model.geom_bodyid, [scene.model.body("link").id]))
    first = scene.model.geom("link_g0")
    assert len(empty) and fields["geom_rbound"][empty].max() < 0
    local = np.abs(fields["geom_pos"][empty] - first.pos)  # in the frame of a box that is not turned
    assert (local + mjx_model.EMPTY_SIZE_M <= np.array(first.size) + 1e-9).all()


def test_a_dropped_pair_that_overlaps_is_reported(monkeypatch):
    bucket = Bucket(2, 2)
    model = mjx_model.frame(bucket)
    size = np.array(model.geom_size)
    pos, mat = (
        np.stack([np.arange(model.ngeom) * 3.0, np.zeros(model.ngeom), np.zeros(model.ngeom)], 1),
        np.tile(np.eye(3), (model.ngeom, 1, 1)),
    )
    radius = np.linalg.norm(size, axis=1)
    first, second = model.geom("o0_g0").id, model.geom("o1_g0").id
    size[[first, second]], radius[[first, second]] = (0.02, 0.02, 0.02), 0.035

    def hidden() -> bool:
        return bool(mjx_pairs.hidden(bucket, *(jnp.asarray(x, jnp.float32) for x in (pos, mat, size, radius))))

    pos[second] = pos[first] + (0.03, 0.03, 0.0)
    assert not hidden()  # the pair that overlaps most is tested
    monkeypatch.setitem(MJX_BUCKETS, bucket, dataclasses.replace(MJX_BUCKETS[bucket], pairs=1))
    for geom in (model.geom("pad_left").id, model.geom("f0_g0").id):  # a closer pair of spheres takes the only place
        pos[geom], size[geom], radius[geom] = pos[first] + (1.0, 0.0, 0.0), (0.001, 0.001, 0.001), 0.5
    assert hidden()
    turned = np.array([[np.sqrt(0.5), -np.sqrt(0.5), 0], [np.sqrt(0.5), np.sqrt(0.5), 0], [0, 0, 1]])
    pos[second] = pos[first] + (0.036, 0.036, 0.0)  # spheres overlap, boxes with a face at 45 degrees do not
    mat[second] = turned
    assert not hidden()
    pos[second] = pos[first]
    radius[second] = mjx_model._NEVER_M
    assert not hidden()  # empty


def test_capsules_count_with_their_caps():
    half = mjx_pairs._half_boxes(mjx_model.frame(Bucket(2, 2)), jnp.full((mjx_model.frame(Bucket(2, 2)).ngeom, 3), 0.01))
    capsules = mjx_model.frame(Bucket(2, 2)).geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE
    np.testing.assert_allclose(np.asarray(half)[capsules], np.tile([0.01, 0.01, 0.02], (capsules.sum(), 1)))
    np.testing.assert_allclose(np.asarray(half)[~capsules], 0.01)


def test_what_no_slot_takes_names_the_geom_and_the_ways_out():
    ball = CATALOGUE.get("ball_00").primitives
    with pytest.raises(ValueError, match=r"geom 0, a sphere.*python -m benchmarks.mjx_lint.*sim.backend=native"):
        mjx_buckets.fit(Bucket(2, 2), "fixture", ball)
