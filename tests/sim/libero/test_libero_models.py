"""Kept models: what a file must be to be believed, and what is said where one cannot be made."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import mujoco
import numpy as np
import pytest

from coda_jax.runtime import InputError
from coda_jax.scenes.libero import package, tasks
from coda_jax.sim.libero import models


def test_a_packed_model_comes_back():
    home, model = models._unpack(models._pack([0.5, 1.0], b"\x00\n\x01" * 100))
    assert home == [0.5, 1.0] and model == b"\x00\n\x01" * 100


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-1], lambda c: c[:40] + b"x" + c[41:], lambda c: b"", lambda c: c + b"0" * models._MOST_KEPT]
)
def test_a_damaged_file_is_not_read(damage):
    with pytest.raises(ValueError, match="checksum"):
        models._unpack(damage(models._pack([0.0], b"model")))


def test_a_file_that_unpacks_without_end_is_cut(monkeypatch):
    monkeypatch.setattr(models, "_MOST_MODEL", 1000)
    body = lzma.compress(json.dumps([0.0]).encode() + b"\n" + b"0" * 10**6, preset=1)
    _, model = models._unpack(models.hashlib.sha256(body).digest() + body)
    assert len(model) < 1000


def _task(folder: Path) -> tasks.Task:
    return tasks.Task("libero_goal", 0, "nothing", folder / "nothing.bddl", folder / "nothing.npz")


@pytest.mark.parametrize(
    ("stdout", "stderr", "said"),
    [
        ("noise\n" + json.dumps({"error": "KeyError: 'bowl'"}), "", "KeyError: 'bowl'"),
        ("", "cannot import libero", "cannot import libero"),
        ("", "", "it said nothing"),
    ],
)
def test_a_child_that_fails_is_quoted(monkeypatch, tmp_path, stdout, stderr, said):
    done = models.subprocess.CompletedProcess([], 1, stdout, stderr)
    monkeypatch.setattr(models, "run_module", lambda *a: done)
    with pytest.raises(InputError, match=f"libero_goal/nothing could not be made.*{said}"):
        models._built(_task(tmp_path))


def test_a_child_that_hangs_is_ended(monkeypatch, tmp_path):
    def run(*arguments):
        raise models.subprocess.TimeoutExpired("python", 1.0)

    monkeypatch.setattr(models, "run_module", run)
    with pytest.raises(InputError, match="was not ready after"):
        models._built(_task(tmp_path))


def test_a_disk_that_is_full_keeps_no_half(monkeypatch, tmp_path):
    def full(name, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(models.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        models._keep(tmp_path / "new" / "a.xz", b"model")
    assert list((tmp_path / "new").iterdir()) == []
    monkeypatch.undo()
    models._keep(tmp_path / "new" / "a.xz", b"model")
    assert [(p.name, p.read_bytes()) for p in (tmp_path / "new").iterdir()] == [("a.xz", b"model")]


def test_another_mujoco_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(package, "package_version", lambda name: "3.9.0")
    with pytest.raises(InputError, match="need MuJoCo 3.17"):
        models.load(_task(tmp_path))


@pytest.mark.libero
@pytest.mark.slow
def test_a_damaged_cache_is_made_again_and_the_model_is_the_same(monkeypatch, tmp_path):
    task = tasks.tasks("libero_goal")[5]
    first = models.load(task)
    monkeypatch.setattr(models, "folder", lambda: tmp_path)
    name = f"{models.hashlib.sha256(task.bddl.read_bytes()).hexdigest()[:24]}.xz"
    (tmp_path / name).write_bytes(b"damaged")
    models._load.cache_clear()
    second = models.load(task)
    assert (tmp_path / name).stat().st_size > 10**6
    for field in ("body_pos", "geom_size", "qpos0", "sensor_adr", "body_mass"):
        assert np.array_equal(getattr(first.model, field), getattr(second.model, field))
    assert first.structure == second.structure and first.model is not second.model


@pytest.mark.libero
@pytest.mark.parametrize("suite", tasks.FAMILIES)
def test_a_model_holds_what_physics_needs_and_no_more(suite):
    found = models.load(tasks.tasks(suite)[0])
    model = found.model
    assert model.ntex == model.nmat == 0
    assert ((model.geom_contype != 0) | (model.geom_conaffinity != 0)).all()
    assert np.allclose(found.home, [0, -0.16103739, 0, -2.44459747, 0, 2.2267522, np.pi / 4])
    assert found.base.tolist() == ([-0.6, 0, 0] if suite == "libero_object" else [-0.66, 0, 0.9])
    assert model.opt.timestep * 25 == pytest.approx(0.05) and model.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
