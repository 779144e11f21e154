"""The planner solves scenes about every category that can be asked for, held-out ones too."""

from __future__ import annotations

import collections

import pytest

from coda_jax import config as settings
from coda_jax.loop import parts
from coda_jax.scenes.catalogue import CATEGORIES, Catalogue
from coda_jax.scenes.families import read_goal
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.demonstrate import demonstrate, success_by_category
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.simulator import episode_of


def _scenes(catalogue: Catalogue, each: int) -> list:
    """``each`` scenes about every free category, from the suite that holds it."""
    kept = collections.defaultdict(list)
    for suite, split in (("id", "train"), ("categories", "validation"), ("categories", "test")):
        wanted = {c.name for c in CATEGORIES.values() if c.kind == "object" and c.split == split}
        seed = 70_000
        while any(len(kept[c]) < each for c in wanted):
            spec = sample_spec(catalogue, "pick_place", suite, split, seed)
            seed += 1
            category = catalogue.get(spec.attribute(read_goal(spec).target).asset).category
            if len(kept[category]) < each:
                kept[category].append(spec)
    return [spec for scenes in kept.values() for spec in scenes]


@pytest.mark.parametrize(("each", "least"), [(1, 0), pytest.param(6, 3, marks=pytest.mark.slow)])
def test_every_category_is_solved(each, least):
    catalogue, config = Catalogue.all(), settings.default()
    scenes = _scenes(catalogue, each)
    assert len(scenes) == each * sum(c.kind == "object" for c in CATEGORIES.values())
    sim = NativeSimulator(catalogue, Bucket(6, 6), 64)
    jobs = [episode_of(spec, settings.horizon(config, "pick_place"), (i, 0)) for i, spec in enumerate(scenes)]
    solved = success_by_category(demonstrate(sim, catalogue, jobs, parts.planner_of(config), None, 0), catalogue)
    print({name: f"{k}/{n}" for name, (k, n) in solved.items()})
    assert all(k >= least for k, _ in solved.values()), solved
    assert sum(k for k, _ in solved.values()) >= 0.9 * len(scenes)
