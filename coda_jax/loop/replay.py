"""``--mode=replay``: the video of a stored rollout, from its recorded actions carried out again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from coda_jax.agents.base import Outcome
from coda_jax.evaluation.film import MissingExtraError, write_video
from coda_jax.loop import own_families, parts
from coda_jax.loop import workdir as folders
from coda_jax.loop.journal import file_sha256, read_commits
from coda_jax.loop.rounds import outcomes as stored
from coda_jax.loop.rounds import recall
from coda_jax.memory.rows import Episode
from coda_jax.memory.store import FILE, Memory
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.platforms import coordinates
from coda_jax.sim.render import render
from coda_jax.sim.replay import replay
from coda_jax.sim.simulator import episode_of

HEIGHT, WIDTH = 192, 256


def find(folder: Path, episode_id: int) -> tuple[Episode, Outcome]:
    """A stored rollout and its recorded actions.

    Raises:
      InputError: there is no such rollout, its actions were not kept, or the file is not the one that was committed.
    """
    with Memory.reading(folder / FILE) as memory:
        found = memory.rows(Episode, "WHERE episode_id = ?", (episode_id,))
        if not found:
            (last,) = memory.select("SELECT max(episode_id) FROM episodes")[0]
            if last:
                raise InputError(f"{folder} has no episode {episode_id}; there are 1 to {last}")
            raise InputError(f"{folder} keeps no episodes yet: rounds keep theirs (config.rounds.count), an evaluation none")
        episode = found[0]
        if episode.states is None:
            kept = memory.select("SELECT min(episode_id), max(episode_id) FROM episodes WHERE states IS NOT NULL GROUP BY states")
            listed = ", ".join(f"{a} to {b}" for a, b in kept)
            raise InputError(f"the actions of episode {episode_id} ({episode.purpose}) were not kept; those of {listed or 'no other'} were")
        path = folder / episode.states
        commits = read_commits(folder)
        if not path.is_file() or not commits or file_sha256(path) != commits[-1].files.get(episode.states):
            raise InputError(f"{path} is gone or damaged; --mode=run goes back to the commit before it")
        for outcome in stored.load(path, recall.Scenes(memory).spec):
            if outcome.trial.spec.scene_id == episode.scene_id and outcome.trial.key[1] == episode.repeat:
                return episode, outcome
    raise InputError(f"{path} does not hold episode {episode_id}")


def run(folder: Path, episode_id: int, output: Path | None) -> None:
    """Write the video of a rollout, front and wrist camera side by side, and say what happened in it.

    output: an .mp4 or a .webp, where None the latter in the run's videos/.

    Raises:
      InputError: as ``find``, or the file cannot be written.
    """
    config = folders.read_config(folder)
    folders.check_robot(folder, config)
    own_families.add(config)
    episode, outcome = find(folder, episode_id)
    spec, catalogue = outcome.trial.spec, Catalogue.all()
    bucket = parts.training_bucket(config, Catalogue("train"))
    sim, platform = parts.native_simulator(config, catalogue, bucket, worlds=1), parts.platform_of(config)
    (trajectory,) = replay(sim, [(episode_of(spec, parts.horizon_of(config)(spec), outcome.trial.key), outcome.actions)])
    if trajectory.success != episode.success:
        print("the rollout ends otherwise here than where it was recorded: another backend or version of the simulator")
    scene = platform.drawable(spec, catalogue, bucket, parts.robot_of(config))
    qpos = coordinates(scene, trajectory.qpos)
    both = [render(scene.model, qpos, camera, height=HEIGHT, width=WIDTH) for camera in platform.cameras.both]
    frames = np.concatenate(both, axis=2)
    path = output or folder / "videos" / f"episode_{episode_id}.webp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_video(path, frames)
    except (ValueError, MissingExtraError) as error:
        raise InputError(f"--output: {error}") from None
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; give another --output") from None
    margins = {name: f"{m.value:.3f} {m.unit} at step {m.step}, {m.threshold:g} is asked for" for name, m in outcome.margins.items()}
    row = {"episode": episode_id, "scene_id": episode.scene_id, "instruction": spec.task.instruction, "success": episode.success}
    row |= {"steps": episode.steps, "phase_failed": episode.phase_failed, "margins": margins, "video": str(path)}
    print(json.dumps(row, indent=1))
