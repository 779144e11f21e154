"""A run whose policy sees pictures, at its smallest; its pictures are drawn once and are those of the stored states."""

import numpy as np
import pytest

from coda_jax.loop import demonstrations, parts, pictures, seed_scenes
from coda_jax.loop import workdir as folders
from coda_jax.loop.coevolve import run
from coda_jax.loop.run import opened
from coda_jax.runtime import InputError
from coda_jax.sim.cameras import WRIST
from coda_jax.sim.compile import compile_scene
from coda_jax.sim.render import render
from tests.loop.small import small_config

pytestmark = pytest.mark.slow


def config():
    small = small_config()
    small.obs, small.evaluate.suites, small.evaluate.scenes = "pixels", ("id",), 2
    small.pixels.update({"height": 16, "width": 16, "channels": 4, "layers": 1, "every": 3})
    small.demos.count, small.clone.steps, small.checkpoint.every = 3, 20, 10
    return small


def test_a_run_with_pictures(tmp_path):
    small = config()
    with folders.open_run(tmp_path, small):
        run(small, tmp_path, dry_run=False)
    with folders.open_run(tmp_path, small), opened(small, tmp_path) as job:
        assert "evaluate" in job.state.done and job.state.compiles == 0
        made = (tmp_path / "pictures" / "demonstrations.npy").stat().st_mtime_ns
        table = pictures.table(job)
        assert (tmp_path / "pictures" / "demonstrations.npy").stat().st_mtime_ns == made
        (name,) = [n for n in job.state.files if n.startswith("episodes/demos_")]
        stored = demonstrations.load_file(tmp_path / name)
        assert len(table.rows) == sum(len(range(0, len(one.qpos), 3)) for one in stored)
        second = stored[1]
        row = len(stored[0].qpos) + 3
        spec = next(s.spec for s in seed_scenes.load(tmp_path, job.state) if s.spec.scene_id == second.scene_id)
        scene = compile_scene(spec, job.everything, parts.training_bucket(small, job.train))
        wanted = render(scene.model, second.qpos[2], WRIST, height=16, width=16, samples=1)[0]
        np.testing.assert_array_equal(table.pixels[table.rows.tolist().index(row), 1], wanted)
        small.pixels.disk_gb, small.pixels.every = 1e-6, 2
        with pytest.raises(InputError, match=r"more than config\.pixels\.disk_gb"):
            pictures.table(job)
