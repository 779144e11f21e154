"""Environments of gymnasium: its own checker, its autoreset modes, seeds, and nothing that a caller keeps changes under him."""

import dataclasses
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space

from coda_jax import config as settings
from coda_jax.doors import gym
from coda_jax.doors.gym import SuiteEnv, SuiteVectorEnv
from coda_jax.types import Observation

HORIZON = 5


@pytest.fixture(scope="module")
def config():
    config = settings.default()
    config.horizon.pick_place = HORIZON
    return config


def same(a, b):
    return all(np.array_equal(a[name], b[name]) for name in a)


def test_every_field_of_an_observation_has_a_space():
    assert {f.name for f in dataclasses.fields(Observation)} - {"pixels"} == set(gym.observation_space().spaces)


@pytest.mark.filterwarnings("error::DeprecationWarning")
def test_gymnasiums_own_checker_passes():
    env = gymnasium.make(f"coda_jax.doors.gym:{gym.ID}", family="pick_place", suite="id")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        check_env(env.unwrapped)
    told = {str(w.message) for w in found}
    assert all("infinity" in text for text in told), told  # positions and velocities have no bounds
    env.close()


def test_a_batch_behaves_as_gymnasiums_own_of_single_worlds(config):
    """The same seeds and actions give what SyncVectorEnv gives, over the ends of episodes, in each of its autoreset modes."""
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        ours = SuiteVectorEnv(2, config=config, autoreset_mode=mode)
        theirs = SyncVectorEnv([lambda: SuiteEnv(config=config)] * 2, autoreset_mode=mode)
        assert ours.observation_space == theirs.observation_space == batch_space(ours.single_observation_space, 2)
        assert ours.action_space == theirs.action_space
        ours.action_space.seed(0)
        (a, info_a), (b, info_b) = ours.reset(seed=3), theirs.reset(seed=3)
        assert same(a, b) and a in ours.observation_space and info_a["scene"].tolist() == info_b["scene"].tolist()
        seen = []
        for _ in range(2 * HORIZON + 3):
            action = ours.action_space.sample()
            a, *flags, info_a = ours.step(action)
            b, *expected, info_b = theirs.step(action)
            assert same(a, b)
            for got, want in zip(flags, expected, strict=True):
                np.testing.assert_array_equal(got, want)
                assert got.dtype == want.dtype
            if "final_obs" in info_b:
                assert all(same(x, y) for x, y in zip(info_a["final_obs"], info_b["final_obs"], strict=True))
                assert info_a["final_info"].keys() == info_b["final_info"].keys()
            for name in ("scene", "success", "health"):
                assert (name in info_a) == (name in info_b)
                if name in info_a:
                    np.testing.assert_array_equal(info_a[f"_{name}"], info_b[f"_{name}"])
                    np.testing.assert_array_equal(info_a[name], info_b[name])
            seen.append(flags[2].tolist())
        assert seen.count([True, True]) == 2


def test_worlds_are_reset_by_hand_where_nothing_does_it(config):
    env = SuiteVectorEnv(2, config=config, autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros((2, 7)))
    env.reset(seed=0)
    for _ in range(3):
        env.step(np.zeros((2, 7)))
    before, info = env.reset(options={"reset_mask": np.array([True, False]), "scenes": np.array([7, 0])})
    assert info["_scene"].tolist() == [True, False] and info["scene"][0] == 7
    assert info["instruction"][0] == env.scenes[7].task.instruction
    *_, truncated, _ = [env.step(np.zeros((2, 7))) for _ in range(2)][-1]
    assert truncated.tolist() == [False, True]
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"worlds \[1\] have ended"):
        env.step(np.zeros((2, 7)))
    after, _ = env.reset(options={"reset_mask": np.array([False, True])})
    assert not np.array_equal(after["pos"], before["pos"])
    for wrong in (np.array([False, False]), [True, True], np.array([True])):
        with pytest.raises(ValueError, match="reset_mask"):
            env.reset(options={"reset_mask": wrong})
    for wrong in ([0, 1000], [-1, 0], [0.5, 1.0], [1]):
        with pytest.raises(ValueError, match=r"2 numbers from 0 to 49"):
            env.reset(options={"scenes": np.array(wrong)})
    with pytest.raises(ValueError, match="there are: scenes, reset_mask"):
        env.reset(options={"scene": 1})


@pytest.mark.parametrize("shape", [(3, 7), (1, 7), (6,), ()])
def test_a_step_takes_one_action(config, shape):
    env, batch = SuiteEnv(config=config), SuiteVectorEnv(2, config=config)
    env.reset(seed=0)
    batch.reset(seed=0)
    with pytest.raises(ValueError, match=r"one control step takes \(7,\)"):
        env.step(np.zeros(shape, np.float32))
    with pytest.raises(ValueError, match=r"one control step takes \(2, 7\)"):
        batch.step(np.zeros((2, *shape), np.float32))


def test_one_world_refuses_options_that_it_does_not_know(config):
    env = SuiteEnv(config=config)
    assert env.reset(options={"scene": 3})[1]["scene"] == 3
    with pytest.raises(ValueError, match=r"options has \['scenes'\]; there is: scene"):
        env.reset(options={"scenes": [3]})


def test_seeds_belong_to_worlds(config):
    """World 1 of a batch seeded with 3 meets the scenes that world 0 seeded with 4 meets; without a seed the draws go on."""
    env = SuiteVectorEnv(2, config=config)
    drawn = [env.reset(seed=3)[1]["scene"], *[env.reset()[1]["scene"] for _ in range(4)]]
    other = [env.reset(seed=[4, 3])[1]["scene"], *[env.reset()[1]["scene"] for _ in range(4)]]
    np.testing.assert_array_equal(np.array(drawn), np.array(other)[:, ::-1])
    assert len({tuple(d) for d in drawn}) > 1
    with pytest.raises(ValueError, match="1 seed for 2 worlds"):
        env.reset(seed=[1])


def test_success_is_rewarded_once_and_ends_the_episode(config, monkeypatch):
    """A goal that the rising arm reaches: the grip point 0.28 m over the table."""
    from coda_jax.programs.expressions import Expr
    from coda_jax.scenes import families

    monkeypatch.setattr(families, "success", lambda spec: Expr("at_least", (Expr("height_above", ("gripper", "table")), 0.28)))
    env = SuiteVectorEnv(1, config=config)
    env.reset(seed=0)
    up = np.array([[0, 0, 1, 0, 0, 0, -1]], np.float32)
    rewards, ends = [], []
    for _ in range(4):
        _, reward, terminated, truncated, _ = env.step(up)
        rewards.append(float(reward[0]))
        ends.append((bool(terminated[0]), bool(truncated[0])))
    assert rewards.count(1.0) == 1 and all(end == (reward == 1, False) for reward, end in zip(rewards, ends, strict=True))


def test_make_vec_makes_the_batch(config):
    env = gymnasium.make_vec(f"coda_jax.doors.gym:{gym.ID}", num_envs=3, suite="layouts", config=config)
    assert isinstance(env.unwrapped, SuiteVectorEnv) and env.num_envs == 3
    obs, _ = env.reset(seed=0)
    assert obs["text"].shape == (3, 8, 384)
    env.close()


def test_pictures_are_not_promised():
    with pytest.raises(ValueError, match="draw nothing"):
        SuiteEnv(render_mode="rgb_array")
