"""A policy that knows nothing: in every scene it carries out what a planner did in the base scene. It fails by what was changed."""

import contextlib
import functools
import types
from collections.abc import Sequence

import numpy as np

from coda_jax import config as settings
from coda_jax.agents.base import Case, Outcome, Trial
from coda_jax.evaluation.results import Result
from coda_jax.evaluation.trials import outcome_of
from coda_jax.loop import parts
from coda_jax.loop.rounds.variants import Base
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim.demonstrate import demonstrate
from coda_jax.sim.replay import replay
from coda_jax.sim.simulator import episode_of

TRAIN, EVERYTHING = Catalogue("train"), Catalogue.all()
HORIZON, OPEN = 45, -1.0  # after its last action the hand stays open and where it is


def configuration() -> settings.Config:
    config = settings.default()
    config.sim.worlds, config.planner.speed, config.horizon.pick_place = 8, 1.0, HORIZON
    config.diagnose.rerollouts = 4
    return config


class OpenLoop:
    """``runner`` as of loop.rounds.rollouts.Rollouts; equal scenes of a base end equally, hence each is simulated once."""

    def __init__(self, seeds: Sequence[int]):
        self.config = configuration()
        self.sim = parts.native_simulator(self.config, EVERYTHING, parts.training_bucket(self.config, TRAIN))
        specs = [sample_spec(TRAIN, "pick_place", "id", "train", seed) for seed in seeds]
        jobs = [episode_of(spec, HORIZON, (i, 0)) for i, spec in enumerate(specs)]
        self._actions = {}
        for t in demonstrate(self.sim, EVERYTHING, jobs, parts.planner_of(self.config), None, 0):
            assert t.success, "chosen as scenes that the planner solves"
            rest = np.zeros((HORIZON - len(t.executed), 7), np.float32)
            rest[:, 6] = OPEN
            self._actions[t.episode.key[0]] = np.concatenate([t.executed, rest])
        self.bases = [Base(i, spec) for i, spec in enumerate(specs)]
        self._known: dict[tuple[int, str], Outcome] = {}
        self.run = types.SimpleNamespace(train=TRAIN, everything=EVERYTHING, config=self.config)

    @contextlib.contextmanager
    def runner(self, purpose, round_number, total, label):
        yield self

    def __call__(self, trials: Sequence[Trial]) -> list[Outcome]:
        new = {(t.key[0], t.spec.scene_id): t for t in trials if (t.key[0], t.spec.scene_id) not in self._known}
        jobs = [(episode_of(t.spec, HORIZON, t.key), self._actions[t.key[0]]) for t in new.values()]
        for t in replay(self.sim, jobs):
            steps, key = len(t.qpos), (t.episode.key[0], t.episode.spec.scene_id)
            executed, chunks = np.ones(steps, np.int32), t.executed[:, None]
            result = Result(t.episode, t.success, t.predicates, t.qpos, t.executed, executed, 0, 0, 0, t.views, chunks)
            self._known[key] = outcome_of(result, new[key])
        found = [(self._known[t.key[0], t.spec.scene_id], t) for t in trials]
        return [Outcome(t, o.success, o.steps, o.phase, o.margins, o.health, o.actions, o.recorded) for o, t in found]

    def unedited(self) -> list[Case]:
        return [Case(b.spec, o) for b, o in zip(self.bases, self([Trial(b.spec, (b.number, 0)) for b in self.bases]), strict=True)]


@functools.cache
def open_loop() -> OpenLoop:
    """Once for all tests: planning and replaying take seconds."""
    return OpenLoop((0, 3))
