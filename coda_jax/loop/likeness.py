"""Whether recorded actions, carried out again, gave the rollout that was recorded: another backend may end it alike by another way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from coda_jax.agents.base import Outcome, Recorded
from coda_jax.evaluation.trials import ending
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.demonstrate import Trajectory
from coda_jax.sim.replay import replay
from coda_jax.sim.simulator import Simulator, episode_of
from coda_jax.types import WorldView

# Between a rollout and the same carried out again: m of places, rad or m of joints, margins in their unit (m, or a share).
TOLERANCE = 0.01


def carried_out_again(sim: Simulator, outcomes: Sequence[Outcome], horizon: Callable[[SceneSpec], int]) -> list[Trajectory | None]:
    """The rollouts from their recorded actions, in order; None for one without actions, or that goes otherwise here.

    horizon: control steps of an episode of a scene.
    """
    episodes = [episode_of(o.trial.spec, horizon(o.trial.spec), o.trial.key) for o in outcomes]
    wanted = [(e, o.actions) for e, o in zip(episodes, outcomes, strict=True) if len(o.actions)]
    again = {id(t.episode): t for t in replay(sim, wanted)}
    found = [again.get(id(e)) for e in episodes]
    return [t if t is not None and is_rollout(t, o) else None for t, o in zip(found, outcomes, strict=True)]


def is_rollout(trajectory: Trajectory, outcome: Outcome) -> bool:
    """Success, length and failed phase are the outcome's, every margin within TOLERANCE, and every recorded moment where there are any."""
    if trajectory.success != outcome.success or len(trajectory.qpos) != outcome.steps:
        return False
    phase, margins = ending(trajectory.predicates, trajectory.success, outcome.trial.spec)
    if phase != outcome.phase or margins.keys() != outcome.margins.keys():
        return False
    # written so that a value that is no number is unlike everything
    if not all(abs(margins[name].value - m.value) <= TOLERANCE for name, m in outcome.margins.items()):
        return False
    return outcome.recorded is None or _alike(trajectory.views, outcome.recorded)


def _alike(views: WorldView, recorded: Recorded) -> bool:
    there = np.asarray(recorded.views.present)
    pairs = [(np.asarray(getattr(views, name)), np.asarray(getattr(recorded.views, name))) for name in ("ee_pos", "pos", "articulation")]
    if any(one.shape != other.shape for one, other in pairs):
        return False
    hand, places, joints = (np.abs(one - other) <= TOLERANCE for one, other in pairs)
    return bool(hand.all() and places[there].all() and joints[there].all())
