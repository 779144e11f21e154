"""The planner in the scenes of a round: which of them it solves, and the certified demonstrations of each.

A scene whose demonstrations fail is tried again with plans that a supervisor changed (sim/supervision).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from coda_jax import runtime
from coda_jax.evaluation.terminal import Progress
from coda_jax.loop import parts, supervisors
from coda_jax.loop.rounds import trajectories
from coda_jax.loop.run import Run
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.demonstrate import NoiseSettings, Trajectory, demonstrate
from coda_jax.sim.simulator import Episode
from coda_jax.sim.supervision.batch import Tries
from coda_jax.sim.supervision.tally import Tally


@dataclasses.dataclass(frozen=True)
class Certified:
    """found: successes of each scene, in the order of their tries. tally: how the scenes went, before and after revision."""

    found: list[list[Trajectory]]
    physics_steps: int
    episodes: int
    tally: Tally


def certify(run: Run, specs: Sequence[SceneSpec], each: int, first: int, noise: NoiseSettings | None, label: str) -> Certified:
    """Up to ``each`` certified demonstrations of every scene; a scene without any is not solvable for the planner.

    first: number of the first scene, which the noise of its demonstrations folds in.
    """
    config = run.config
    sim = parts.native_simulator(config, run.everything, parts.training_bucket(config, run.train))
    tries = [supervisors.tries_of(run, spec, each, number) for number, spec in enumerate(specs)]
    jobs = Tries(tries, parts.horizon_of(config), first)

    def known(scene_id: str, key: tuple[int, int]) -> Episode:
        """The episode of a key; a KeyError where it is none of that scene."""
        episode = jobs.episode(key)
        if episode.spec.scene_id != scene_id:
            raise KeyError(f"episode {key} is of scene {episode.spec.scene_id}, not {scene_id}")
        return episode

    batch = run.substeps.batch(trajectories.save, lambda path: trajectories.load(path, known))
    found: list[list[Trajectory]] = [[] for _ in specs]
    episodes = control_steps = 0

    def note(trajectory: Trajectory) -> None:
        nonlocal episodes, control_steps
        episodes += 1
        control_steps += len(trajectory.actions)
        ended = jobs.ended(trajectory)
        if ended.success:
            found[ended.episode.key[0] - first].append(ended)

    with Progress(label, each * len(specs), "demos") as progress:
        for trajectory in filter(jobs.asks_for, batch.known):  # a try that would now be another one is made anew
            jobs.done.add(trajectory.episode.key)
            note(trajectory)
        progress.skip(sum(map(len, found)))
        for trajectory in demonstrate(sim, run.everything, jobs, parts.planner_of(config), noise, config.seed, jobs.parameters):
            runtime.check_stop()
            note(trajectory)
            progress.update(sum(map(len, found)))
            batch.add(trajectory)
    for own in found:
        own.sort(key=lambda t: t.episode.key)
    physics = parts.platform_of(config).physics_steps(control_steps, len({s.scene_id for s in specs}))
    return Certified([own[:each] for own in found], physics, episodes, Tally.of(tries))
