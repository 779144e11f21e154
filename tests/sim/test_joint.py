"""The articulated slot: joints behave as stated, views show the handle, and scenes without one do not notice it."""

import mujoco
import numpy as np
import pytest

from coda_jax.programs.expressions import Expr
from coda_jax.scenes.articulated import Articulated
from coda_jax.scenes.spec import from_json, to_json
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import SceneError, bucket_of, compile_scene, token_index
from coda_jax.sim.joint import JointReader
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.simulator import Episode
from coda_jax.types import ARTICULATED_TOKEN, FREE_SLOTS
from tests.sim.articulated import ONE_OF_EACH, articulated
from tests.sim.tabletop import BLOCK, BOARD, CAN, CATALOGUE, Thing
from tests.sim.test_native import EPISODES, assert_same, busy_chunk, run

PLAIN, JOINTED = Bucket(4, 3), Bucket(4, 3, True)


def episode(spec, *more: Expr) -> Episode:
    (name,) = spec.with_role("target")
    return Episode(spec, (Expr("at_least", (Expr("lifted", (name,)), 1.0)), Expr("opening", (name,)), *more), 60, (0, 0))


def test_the_bucket_says_whether_there_is_a_joint():
    assert bucket_of(articulated("dresser_00"), CATALOGUE) == Bucket(2, 1, True)
    assert Bucket(2, 1, True).name == "f2g1a" and Bucket(2, 1).name == "f2g1"
    assert bucket_of(EPISODES[0].spec, CATALOGUE) == Bucket(2, 1)


def test_scenes_without_a_joint_are_bit_identical_beside_the_unused_slot():
    _, plain, traces = run(NativeSimulator(CATALOGUE, PLAIN, 4, 1), EPISODES, busy_chunk())
    _, jointed, others = run(NativeSimulator(CATALOGUE, JOINTED, 4, 1), EPISODES, busy_chunk())
    assert_same(plain.view, jointed.view)
    for a, b in zip(traces, others, strict=True):
        np.testing.assert_array_equal(a.predicates, b.predicates)
        np.testing.assert_array_equal(a.qpos, b.qpos[..., :-1])
    assert not jointed.view.articulation_range.any()


@pytest.mark.parametrize("asset_id", ONE_OF_EACH)
def test_the_view_shows_the_handle_where_mujoco_has_it(asset_id):
    spec = articulated(asset_id, opening=0.4, yaw=0.5, others=(BLOCK,) if asset_id == "dial_00" else ())
    scene = compile_scene(spec, CATALOGUE, JOINTED)
    sim = NativeSimulator(CATALOGUE, JOINTED, 1, 1)
    state = sim.reset(sim.compile([episode(spec)]))
    view, asset = state.view, CATALOGUE.get(asset_id)
    assert isinstance(asset, Articulated)
    data = mujoco.MjData(scene.model)
    data.qpos[:] = state.physics["qpos"][0]
    mujoco.mj_kinematics(scene.model, data)
    handle = scene.model.geom(f"link_g{asset.link.handle[0]}").id
    token = ARTICULATED_TOKEN
    np.testing.assert_allclose(view.pos[0, token], data.geom_xpos[handle], atol=1e-6)
    quat = data.body("link").xquat
    np.testing.assert_allclose(view.quat[0, token] * np.sign(view.quat[0, token] @ quat), quat, atol=1e-6)
    assert view.present[0, token] and view.articulation[0, token] == pytest.approx(0.4 * asset.link.travel, abs=1e-4)
    assert view.articulation_range[0, token] == pytest.approx((0.0, asset.link.travel))
    np.testing.assert_allclose(
        np.sort(view.half_extent[0, token])[-1], max(asset.link.primitives[asset.link.handle[0]].size_m[:2]), atol=0.03
    )
    assert token_index(spec, CATALOGUE)[spec.with_role("target")[0]] == token


@pytest.mark.parametrize("asset_id", ONE_OF_EACH)
def test_velocities_are_the_change_of_the_pose(asset_id):
    reader = JointReader([compile_scene(articulated(asset_id, yaw=0.7), CATALOGUE, JOINTED).joint])
    value, speed, dt = np.array([0.05]), np.array([0.3]), 1e-6
    now, later = reader.read(value, speed), reader.read(value + speed * dt, speed)
    np.testing.assert_allclose((later[0] - now[0]) / dt, now[2], atol=1e-5)
    turned = 2 * (later[1] - now[1])[0] / dt  # of a quaternion: half the angular velocity times it
    w, x, y, z = now[1][0]
    back = np.array([[-x, w, -z, y], [-y, z, w, -x], [-z, -y, x, w]])
    np.testing.assert_allclose(back @ turned, now[3][0], atol=1e-5)


def pushed(spec, force: float, steps: int = 200) -> float:
    """Opening after a constant generalised force on the joint."""
    scene = compile_scene(spec, CATALOGUE, JOINTED)
    data = mujoco.MjData(scene.model)
    data.qpos[:] = scene.qpos
    data.ctrl[:] = [*scene.qpos[:7], 0.04, 0.04]
    joint = scene.model.joint("link")
    for _ in range(steps):
        data.qfrc_applied[joint.dofadr[0]] = force
        mujoco.mj_step(scene.model, data)
    return float(data.qpos[joint.qposadr[0]] / scene.joint.high)


def test_friction_holds_and_more_force_moves():
    spec = articulated("dresser_00", opening=0.3, friction=2.0)
    assert pushed(spec, 1.5) == pytest.approx(0.3, abs=0.01)
    assert pushed(spec, 4.0) > 0.95
    assert pushed(spec, -4.0) < 0.05


def test_a_spring_closes_what_friction_does_not_hold():
    loose = articulated("dresser_00", opening=1.0, friction=0.2, stiffness=25.0)
    assert pushed(loose, 0.0) < 0.3
    held = articulated("dresser_00", opening=1.0, friction=2.0, stiffness=10.0)
    assert pushed(held, 0.0) == pytest.approx(1.0, abs=0.01)


def test_damping_slows():
    def after(damping):
        return pushed(articulated("dresser_00", friction=0.2, damping=damping), 2.0, 20)

    assert after(40.0) < 0.6 * after(2.0)


def test_range_share_ends_the_motion():
    full, short = (compile_scene(articulated("chest_00", range_share=s), CATALOGUE, JOINTED) for s in (1.0, 0.5))
    assert short.model.joint("link").range[1] == pytest.approx(0.5 * full.model.joint("link").range[1])


def test_a_thing_on_the_link_touches_the_token():
    asset = CATALOGUE.get("wardrobe_00")
    top = 2 * asset.half_extent_m[2] - 0.005  # the case; its handle stands 0.005 m higher
    spec = articulated(
        "wardrobe_00", x=0.5, y=0.0, yaw=0.0, others=(Thing("block_1", "block_00", 0.53, 0.0, bottom=top, support="wardrobe_1"),)
    )
    sim = NativeSimulator(CATALOGUE, JOINTED, 1, 1)
    view = sim.reset(sim.compile([episode(spec)])).view
    assert view.contact[0, 0, ARTICULATED_TOKEN] and view.contact[0, ARTICULATED_TOKEN, 0]
    assert not view.contact[0, 0, FREE_SLOTS] and not view.contact[0, 0, -1]


def test_worlds_mix_slides_hinges_and_none():
    sim = NativeSimulator(CATALOGUE, JOINTED, 3, 1)
    episodes = [episode(articulated("dresser_00", 0.25)), EPISODES[1], episode(articulated("chest_00", 0.5))]
    batch = sim.compile(episodes)
    state = sim.reset(batch)
    opening = sim._values(batch, state.view)[:, 1]
    assert opening[[0, 2]] == pytest.approx((0.25, 0.5), abs=1e-3)
    alone = NativeSimulator(CATALOGUE, JOINTED, 3, 1)
    first = alone.compile([EPISODES[0], EPISODES[0], episodes[2]])
    begun = alone.reset(first)
    refilled, again = alone.replace(first, begun, [0, 1], episodes[:2])
    assert_same(again.view, state.view)
    assert refilled.episodes == batch.episodes


def test_what_does_not_fit_says_so():
    spec = articulated("dresser_00", others=(BLOCK, CAN))
    with pytest.raises(SceneError, match="dresser_1: bucket f4g3 has no slot for an articulated object"):
        compile_scene(spec, CATALOGUE, PLAIN)
    crowded = articulated("dresser_00", others=(BLOCK, BOARD, Thing("tray_1", "tray_00", 0.4, 0.25)))
    with pytest.raises(SceneError, match="3 fixtures"):
        token_index(crowded, CATALOGUE)


def test_fields_of_joints_are_absent_where_there_is_none():
    plain, jointed = to_json(EPISODES[0].spec), to_json(articulated("dresser_00", 0.2))
    assert "opening" not in plain and "articulation" not in plain
    assert '"opening":0.2' in jointed and '"range_share":1.0' in jointed
    spec = articulated("dresser_00", 0.2)
    assert from_json(jointed) == spec and from_json(plain) == EPISODES[0].spec
    assert EPISODES[0].spec.scene_id == from_json(plain).scene_id
