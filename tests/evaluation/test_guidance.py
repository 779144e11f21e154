"""Rollouts by an actor: what it is told equals how the same episode is labelled afterwards, and no world depends on another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.evaluation.guidance import Choices, Guided
from coda_jax.evaluation.rollouts import rollout
from coda_jax.learning.actor import Selection
from coda_jax.programs.expressions import Expr
from coda_jax.programs.training import values
from coda_jax.programs.training.code import code
from coda_jax.programs.training.program import SparseProgram, Subgoal, TrainingProgram
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.potentials import program_scene
from coda_jax.sim.simulator import episode_of

HORIZON, EXECUTED = 18, 4
NEAR = Expr("distance", ("gripper", "target"))
OPEN = Expr("gripper_opening", ())


def program(latched: bool, near_m: float = 0.3) -> TrainingProgram:
    """Near the target, then the gripper closed (which the rollouts undo again), then success."""
    stages = (
        Subgoal("near", Expr("at_most", (NEAR, near_m)), Expr("ramp", (NEAR, 0.6, near_m))),
        Subgoal("closed", Expr("at_most", (OPEN, 0.03)), Expr("ramp", (OPEN, 0.08, 0.03))),
        Subgoal("placed", Expr("success", ()), Expr("ramp", (Expr("lifted", ("target",)), 0.0, 0.1))),
    )
    return TrainingProgram(stages, latched=latched)


@pytest.fixture(scope="module")
def specs():
    return [sample_spec(Catalogue("train"), "pick_place", "id", "train", seed) for seed in range(2)]


@pytest.fixture(scope="module")
def sims():
    return {w: NativeSimulator(Catalogue.all(), Bucket(6, 6), worlds=w) for w in (2, 3)}


def embed(texts):
    return np.zeros((len(texts), 4), np.float32)


class Told:
    """An actor that goes to the target, closes and opens by its key, leans on what it is told, and remembers it."""

    def __init__(self):
        self.inputs, self.keys, self.temperatures = [], [], []

    def __call__(self, obs, program, keys, temperatures):
        self.temperatures.append(np.array(temperatures))
        self.inputs.append(jax.tree.map(np.array, program))
        toward = jnp.clip((obs.pos[:, 0] - obs.ee_pos) * 6, -1, 1)
        noise = jax.vmap(lambda k: jax.random.normal(k, (8, 7)))(keys)
        lean = 0.1 * (program.stage + program.progress + program.code[:, -1])
        chunks = (0.3 * noise).at[..., :3].add(toward[:, None]).at[..., 2].add(lean[:, None]).at[..., 6].set(jnp.sign(noise[..., 6]))
        b = len(obs.ee_pos)
        q = jnp.tile(jnp.array([0.0, 1.0]), (b, 1))
        ones = jnp.ones(b)
        return chunks, Selection(q, q, jnp.zeros(b, jnp.int32), ones, 2 * ones, ones, 0.5 * ones)


def run(sim, episodes, program_of, record=False):
    told = Told()
    guided = Guided(told, program_of, SparseProgram(), lambda e: 1.0, Catalogue.all())
    results = list(rollout(sim, Catalogue.all(), episodes, guided, embed, EXECUTED, jax.random.key(1), record=record))
    return {r.episode.key: r for r in results}, told, guided


@pytest.mark.parametrize("latched", [False, True])
def test_what_the_critic_is_told_is_how_the_episode_is_labelled(sims, specs, latched):
    """Stage, progress and code at every decision, against the labels of the recorded views."""
    chosen = program(latched)
    episodes = [episode_of(specs[i], HORIZON, (i, 0)) for i in range(2)]
    results, told, _ = run(sims[2], episodes, lambda e: chosen, record=True)
    stages = []
    for world, episode in enumerate(episodes):
        r = results[episode.key]
        assert r.views is not None
        tables = values.tables([chosen], [program_scene(episode.spec, Catalogue.all())])
        rows = np.zeros(r.steps + 1, int)
        staged = values.staged(tables, rows, values.values(tables, rows, r.views))
        starts = np.cumsum(r.executed) - r.executed
        stages += staged.stage.tolist()
        np.testing.assert_array_equal([x.stage[world] for x in told.inputs], staged.stage[starts])
        np.testing.assert_allclose([x.progress[world] for x in told.inputs], staged.progress[starts], atol=1e-6)
        assert all((x.code[world] == code(chosen)).all() for x in told.inputs)
    falls = (np.diff(np.reshape(stages, (2, -1)), axis=1) < 0).any()
    assert max(stages) == 2 and falls != latched  # the gripper opens again: the latch is what keeps the stage


def test_worlds_and_neighbours_do_not_matter(sims, specs):
    """Three programs (one latched, one none) over two and over three worlds, refilled in other orders."""
    programs = {0: program(True), 1: program(False, 0.2), 2: None}
    episodes = [episode_of(specs[i % 2], HORIZON, (i % 2, i)) for i in range(5)]

    def program_of(episode):
        return programs[episode.key[1] % 3]

    few, _, guided = run(sims[2], episodes, program_of)
    many, *_ = run(sims[3], episodes[::-1], program_of)
    for key, result in few.items():
        np.testing.assert_array_equal(result.actions, many[key].actions)
    others, *_ = run(sims[2], episodes, lambda e: None)
    assert not np.array_equal(others[(0, 0)].actions, few[(0, 0)].actions)
    np.testing.assert_array_equal(others[(0, 2)].actions, few[(0, 2)].actions)
    assert guided.choices.decisions == sum(len(r.executed) for r in few.values())
    assert guided.choices.means() == pytest.approx({"effective": 2.0, "value": 1.0, "q_sd": 0.5, "executed_spread": 0.5})


def test_without_a_program_the_critic_is_told_the_one_that_was_named(sims, specs):
    episodes = [episode_of(specs[0], 8, (0, 0))]
    _, told, _ = run(sims[2], episodes, lambda e: None)
    for x in told.inputs:
        assert not x.stage.any() and not x.progress.any() and not x.code.any()
    told, chosen = Told(), program(False, 0.1)
    guided = Guided(told, lambda e: None, chosen, lambda e: 1.0, Catalogue.all())
    list(rollout(sims[2], Catalogue.all(), episodes, guided, embed, EXECUTED, jax.random.key(1)))
    assert all((x.code[0] == code(chosen)).all() for x in told.inputs) and any(x.progress[0] > 0 or x.stage[0] for x in told.inputs)


def test_every_episode_has_its_own_temperature(sims, specs):
    """In worlds that are refilled too."""
    told, wanted = Told(), {0: 0.1, 1: 2.0, 2: 0.7}
    guided = Guided(told, lambda e: None, SparseProgram(), lambda e: wanted[e.key[1]], Catalogue.all())
    episodes = [episode_of(specs[0], 8, (0, i)) for i in range(3)]
    list(rollout(sims[2], Catalogue.all(), episodes, guided, embed, EXECUTED, jax.random.key(1)))
    np.testing.assert_allclose(told.temperatures[0], [0.1, 2.0])
    assert 0.7 in told.temperatures[-1].round(6)


def test_a_prefix_s_decisions_are_not_counted_as_choices(sims, specs):
    episode = episode_of(specs[0], 12, (0, 0), np.zeros((8, 7), np.float32))
    results, told, guided = run(sims[2], [episode], lambda e: program(True))
    assert results[(0, 0)].prefix == 8 and len(told.inputs) == 3 and guided.choices.decisions == 1
    assert Choices().means() == {}
