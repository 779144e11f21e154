"""What a round collected, as agents are shown it."""

from __future__ import annotations

from pathlib import Path

from coda_jax.agents.base import Case
from coda_jax.loop.rounds import outcomes as stored
from coda_jax.loop.rounds import recall
from coda_jax.memory.store import Memory


def collected(folder: Path, memory: Memory, round_number: int) -> list[Case]:
    """Every collected rollout of a round of the run in ``folder`` beside its base scene, in the order of the rollouts."""
    scenes = recall.Scenes(memory)
    path = folder / stored.file_of(round_number, "collect")
    return [Case(scenes.base(o.trial.spec.scene_id), o) for o in stored.load(path, scenes.spec)]
