"""Scenes of every family that renderers are compared on, and where a comparison is fair."""

from __future__ import annotations

import numpy as np

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import compile_scene

BUCKET = Bucket(6, 6, True)


def scenes_of_every_family():
    catalogue = Catalogue("train")
    chosen = [("pick_place", 0), ("pick_place", 5), ("articulated", 1), ("put_inside", 2), ("stack_insert", 3), ("articulated", 4)]
    return [compile_scene(sample_spec(catalogue, family, "id", "train", seed), catalogue, BUCKET) for family, seed in chosen]


def moved_states(scenes):
    """The scenes' first states with the arm, the objects and the joints moved and turned."""
    rng = np.random.default_rng(0)
    qpos = np.stack([s.qpos for s in scenes])
    qpos[:, :7] += rng.uniform(-0.3, 0.3, (len(scenes), 7))
    qpos[:, 9:-1] += rng.uniform(-0.05, 0.05, qpos[:, 9:-1].shape)
    qpos[:, -1] += 0.1
    return qpos


def inside(segmentation):
    """Pixels all of whose eight neighbours are of the same thing: at an edge the last bit of a ray decides what it meets."""
    height, width = segmentation.shape[1:]
    padded = np.pad(segmentation, ((0, 0), (1, 1), (1, 1)), mode="edge")
    near = [padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    return np.all([n == segmentation for n in near], axis=0)
