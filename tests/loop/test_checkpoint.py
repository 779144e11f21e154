import logging

import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.loop import checkpoint
from coda_jax.loop.checkpoint import CheckpointError, Checkpoints


def tree(value: float):
    return {"a": jnp.full((3, 2), value), "n": jnp.asarray(int(value), jnp.int32)}


def damage(folder):
    victim = max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(bytes(content))


def test_round_trip_with_record_and_limit(tmp_path):
    with Checkpoints(tmp_path, keep=2) as store:
        for step in (1, 2, 3):
            store.save(step, tree(step), {"width": 64})
        assert store.steps() == [2, 3]
    with Checkpoints(tmp_path, keep=2) as store:
        restored = store.restore(tree(0))
        assert (restored.step, restored.record) == (3, {"width": 64})
        np.testing.assert_array_equal(restored.tree["a"], np.full((3, 2), 3.0))
        assert int(store.restore(tree(0), step=2).tree["n"]) == 2
        store.save(3, tree(7))  # saved again after a resume
        assert int(store.restore(tree(0)).tree["n"]) == 7


def test_damage_is_named_and_the_one_before_taken(tmp_path, caplog):
    with Checkpoints(tmp_path, keep=3) as store:
        store.save(1, tree(1))
        store.save(2, tree(2))
        damage(tmp_path / "2")
        with caplog.at_level(logging.WARNING):
            assert store.restore(tree(0)).step == 1
        assert str(tmp_path / "2") in caplog.text and "SHA-256" in caplog.text
        with pytest.raises(CheckpointError, match="damaged"):
            store.restore(tree(0), step=2)
        damage(tmp_path / "1")
        with pytest.raises(CheckpointError, match="2 is damaged.*1 is damaged"):
            store.restore(tree(0))


def test_remains_of_a_killed_save_are_removed(tmp_path):
    with Checkpoints(tmp_path, keep=3) as store:
        store.save(1, tree(1))
        store.save(2, tree(2))
    (tmp_path / "3.orbax-checkpoint-tmp" / "default").mkdir(parents=True)
    (tmp_path / "seal_2.json").unlink()  # killed between arrays and seal
    with Checkpoints(tmp_path, keep=3) as store:
        assert (tmp_path / "2").is_dir()  # opening removes nothing
        store.clean()
        assert store.steps() == [1] and store.restore(tree(0)).step == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1", "seal_1.json"]


def test_wrong_settings_empty_folder_and_full_disk(tmp_path, monkeypatch):
    with Checkpoints(tmp_path, keep=2) as store:
        with pytest.raises(CheckpointError, match="run the training first"):
            store.restore(tree(0))
        store.save(1, tree(1))
        with pytest.raises(CheckpointError, match="checkpoint 1"):
            store.restore({"a": jnp.zeros((5, 2)), "n": jnp.asarray(0)})
        with pytest.raises(CheckpointError, match="checkpoint 1"):
            store.restore({"b": jnp.zeros((3, 2))})
        usage = checkpoint.shutil.disk_usage(tmp_path)._replace(free=10)
        monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda _: usage)
        with pytest.raises(checkpoint.DiskFullError, match="needs 42 bytes"):
            store.save(2, tree(2))
        assert store.restore(tree(0)).step == 1


def test_a_kill_between_save_and_commit_leaves_the_committed_one(tmp_path):
    with pytest.raises(ValueError, match="at least 2"):
        Checkpoints(tmp_path, keep=1)
    with Checkpoints(tmp_path, keep=2) as store:
        committed = store.save(1, tree(1))
        store.save(2, tree(2))  # no commit came
    with Checkpoints(tmp_path, keep=2) as store:
        assert store.problem(1, committed) is None
        assert "not the one that was committed" in (store.problem(2, committed) or "")
