"""Worlds as functions: values that can be stepped again, worlds that end and begin anew, and the example of the documentation."""

import dataclasses
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax import config as settings
from coda_jax.doors.functions import Worlds, suite_scenes
from coda_jax.evaluation.rollouts import rollout
from coda_jax.loop import parts
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.compile import SceneError
from coda_jax.sim.simulator import episode_of


@pytest.fixture(scope="module")
def config():
    config = settings.default()
    config.horizon.pick_place = 6
    return config


@pytest.fixture(scope="module")
def scenes():
    return suite_scenes("pick_place", "id")[:4]


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def test_a_state_is_a_value(config, scenes):
    worlds = Worlds(scenes, 3, config)
    state, obs = worlds.reset(scenes, jax.random.key(0))
    again, _ = worlds.reset(scenes, jax.random.key(1))
    assert [s.scene_id for s in state.scenes] != [s.scene_id for s in again.scenes]
    action = np.random.default_rng(0).uniform(-1, 1, (3, 7))
    first, seen, _ = worlds.step(state, action)
    worlds.step(first, -action)
    second, same, _ = worlds.step(state, action)
    for a, b in zip(leaves(seen), leaves(same), strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.abs(seen.ee_pos - obs.ee_pos).max() > 1e-3
    assert not second.ended.any()


def test_an_episode_is_that_of_a_rollout(config, scenes):
    """The same actions by the usual path give the same states."""
    worlds, catalogue, rng = Worlds(scenes, 2, config), Catalogue.all(), np.random.default_rng(1)
    chunks = rng.uniform(-1, 1, (3, 2, 2, 7)).astype(np.float32)
    sim = parts.native_simulator(config, catalogue, parts.common_bucket(list(scenes), catalogue))
    left = iter(chunks)

    def act(obs, keys):
        whole = np.zeros((sim.worlds, 2, 7), np.float32)
        whole[:2] = next(left)
        return whole

    episodes = [episode_of(spec, 6, (i, 0)) for i, spec in enumerate(scenes[:2])]
    encode = parts.encoder_of().encode
    results = sorted(rollout(sim, catalogue, episodes, act, encode, 2, jax.random.key(0)), key=lambda r: r.episode.key)
    state, _ = worlds.place(scenes[:2])
    for chunk in chunks:
        state, _, outcome = worlds.step(state, chunk)
    assert outcome.truncated.all() and outcome.reward.tolist() == [0, 0]
    for w, result in enumerate(results):
        np.testing.assert_array_equal(np.asarray(state.simulated.physics["qpos"][w], np.float32), result.qpos[-1])
        np.testing.assert_array_equal(outcome.predicates[w], result.predicates[-1])


def test_ended_worlds_stand_still_until_they_are_restarted(config, scenes):
    worlds = Worlds(scenes, 2, config)
    state, _ = worlds.place(scenes[:2])
    for _ in range(6):
        state, obs, outcome = worlds.step(state, np.full((2, 7), 0.2))
    assert outcome.truncated.all() and state.ended.all()
    after, still, nothing = worlds.step(state, np.ones((2, 7)))
    np.testing.assert_array_equal(still.ee_pos, obs.ee_pos)
    assert not nothing.truncated.any() and not nothing.predicates.any()
    fresh, begun = worlds.restart(after, np.array([False, True]), [scenes[3]])
    assert fresh.ended.tolist() == [True, False] and fresh.scenes[1] == scenes[3]
    np.testing.assert_array_equal(begun.ee_pos[0], still.ee_pos[0])
    placed, first = worlds.place([scenes[0], scenes[3]])
    for a, b in zip(leaves(begun), leaves(first), strict=True):
        np.testing.assert_array_equal(a[1], b[1])
    moved, _, _ = worlds.step(fresh, np.full((2, 7), 0.2))
    assert moved.simulated.view.control_step.tolist() == [6, 1] and not placed.ended.any()


def test_what_cannot_be_stepped_is_refused(config, scenes):
    worlds = Worlds(scenes, 2, config)
    state, _ = worlds.place(scenes[:2])
    with pytest.raises(ValueError, match=r"action has shape \(2, 6\); it must be \(2, 7\)"):
        worlds.step(state, np.zeros((2, 6)))
    with pytest.raises(ValueError, match=r"not finite in worlds \[1\]"):
        worlds.step(state, np.array([[0.0] * 7, [np.nan] * 7]))
    with pytest.raises(ValueError, match="1 scene for 2 worlds: give one for each"):
        worlds.place(scenes[:1])
    with pytest.raises(TypeError, match=r"'a' is no scene: give SceneSpec"):
        worlds.place(["a", "b"])  # type: ignore[list-item]
    for key in (0, np.zeros(3)):
        with pytest.raises(ValueError, match=r"it must be a key of jax, e.g. jax.random.key\(0\)"):
            worlds.reset(scenes, key)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no scenes: give at least one"):
        worlds.reset([], jax.random.key(0))
    drawer = suite_scenes("articulated", "id")[0]
    with pytest.raises(SceneError, match=r"of family articulated needs bucket f\d+g\d+a, these worlds have f\d+g\d+: make Worlds with all"):
        worlds.restart(state, np.array([True, False]), [drawer])
    with pytest.raises(ValueError, match="2 scenes for 1 world to restart"):
        worlds.restart(state, np.array([True, False]), scenes[:2])
    for which in (np.array([1, 0]), np.array([0]), np.array([True]), np.array([[True, False]])):
        with pytest.raises(ValueError, match=r"which is \w+ of shape .*; it must be bool of shape \(2,\)"):
            worlds.restart(state, which, scenes[:1])
    assert worlds.restart(state, np.array([True, False]), scenes[:1])[0].scenes[0] == scenes[0]
    with pytest.raises(ValueError, match="no scenes"):
        Worlds([], 2, config)


def test_clipped_entries_act_like_the_bounds(config, scenes):
    worlds = Worlds(scenes, 1, config)
    state, _ = worlds.place(scenes[:1])
    beyond, within = (worlds.step(state, np.full((1, 7), entry))[1] for entry in (7.0, 1.0))
    np.testing.assert_array_equal(beyond.ee_pos, within.ee_pos)


def _run_examples(page):
    for number, example in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S)):
        exec(compile(example, f"{page.name}, example {number}", "exec"), {})


def test_the_example_of_the_documentation(repository, capsys):
    _run_examples(repository / "docs" / "doors.md")
    assert re.search(r"^0 of 8 succeeded, closest grip 0\.\d+ m$", capsys.readouterr().out, re.M)


def test_the_example_of_the_pictures(repository, capsys):
    _run_examples(repository / "docs" / "pictures.md")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and all(line.startswith("(2, 64, 64, 3) ") and ", 8, 9" in line for line in lines)


def test_what_is_drawn_is_the_same_on_mjx(scenes):
    """Models and coordinates come in the native layout whatever simulates."""
    own = settings.default()
    native = Worlds(scenes, 2, own).place(scenes[:2])[0]
    batch = SimpleNamespace(models=None, bucket=native.batch.bucket, episodes=native.batch.episodes)
    physics = SimpleNamespace(qpos=jnp.asarray(native.qpos))
    other = dataclasses.replace(native, batch=batch, simulated=dataclasses.replace(native.simulated, physics=physics))
    assert [m.nq for m in other.models] == [m.nq for m in native.models]
    np.testing.assert_allclose(other.qpos, native.qpos, atol=1e-6)
    for one, same in zip(native.models, other.models, strict=True):
        np.testing.assert_array_equal(one.geom_size, same.geom_size)
