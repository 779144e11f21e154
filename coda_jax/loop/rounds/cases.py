"""What a round collected, as agents are shown it."""

from __future__ import annotations

from coda_jax.agents.base import Case
from coda_jax.loop.rounds import outcomes as stored
from coda_jax.loop.rounds import recall
from coda_jax.loop.run import Run


def collected(run: Run, round_number: int) -> list[Case]:
    """Every collected rollout of the round beside its base scene, in the order of the rollouts."""
    scenes = recall.Scenes(run.memory)
    path = run.folder / stored.file_of(round_number, "collect")
    return [Case(scenes.base(o.trial.spec.scene_id), o) for o in stored.load(path, scenes.spec)]
