"""A simulator with eyes behaves as without, and shows the states in which its worlds stand."""

import numpy as np

from coda_jax.sim import eyes
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.cameras import FRONT, WRIST
from coda_jax.sim.eyes import Eyes
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.panda import PANDA
from coda_jax.sim.render import NativeRenderer, render
from coda_jax.sim.simulator import episode_of
from tests.sim.tabletop import BALL, BLOCK, BOARD, CAN, CATALOGUE, scene

W, SIZE = 3, 24


def test_eyes_show_the_present_state_and_change_nothing():
    specs = [scene(BLOCK, BOARD), scene(CAN, BALL, BOARD)]
    episodes = [episode_of(spec, 20, (i, 0)) for i, spec in enumerate(specs)]
    bucket = Bucket(2, 3)
    plain = NativeSimulator(CATALOGUE, bucket, W, 1)
    watched = Eyes(NativeSimulator(CATALOGUE, bucket, W, 1), CATALOGUE, PANDA, NativeRenderer(1), SIZE, SIZE)
    batch, other = plain.compile(episodes), watched.compile(episodes)
    state, seen = plain.reset(batch), watched.reset(other)
    first = watched.look()
    assert first.shape == (W, 2, SIZE, SIZE, 3) and watched.frames == 4
    assert first[:2].std() > 10 and not first[2].any()  # the third world is padding
    chunk = np.zeros((W, 4, 7), np.float32)
    chunk[..., 2], chunk[..., 1] = -1.0, 0.5
    state, _ = plain.step_chunk(batch, state, chunk)
    seen, _ = watched.step_chunk(other, seen, chunk)
    np.testing.assert_array_equal(state.physics["qpos"], seen.physics["qpos"])
    moved = watched.look()
    assert (moved[:2] != first[:2]).any(axis=(2, 3, 4)).all()
    for world, built in enumerate(batch.models[:2]):
        for number, camera in enumerate((FRONT, WRIST)):
            wanted = render(built.model, state.physics["qpos"][world], camera, height=SIZE, width=SIZE, samples=1)[0]
            np.testing.assert_array_equal(moved[world, number], wanted)
    other, seen = watched.replace(other, seen, [1], [episodes[0]])
    np.testing.assert_array_equal(watched.look()[1], first[0])
    assert watched.seconds > 0 and watched.physics_steps == plain.physics_steps


def test_scenes_of_the_native_backend_are_not_compiled_again(monkeypatch):
    def again(*_):
        raise AssertionError("compiled again")

    monkeypatch.setattr(eyes, "compile_scene", again)
    looking = Eyes(NativeSimulator(CATALOGUE, Bucket(2, 3), W, 1), CATALOGUE, PANDA, NativeRenderer(1), SIZE, SIZE)
    first, second = (episode_of(scene(thing, BOARD), 20, (0, 0)) for thing in (BLOCK, CAN))
    batch = looking.compile([first, first])
    state = looking.reset(batch)
    before = looking.look()
    looking.replace(batch, state, [1], [second])
    assert (looking.look()[1] != before[1]).any() and (looking.look()[0] == before[0]).all()
