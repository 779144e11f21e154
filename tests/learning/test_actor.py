"""Choosing among candidates: by hand, then with a policy and a critic."""

import dataclasses
import logging
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.learning import actor as acting
from coda_jax.learning import dataset, experience, records
from coda_jax.learning.critic.batch import ProgramInput
from coda_jax.learning.critic.network import Critic
from coda_jax.learning.critic.support import Support
from coda_jax.programs.training.limits import CODE_DIM
from tests.learning import toy
from tests.learning.test_awr import PAIRS, SUPPORTS, embed, record

KEY = jax.random.key(4)
WORLDS = 6


def settings(**changes) -> acting.Actor:
    values = {"mode": "sample", "candidates": 4, "temperature": 0.5, "temperature_unit": "std", "least_sd": 0.02}
    return acting.Actor(**{**values, **changes})


def candidates(n=WORLDS, j=4):
    return jax.random.uniform(KEY, (n, j, 8, 7), minval=-1.0, maxval=1.0)


def test_weights_by_hand():
    q = jnp.array([[0.0, 0.1]])  # standard deviation 0.05
    for unit, temperature, gap in [("raw", 0.5, 0.2), ("std", 0.5, 4.0), ("std", 1.0, 2.0)]:
        weights = jax.nn.softmax(acting.selection_logits(settings(temperature=temperature, temperature_unit=unit), q))
        assert float(weights[0, 1] / weights[0, 0]) == pytest.approx(math.exp(gap), rel=1e-5)


def test_the_paper_s_temperature_leaves_small_differences_alone():
    """Q that differs by 0.05 between eight candidates: at T = 0.5 raw 7.9 of 8 take part, in units of their spread far fewer."""
    q = 0.05 * jax.random.normal(KEY, (1000, 8))
    for unit, low, high in [("raw", 7.9, 8.0), ("std", 1.0, 4.0)]:
        weights = jax.nn.softmax(acting.selection_logits(settings(temperature_unit=unit), q))
        assert low < float(acting.effective_candidates(weights).mean()) < high


def test_a_flat_critic_s_noise_decides_nothing():
    q = 1e-4 * jax.random.normal(KEY, (100, 8))
    weights = jax.nn.softmax(acting.selection_logits(settings(), q))
    assert float(acting.effective_candidates(weights).min()) > 7.99
    weights = jax.nn.softmax(acting.selection_logits(settings(least_sd=1e-6), q))
    assert float(acting.effective_candidates(weights).mean()) < 4


def test_candidates_are_sampled_by_their_weights():
    q = jnp.tile(jnp.array([0.0, 0.5, -0.5]), (4000, 1))
    chosen = acting.choose(settings(temperature_unit="raw"), q, candidates(4000, 3), jax.random.split(KEY, 4000))[1]
    share = np.bincount(chosen, minlength=3) / 4000
    np.testing.assert_allclose(share, np.exp([0, 1, -1]) / np.exp([0, 1, -1]).sum(), atol=0.03)


def test_a_decision_may_have_a_temperature_of_its_own():
    q = jnp.tile(jnp.array([0.0, 0.5, -0.5]), (2, 1))
    own = acting.choose(settings(), q, candidates(2, 3), jax.random.split(KEY, 2), jnp.array([0.5, 5.0]))[2]
    for row, t in zip(own, (0.5, 5.0), strict=True):
        alone = acting.choose(settings(temperature=t), q[:1], candidates(1, 3), jax.random.split(KEY, 1))[2][0]
        np.testing.assert_allclose(row, alone, rtol=1e-6)
    assert float(own[0].max()) > float(own[1].max())


def test_argmax_takes_the_best_and_clips_it():
    q = jax.random.normal(KEY, (WORLDS, 4))
    chunks = 3 * candidates()
    chunk, chosen, _ = acting.choose(settings(mode="argmax"), q, chunks, jax.random.split(KEY, WORLDS))
    assert chosen.tolist() == np.asarray(q).argmax(-1).tolist()
    np.testing.assert_array_equal(chunk, np.clip(np.asarray(chunks)[np.arange(WORLDS), chosen], -1, 1))


def test_a_constant_added_to_q_changes_nothing():
    """Q'(x, c) = Q(x, c) - beta Phi(x): a potential must not change who is chosen."""
    q, keys = jax.random.normal(KEY, (WORLDS, 4)), jax.random.split(KEY, WORLDS)
    shift = jnp.arange(WORLDS)[:, None] * 0.25
    for mode in ("sample", "argmax", "average"):
        before, after = (acting.choose(settings(mode=mode), values, candidates(), keys) for values in (q, q - shift))
        np.testing.assert_allclose(after[0], before[0], atol=1e-4)
        np.testing.assert_array_equal(after[1], before[1])


def test_averaging_eight_samples_shrinks_what_is_carried_out():
    """With equal weights the spread over fresh draws falls by the root of 8; a sampled candidate keeps it. ``departure`` says the same."""
    chunks = 0.2 * jax.random.normal(KEY, (3000, 8, 8, 7))
    q, keys = jnp.zeros((3000, 8)), jax.random.split(KEY, 3000)
    carried = {mode: acting.choose(settings(mode=mode), q, chunks, keys)[0][..., :3] for mode in ("sample", "average")}
    assert float(carried["sample"].std() / carried["average"].std()) == pytest.approx(math.sqrt(8), rel=0.03)
    for mode, share in [("sample", 1.0), ("average", 0.0)]:
        chunk, _, _ = acting.choose(settings(mode=mode), q, chunks, keys)
        spread, departure = acting.motion_spread(chunks, chunk, 4)
        assert float(jnp.sqrt(jnp.square(departure).mean() / jnp.square(spread).mean())) == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize(
    "change", [{"mode": "best"}, {"temperature_unit": "var"}, {"candidates": 0}, {"temperature": 0.0}, {"least_sd": math.inf}]
)
def test_bad_settings_are_named(change):
    with pytest.raises(ValueError, match=rf"actor\.{next(iter(change))}"):
        settings(**change)


CRITIC = Critic(
    support=Support("hl_gauss", -2.0, 1.0, 101, 2.25, 0.75),
    chunk=8,
    executed=4,
    tokens=4,
    width=16,
    layers=1,
    heads=2,
    text_dim=384,
    grounding_heads=4,
    goals=1,
    key_dim=32,
    yaw_frame=True,
    multi_scale=True,
    cumulative=True,
    early_ends="fill",
)
POLICY = toy.policy(width=16)


@pytest.fixture(scope="module")
def problem():
    """Observations of six worlds, programs, parameters of a policy and of a critic with opinions."""
    rng = np.random.default_rng(1)
    data = dataset.build([toy.demonstration(rng, PAIRS, SUPPORTS) for _ in range(WORLDS)], embed)
    obs = dataset.gather(data, jnp.arange(WORLDS) * 12, 8).obs
    codes = jax.random.normal(KEY, (WORLDS, CODE_DIM))
    program = ProgramInput(jnp.arange(WORLDS, dtype=jnp.int32) % 5, jnp.linspace(0, 0.9, WORLDS), codes)
    params = POLICY.init(jax.random.key(0))
    critic = CRITIC.init(jax.random.key(1), params)
    critic["net"]["head"]["w"] = 0.5 * jax.random.normal(KEY, critic["net"]["head"]["w"].shape)
    return obs, program, params, critic


def decide(problem, actor, keys=None, obs=None, program=None):
    keys = jax.random.split(KEY, WORLDS) if keys is None else keys
    params, critic = problem[2:]
    return acting.act(actor, POLICY, params, CRITIC, critic, obs or problem[0], program or problem[1], keys)


@pytest.mark.parametrize("mode", ["sample", "argmax", "average"])
def test_a_world_does_not_depend_on_its_neighbours(problem, mode):
    obs, program, *_ = problem
    keys, order = jax.random.split(KEY, WORLDS), jnp.array([3, 0, 5, 1, 4, 2])
    chunk, selection = decide(problem, settings(mode=mode), keys)
    moved, there = decide(
        problem,
        settings(mode=mode),
        keys[order],
        jax.tree.map(lambda leaf: leaf[order], obs),
        jax.tree.map(lambda leaf: leaf[order], program),
    )
    np.testing.assert_allclose(moved, chunk[order], atol=1e-5)
    np.testing.assert_array_equal(there.chosen, selection.chosen[order])


def test_candidates_are_the_policy_s_and_values_the_critic_s(problem):
    obs, program, params, critic = problem
    keys = jax.random.split(KEY, WORLDS)
    chunks = np.clip(POLICY.sample(params, obs, keys, 4), -1, 1)

    @jax.jit
    def judge(chunks):
        return CRITIC.q(critic, obs, program, chunks, CRITIC.candidate_mask())

    q = judge(chunks)
    for mode in ("sample", "argmax"):
        chunk, selection = decide(problem, settings(mode=mode))
        np.testing.assert_allclose(selection.q, q, atol=1e-4)
        chosen = np.asarray(selection.chosen)
        np.testing.assert_allclose(chunk, chunks[np.arange(WORLDS), chosen], atol=1e-5)
        np.testing.assert_allclose(selection.value, np.asarray(q)[np.arange(WORLDS), chosen], atol=1e-4)
    chunk, selection = decide(problem, settings(mode="average"))
    np.testing.assert_allclose(selection.value, judge(chunk[:, None])[:, 0], atol=1e-4)
    assert set(np.asarray(selection.chosen)) == {-1}


def test_the_program_reaches_the_critic(problem):
    program = problem[1]
    q = decide(problem, settings())[1].q
    for change in ({"stage": (program.stage + 1) % 5}, {"progress": program.progress + 0.05}, {"code": -program.code}):
        assert float(jnp.abs(decide(problem, settings(), program=dataclasses.replace(program, **change))[1].q - q).max()) > 1e-5


def test_one_executable_for_all_scenes_programs_and_parameters(problem, caplog):
    obs, program, params, critic = problem
    decide(problem, settings())
    other = (dataclasses.replace(obs, pos=obs.pos + 0.1), dataclasses.replace(program, stage=program.stage * 0))
    moved = [jax.tree.map(lambda leaf: leaf * 0.9, tree) for tree in (params, critic)]
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        decide((*other, *moved), settings(), jax.random.split(jax.random.key(8), WORLDS))
        jax.jit(lambda x: x + 2)(jnp.ones(3))
    compiled = [m for m in caplog.messages if "XLA compilation of jit" in m]
    assert any("lambda" in m for m in compiled) and not any("jit(act)" in m for m in compiled)


def test_without_a_critic_there_is_nothing_to_ask(problem):
    with pytest.raises(ValueError, match=r"policy\.sample"):
        decide(problem, settings(mode="policy"))


def test_programs_the_critic_never_met_are_refused():
    rng = np.random.default_rng(0)
    episodes = [record(rng, source, True, 1.0) for source in ("demonstration", "targeted")]
    sparse = [records.sparse_labels(r) for r in episodes]
    code = np.arange(CODE_DIM, dtype=np.float32)
    mixed = experience.build(episodes, [sparse[0], dataclasses.replace(sparse[1], code=code)], embed, 8, 2)
    for met in (code, np.zeros(CODE_DIM, np.float32)):
        acting.check_met(mixed, met)
    with pytest.raises(ValueError, match="met 2 programs"):
        acting.check_met(mixed, code + 1)
    never = experience.build(episodes, [dataclasses.replace(label, code=code) for label in sparse], embed, 8, 2)
    with pytest.raises(ValueError, match="success alone"):
        acting.check_met(never, np.zeros(CODE_DIM, np.float32))
