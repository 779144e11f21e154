"""Recorded actions carried out again, with everything seen: a policy's own episode becomes a trajectory to learn from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from coda_jax.sim.demonstrate import SKILL, RecordedStep, Recorder, Trajectory
from coda_jax.sim.refill import Refill
from coda_jax.sim.simulator import Episode, Simulator
from coda_jax.types import ACTION_DIM

REPLAYED = "replay"  # what a recorded action is done for, among the skills of a trajectory


def replay(sim: Simulator, jobs: Sequence[tuple[Episode, np.ndarray]]) -> Iterator[Trajectory]:
    """Carry out each job's actions [t, 7] step by step from the scene's start; yields in the order in which they end.

    On the native backend an episode ends as it did when it was recorded, bit for bit: actions are executed control step by control
    step there too, whatever the length of the chunks was. Labels are the executed (clipped) actions.

    Raises:
      ValueError: a job without actions.
    """
    if empty := next((e for e, actions in jobs if not len(actions)), None):
        raise ValueError(f"episode {empty.key} of scene {empty.spec.scene_id} has no actions: leave it out")
    actions_of = {id(episode): np.clip(actions, -1.0, 1.0) for episode, actions in jobs}
    refill = Refill(sim, _episodes(jobs))
    started = refill.start()
    if started is None:
        return
    batch, state, _ = started
    recorder = Recorder(sim.worlds)
    while batch.mask.any():
        view, action = state.view, np.zeros((sim.worlds, ACTION_DIM), np.float32)
        spent = np.zeros(sim.worlds, bool)
        for w in np.flatnonzero(batch.mask):
            mine, step = actions_of[id(batch.episodes[w])], int(view.control_step[w])
            action[w] = mine[step]
            spent[w] = step + 1 == len(mine)
        state, trace = sim.step_chunk(batch, state, action[:, None])
        after = (np.asarray(trace.qpos[:, 0]), np.asarray(trace.predicates[:, 0], np.float32))
        recorder.append(RecordedStep(view, action, action, np.ones(sim.worlds, bool), *after, np.full(sim.worlds, REPLAYED, SKILL)))
        ended = np.flatnonzero(batch.mask & (trace.terminated | trace.truncated | (np.asarray(state.health) != 0) | spent))
        if not len(ended):
            continue
        for w in ended:
            views, series = recorder.cut(int(w), state.view)
            episode = batch.episodes[w]
            assert episode is not None
            success = bool(trace.terminated[w])
            cause = "" if success else "the recorded actions did not succeed"
            yield Trajectory(episode, views, **series, success=success, cause=cause, attempts=1)
        batch, state, _, _ = refill.replace(batch, state, ended)
        recorder.forget(~batch.mask)


def _episodes(jobs: Iterable[tuple[Episode, np.ndarray]]) -> Iterator[Episode]:
    return (episode for episode, _ in jobs)
