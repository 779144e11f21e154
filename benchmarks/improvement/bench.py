"""What all arms share: the clone's run, the set, its demonstrations, and their settings."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

from benchmarks.improvement.plan import ARMS, Plan
from coda_jax import config as settings
from coda_jax.loop import seed_scenes
from coda_jax.loop.check_training import TrainingCheck
from coda_jax.loop.experience import demonstration_record
from coda_jax.loop.run import Run
from coda_jax.sim.observe import words_and_roles


@dataclasses.dataclass(frozen=True)
class Kept:
    """A recorded episode. number: of its scene in the set, -1 for a demonstration."""

    record: Any
    spec: Any
    number: int


@dataclasses.dataclass
class Bench:
    """The clone's run, the set, clean demonstrations for gates, and what every arm shares."""

    plan: Plan
    run: Run
    scenes: list[Any]
    folder: Path
    base: Any
    suite_base: Any
    stored: list[Any]

    @functools.cached_property
    def gates(self) -> list[Any]:
        return TrainingCheck(self.run.config).demonstrations

    @functools.cached_property
    def demonstrations(self) -> list[Kept]:
        """The clone's demonstrations, cut into decisions as rollouts are."""
        specs = {s.spec.scene_id: s.spec for s in seed_scenes.load(self.run.folder, self.run.state)}
        found = []
        for stored in self.stored:
            spec = specs[stored.scene_id]
            told = words_and_roles(spec, self.run.everything)
            found.append(Kept(demonstration_record(stored, self.run.config.evaluate.executed, told, 1.0), spec, -1))
        return found


def configured(base: settings.Config, arm: str, seed: int) -> settings.Config:
    config = base.copy_and_resolve_references().unlock()
    for path, value in ARMS[arm].items():
        settings.override(config, path, value)
    config.seed = 1000 + seed
    config.potential.tools = False  # shares, weights and start states alike in all arms: they differ in what the critic is told
    return config.lock()
