"""The scenes on which a round is measured, before and after its training."""

from __future__ import annotations

from coda_jax.loop import seed_scenes
from coda_jax.loop.journal import Environment
from coda_jax.loop.rounds import recall
from coda_jax.loop.run import Run


def measured_scenes(run: Run, round_number: int) -> tuple[list[Environment], list[Environment]]:
    """The round's environments, and control variants of its control tests, which are never trained on."""
    environments = list(run.state.environments.get(str(round_number), []))
    own = {e.scene_id for e in environments}
    numbers = {scene.spec.scene_id: number for number, scene in enumerate(seed_scenes.load(run.folder, run.state))}
    controls: dict[str, Environment] = {}
    for episode in recall.episodes(run.memory, round_number, "control_other"):
        if episode.scene_id in own or episode.scene_id in controls or len(controls) == run.config.rounds.environments:
            continue
        row = run.memory.scene(episode.scene_id)
        assert row is not None and row.base_scene_id is not None, "control variants are stored with their bases"
        controls[episode.scene_id] = Environment(episode.scene_id, numbers[row.base_scene_id], None)
    return environments, list(controls.values())
