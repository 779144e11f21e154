from types import SimpleNamespace

import jax
import pytest

from coda_jax.loop import mjx_worlds
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.bucket import Bucket

BUCKET = Bucket(2, 1)
EIGHT = SimpleNamespace(shape={"data": 8})  # all that is read of a mesh


def asked(number, mesh=None):
    return mjx_worlds.worlds_for(number, Catalogue.all(), BUCKET, 4, mesh, ("pick_place",), "jax")


def test_a_number_is_taken_where_it_divides():
    assert asked(48) == asked(48, EIGHT) == 48
    with pytest.raises(ValueError, match="config.sim.mjx_worlds is 12 and there are 8 devices: take a multiple of 8, or 0"):
        asked(12, EIGHT)


def test_a_cpu_is_not_tried_out(monkeypatch):
    monkeypatch.setattr(mjx_worlds, "_rate", None)
    assert asked(0) == mjx_worlds.ON_CPU and asked(0, EIGHT) == 8 * mjx_worlds.ON_CPU


def test_an_accelerator_is_tried_out_once(monkeypatch, tmp_path, capsys):
    tried = []

    def rate(catalogue, bucket, worlds, chunk, mesh, episode, impl):
        tried.append(worlds)
        assert episode.spec.task.family == "pick_place" and bucket == BUCKET and chunk == 4 and impl == "jax"
        return min(worlds, 4500.0)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(mjx_worlds, "_rate", rate)
    assert asked(0) == 4096 and tried == [256, 1024, 4096, 16384]
    assert "256: 256, 1,024: 1,024, 4,096: 4,096, 16,384: 4,500; taking 4,096" in capsys.readouterr().err
    assert asked(0) == 4096 and len(tried) == 4
    assert asked(0, EIGHT) == 8192 and tried[4:] == [2048, 8192, 32768]  # eight devices are another case, tried with eight times as many


def test_a_scene_that_no_bucket_takes_is_said():
    with pytest.raises(ValueError, match="fits bucket f8g1: set config.sim.mjx_worlds"):
        mjx_worlds._scene(Catalogue.all(), Bucket(8, 1), ("pick_place",))


@pytest.mark.slow
def test_the_rate_is_measured():
    catalogue = Catalogue.all()
    episode = mjx_worlds._scene(catalogue, Bucket(2, 1), ("pick_place",))
    assert mjx_worlds._rate(catalogue, Bucket(2, 1), 2, 2, None, episode, "jax") > 0


def test_a_large_bucket_on_a_cpu_is_said_to_take_minutes_once(monkeypatch, capsys):
    mjx_worlds.announce.cache_clear()
    for bucket, backend in ((Bucket(6, 7), "cpu"), (Bucket(6, 7), "cpu"), (Bucket(2, 2), "cpu"), (Bucket(4, 7), "gpu")):
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        mjx_worlds.announce(bucket, 1024)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "MJX: bucket f6g7 in 1,024 worlds; its executables take minutes" in said
