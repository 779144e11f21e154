"""Recordings on disk: every moment comes back bit for bit, rollouts and demonstrations alike, and nothing else is believed."""

import jax
import numpy as np
import pytest

from coda_jax import config as settings
from coda_jax.agents.base import Measured, Outcome, Recorded, Trial
from coda_jax.loop import demonstrations, parts, recordings
from coda_jax.loop.rounds import outcomes as stored
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.demonstrate import demonstrate
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.replay import replay
from coda_jax.sim.simulator import episode_of
from tests.learning import made


def equal(a, b) -> bool:
    return all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


@pytest.fixture(scope="module")
def spec():
    return sample_spec(Catalogue("train"), "pick_place", "id", "train", 3)


def outcome(spec, seed: int, t: int, recorded: bool = True, prefix: int = 0) -> Outcome:
    record = made.record(seed, t=t)
    chunks = np.random.default_rng(seed).normal(size=(len(record.executed), 8, 7)).astype(np.float32)
    kept = Recorded(record.views, record.executed, prefix, chunks) if recorded else None
    trial = Trial(spec, (7, seed), record.actions[:prefix] if prefix else None)
    return Outcome(trial, True, t, None, {"gap": Measured(0.1, 2, 0.2, "m")}, 0, record.actions, kept)


def test_outcomes_come_back_with_every_moment(spec, tmp_path):
    written = [outcome(spec, 0, 10), outcome(spec, 1, 6, recorded=False), outcome(spec, 2, 9, prefix=4), outcome(spec, 3, 1)]
    path = tmp_path / "rollouts.npz"
    stored.save(path, written)
    read = stored.load(path, {spec.scene_id: spec}.__getitem__)
    assert read[1].recorded is None
    for old, new in zip(written, read, strict=True):
        assert (new.trial, new.success, new.steps, new.margins) == (old.trial, old.success, old.steps, old.margins)
        assert np.array_equal(new.actions, old.actions)
        if old.recorded and new.recorded:
            assert equal(new.recorded.views, old.recorded.views)
            assert np.array_equal(new.recorded.executed, old.recorded.executed)
            assert np.array_equal(new.recorded.chunks, old.recorded.chunks)
            assert new.recorded.prefix == old.recorded.prefix
    assert read[2].trial.prefix is not None and np.array_equal(read[2].trial.prefix, written[2].actions[:4])


@pytest.mark.parametrize("written", [[], [False, False]])
def test_outcomes_without_records_come_back(written, spec, tmp_path):
    path = tmp_path / "rollouts.npz"
    stored.save(path, [outcome(spec, i, 5, recorded=has) for i, has in enumerate(written)])
    assert [o.recorded for o in stored.load(path, {spec.scene_id: spec}.__getitem__)] == [None] * len(written)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("view_touches"), "it lacks view_touches"),
        (lambda a: a.update(view_pos=a["view_pos"].astype(np.float64)), "view_pos is float64"),
        (lambda a: a.update(view_pos=a["view_pos"][1:]), "view_pos is float32"),
        (lambda a: a.update(view_present=a["view_present"].astype(np.uint8)), "view_present is uint8"),
        (lambda a: a.update(view_ee_quat=a["view_ee_quat"] * np.inf), "NaN or infinity"),
        (
            lambda a: a.update(rows=np.frombuffer(a["rows"].tobytes().replace(b"[4, 4, 2]", b"[4, 4, 1]"), np.uint8)),
            "decisions do not belong",
        ),
    ],
)
def test_recorded_outcomes_of_another_shape_are_named(change, message, spec, tmp_path):
    path = tmp_path / "rollouts.npz"
    stored.save(path, [outcome(spec, 0, 10)])
    arrays = recordings.read(path)
    change(arrays)
    np.savez(path, **arrays)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=rf"rollouts.npz holds no rollouts of this run \(.*{message}"):
        stored.load(path, {spec.scene_id: spec}.__getitem__)


def test_damaged_and_swollen_files_are_named(spec, tmp_path, monkeypatch):
    path = tmp_path / "rollouts.npz"
    stored.save(path, [outcome(spec, 0, 10)])
    whole = path.read_bytes()
    for at in range(40, len(whole), len(whole) // 40):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            stored.load(path, {spec.scene_id: spec}.__getitem__)  # some bytes say nothing
        except InputError as error:
            assert "rollouts.npz" in str(error)
    path.write_bytes(whole)
    monkeypatch.setattr(recordings, "MOST_BYTES", 1000)
    with pytest.raises(InputError, match="more than any stage writes"):
        stored.load(path, {spec.scene_id: spec}.__getitem__)


@pytest.fixture(scope="module")
def demos():
    config, catalogue = settings.default(), Catalogue.all()
    sim = NativeSimulator(catalogue, Bucket(6, 6), worlds=3)
    specs = [sample_spec(Catalogue("train"), "pick_place", "id", "train", seed) for seed in range(3)]
    jobs = [episode_of(s, 120, (i, 0)) for i, s in enumerate(specs)]
    made = demonstrate(sim, catalogue, jobs, parts.planner_of(config), parts.noise_of(config), 0)
    return sim, [t for t in made if t.success]


def test_demonstrations_keep_labels_and_what_was_carried_out(demos, tmp_path):
    sim, trajectories = demos
    assert len(trajectories) >= 2
    path = tmp_path / "demos_0000.npz"
    demonstrations.store(path, trajectories, Catalogue.all())
    read = demonstrations.load_file(path)
    again = {t.episode.key: t for t in replay(sim, [(t.episode, s.executed) for t, s in zip(trajectories, read, strict=True)])}
    for old, new in zip(trajectories, read, strict=True):
        assert new.scene_id == old.episode.spec.scene_id
        assert equal(new.views, old.views)
        assert np.array_equal(new.demonstration.obs["pos"], old.views.pos[:-1])
        assert np.array_equal(new.demonstration.actions, old.actions)
        assert np.array_equal(new.executed, old.executed)
        assert np.abs(new.executed - new.demonstration.actions).max() > 0  # noise was carried out, labels are clean
        assert again[old.episode.key].success
        assert equal(again[old.episode.key].views, old.views)  # the record repeats the demonstration bit for bit
