"""Trajectories read back are the ones that were written, and those that a scene still lacks are made as if nothing had happened."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from coda_jax.loop import demonstrations, parts
from coda_jax.loop.rounds import trajectories
from coda_jax.loop.rounds.certify import certify
from coda_jax.loop.substeps import Substeps
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim.demonstrate import Trajectory, demonstrate
from coda_jax.sim.native import physics_steps
from coda_jax.sim.simulator import episode_of
from coda_jax.sim.supervision.parameters import PlanParameters
from coda_jax.sim.supervision.supervisor import Revision, ScriptedSupervisor
from tests.loop.small import small_config


class Bare:
    """What ``certify`` needs of a run. files: committed pieces; a kill is a new ``substeps``."""

    def __init__(self, folder, every, die_after=10**6):
        self.config = small_config()
        self.train, self.everything = Catalogue("train"), Catalogue.all()
        self.folder, self.files, self.every, self.die_after = folder, {}, every, die_after
        (folder / "episodes").mkdir()
        self.begin()

    def begin(self):
        self.substeps = Substeps("r1.environments", self.folder, self.every, self.files, self._commit)

    def _commit(self, files):
        self.files = self.files | files
        raise KeyboardInterrupt


def certified(run, first_seed=0):
    specs = [sample_spec(run.train, "pick_place", "id", "train", first_seed + i) for i in range(4)]
    return certify(run, specs, 2, 100, parts.noise_of(run.config), "demonstrations")


def plain(trajectory: Trajectory) -> dict:
    fields = {f.name: getattr(trajectory, f.name) for f in dataclasses.fields(trajectory)}
    return vars(fields.pop("views")) | fields


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    return certified(Bare(tmp_path_factory.mktemp("unbroken"), None))


def assert_equal(some, others):
    for one, other in zip(some, others, strict=True):
        for (name, a), (_, b) in zip(plain(one).items(), plain(other).items(), strict=True):
            if isinstance(a, np.ndarray):
                assert a.dtype == b.dtype, name
                np.testing.assert_array_equal(a, b, err_msg=name)
            else:
                assert a == b, name


def test_written_and_read_back(unbroken, tmp_path):
    flat = [t for own in unbroken.found for t in own]
    (tmp_path / "episodes").mkdir()
    path = tmp_path / "episodes" / "part.npz"
    trajectories.save(path, flat)
    episodes = {(t.episode.spec.scene_id, t.episode.key): t.episode for t in flat}
    assert_equal(trajectories.load(path, lambda *identity: episodes[identity]), flat)
    with pytest.raises(InputError, match="no trajectories of this run"):
        trajectories.load(path, lambda *_: {}[0])
    path.write_bytes(b"x")
    with pytest.raises(InputError, match="no trajectories of this run"):
        trajectories.load(path, lambda *identity: episodes[identity])


def test_demonstrations_killed_at_every_commit_end_the_same(unbroken, tmp_path):
    run, kills = Bare(tmp_path, 3), 0
    while True:
        try:
            found = certified(run)
            break
        except KeyboardInterrupt:
            kills += 1
            run.begin()
    assert kills == found.episodes // 3 and kills >= 2
    assert (found.physics_steps, found.episodes, found.tally) == (unbroken.physics_steps, unbroken.episodes, unbroken.tally)
    for some, others in zip(found.found, unbroken.found, strict=True):
        assert_equal(some, others)


def test_revised_tries_killed_at_every_one_end_the_same(tmp_path):
    """The second scene fails at first and is solved by a changed plan, undisturbed."""
    spec = [sample_spec(Catalogue("train"), "pick_place", "id", "train", seed) for seed in (1, 53)]
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    whole_run: Any = Bare(tmp_path / "one", None)
    whole = certify(whole_run, spec, 1, 0, None, "demonstrations")
    assert [[t.revisions for t in own] for own in whole.found] == [[0], [1]]
    assert (whole.tally.first, whole.tally.solved, whole.episodes) == (1, 2, 3)
    run: Any = Bare(tmp_path / "two", 1)
    found = None
    while found is None:
        try:
            found = certify(run, spec, 1, 0, None, "demonstrations")
        except KeyboardInterrupt:
            run.begin()
    assert (found.tally, found.episodes, found.physics_steps) == (whole.tally, whole.episodes, whole.physics_steps)
    for some, others in zip(found.found, whole.found, strict=True):
        assert_equal(some, others)


def test_a_stored_try_that_would_now_be_another_one_is_made_anew(tmp_path, monkeypatch):
    """Killed after the changed plan; the supervisor of the next process changes something else."""
    specs = [sample_spec(Catalogue("train"), "pick_place", "id", "train", 53)]
    run: Any = Bare(tmp_path, 1)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            certify(run, specs, 1, 0, None, "demonstrations")
        run.begin()
    other = PlanParameters(lift_m=0.021, carry_speed=0.5)
    monkeypatch.setattr(ScriptedSupervisor, "revise", lambda *_: Revision(other, "another one"))
    run.every = None
    run.begin()
    found = certify(run, specs, 1, 0, None, "demonstrations")
    assert found.found[0] == [] or found.found[0][0].parameters == other
    assert found.episodes >= 2


def test_a_planner_is_judged_by_scenes_not_by_tries(unbroken):
    """Every scene that is given up took several tries."""
    failed = dataclasses.replace(unbroken.found[0][0], success=False, cause="gave up after 3 attempts")
    tries = [failed] * (4 * 57 + 7)
    demonstrations._judge(tries, 7, 57)
    demonstrations._judge(tries, 0, 63)
    with pytest.raises(InputError, match=r"the planner solved 6 of 64 scenes \(235 times gave up after 3 attempts\)"):
        demonstrations._judge(tries, 6, 58)


def test_trajectories_of_another_scene_are_refused(tmp_path):
    run = Bare(tmp_path, 3)
    with pytest.raises(KeyboardInterrupt):
        certified(run)
    run.begin()
    with pytest.raises(InputError, match="no trajectories of this run"):
        certified(run, first_seed=4)


def test_physics_are_counted_as_the_simulator_counts_them(tmp_path):
    run = Bare(tmp_path, None)
    sim = parts.native_simulator(run.config, run.everything, parts.training_bucket(run.config, run.train))
    specs = [sample_spec(run.train, "pick_place", "id", "train", seed) for seed in range(3)]
    episodes = [episode_of(spec, run.config.horizon.pick_place, (i, r)) for i, spec in enumerate(specs) for r in range(4)]
    found = list(demonstrate(sim, run.everything, episodes, parts.planner_of(run.config), parts.noise_of(run.config), 0))
    assert sim.physics_steps == physics_steps(sum(len(t.actions) for t in found), 3)
