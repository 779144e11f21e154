"""Start states: where a phase begins in a demonstration, and a rollout that really begins there."""

import jax
import numpy as np
import pytest

from coda_jax import config as settings
from coda_jax.evaluation.failures import PHASES
from coda_jax.evaluation.rollouts import rollout
from coda_jax.evaluation.starts import Shown, phase_starts, prefixes
from coda_jax.loop import parts
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.demonstrate import demonstrate
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.simulator import episode_of

HORIZON, E = 120, 4


@pytest.fixture(scope="module")
def shown():
    config, catalogue = settings.default(), Catalogue.all()
    sim = NativeSimulator(catalogue, Bucket(6, 6), worlds=3)
    specs = [sample_spec(Catalogue("train"), "pick_place", "id", "train", seed) for seed in range(3)]
    jobs = [episode_of(s, HORIZON, (i, 0)) for i, s in enumerate(specs)]
    made = demonstrate(sim, catalogue, jobs, parts.planner_of(config), parts.noise_of(config), 0)
    return sim, [Shown(t.episode.spec, t.views, t.executed) for t in made if t.success]


def still(obs, keys):
    return np.zeros((len(keys), 8, 7), np.float32)


def embed(texts):
    return np.zeros((len(texts), 4), np.float32)


def test_phases_begin_one_after_the_other(shown):
    _, demos = shown
    starts = np.array([phase_starts(demos, phase, Catalogue.all()) for phase in PHASES]).T
    assert len(demos) >= 2
    for s, own in zip(demos, starts, strict=True):
        assert own[0] == 0 < own[1] < own[2] <= own[3] <= own[4] <= len(s.executed)


def test_a_rollout_begins_where_the_phase_does(shown):
    sim, demos = shown
    found = prefixes(demos, "transport", Catalogue.all())
    episodes = [episode_of(s.spec, HORIZON, (i, 0), prefix) for i, (s, prefix) in enumerate(zip(demos, found, strict=True))]
    for result in rollout(sim, Catalogue.all(), episodes, still, embed, E, jax.random.key(0), record=True):
        s = demos[result.episode.key[0]]
        assert result.episode.prefix is not None and result.views is not None
        assert result.prefix == len(result.episode.prefix) // E * E > 0
        assert np.array_equal(result.views.pos[: result.prefix + 1], s.views.pos[: result.prefix + 1])  # the demonstration's own states
        assert result.predicates[: result.prefix, 1].max() == 1.0  # approach was met before the policy acted


def test_unknown_phases_are_named_and_demonstrations_without_them_have_no_start(shown):
    _, demos = shown
    with pytest.raises(ValueError, match="use one of approach, grasp"):
        phase_starts(demos, "throw", Catalogue.all())
    short = jax.tree.map(lambda leaf: leaf[:3], demos[0].views)
    ended = Shown(demos[0].spec, short, demos[0].executed[:2])
    found = prefixes([ended, demos[1]], "release", Catalogue.all())
    assert found[0] is None and found[1] is not None and len(found[1]) > 2
    assert phase_starts([], "release", Catalogue.all()) == []
