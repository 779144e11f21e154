"""The policy function that rollouts get: a plain sample, or the choice of an actor with a critic, in the same simulator."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.evaluation.guidance import Guided
from coda_jax.evaluation.rollouts import rollout
from coda_jax.learning.actor import Actor
from coda_jax.loop.evaluation import Guide, acting
from coda_jax.programs.training.program import SparseProgram
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.simulator import episode_of
from tests.learning import toy
from tests.learning.test_actor import CRITIC

TEXT = 4


def embed(texts):
    return np.stack([np.random.default_rng(sum(map(ord, t))).normal(size=TEXT) for t in texts]).astype(np.float32)


@pytest.mark.parametrize("given_roles", [False, True])
def test_an_actor_with_one_candidate_is_the_policy(given_roles):
    """Same keys, same noise; with more candidates it decides otherwise."""
    catalogue = Catalogue.all()
    sim = NativeSimulator(catalogue, Bucket(6, 6), worlds=2)
    specs = [sample_spec(Catalogue("train"), "pick_place", "id", "train", seed) for seed in range(2)]
    policy = toy.policy(width=16, text_dim=TEXT, given_roles=given_roles)
    critic = dataclasses.replace(CRITIC, text_dim=TEXT)
    params = policy.init(jax.random.key(0))
    critic_params = critic.init(jax.random.key(1), params)
    critic_params["net"]["head"]["w"] = 0.5 * jax.random.normal(jax.random.key(2), critic_params["net"]["head"]["w"].shape)
    actor = Actor(mode="argmax", candidates=1, temperature=0.5, temperature_unit="std", least_sd=0.02)

    def actions(actor):
        guide = None if actor is None else Guide(actor, critic, critic_params, lambda episode: None, SparseProgram())
        simulator, policy_fn = acting(policy, params, sim, catalogue, guide)
        assert isinstance(policy_fn, Guided) == (actor is not None and actor.mode != "policy")
        episodes = [episode_of(spec, 8, (i, 0)) for i, spec in enumerate(specs)]
        results = rollout(simulator, catalogue, episodes, policy_fn, embed, CRITIC.executed, jax.random.key(3))
        return np.clip([r.actions for r in sorted(results, key=lambda r: r.episode.key)], -1, 1)

    plain = actions(None)
    np.testing.assert_allclose(actions(actor), plain, atol=1e-4)
    np.testing.assert_array_equal(actions(dataclasses.replace(actor, mode="policy", candidates=4)), plain)
    assert float(jnp.abs(actions(dataclasses.replace(actor, candidates=4)) - plain).max()) > 0.01
