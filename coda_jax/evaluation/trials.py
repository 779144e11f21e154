"""Rollouts for agents and experiments: trials in, outcomes with phases and margins out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np

from coda_jax.agents.base import Measured, Outcome, Recorded, Trial
from coda_jax.evaluation.failures import PHASES, phase_failed
from coda_jax.evaluation.results import Result
from coda_jax.evaluation.rollouts import EmbedFn, PolicyFn, rollout
from coda_jax.evaluation.statistics import Interval, cluster_bootstrap, wilson
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families import margins
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.simulator import Simulator, episode_of

_FIRST_MARGIN = 1 + len(PHASES)  # columns: nu, phases, margins (sim/simulator.py)


def outcome_of(result: Result, trial: Trial) -> Outcome:
    """Phase and margins of one finished rollout; a flagged one has failed in the phase it had reached."""
    phase, measured = ending(result.predicates, result.success, trial.spec)
    recorded = None
    if result.views is not None and result.chunks is not None:
        recorded = Recorded(result.views, result.executed, result.prefix, result.chunks)
    return Outcome(trial, result.success, result.steps, phase, measured, result.health, result.actions, recorded)


def ending(predicates: np.ndarray, success: bool, spec: SceneSpec) -> tuple[str | None, dict[str, Measured]]:
    """The failed phase, None for a success, and the margins by name of a rollout with predicates [t, p] after each control step.

    A scene whose goal holds at the start has no control step, hence no margins.
    """
    phase = None if success else phase_failed(predicates[:, :_FIRST_MARGIN]) or PHASES[-1]
    measured = {}
    for column, margin in enumerate(margins(spec) if len(predicates) else (), _FIRST_MARGIN):
        values = predicates[:, column]
        step = int(values.argmin() if margin.best == "smallest" else values.argmax())
        measured[margin.name] = Measured(float(values[step]), step + 1, margin.threshold, margin.unit)
    return phase, measured


class TrialRunner:
    """A ``RolloutFn``: rolls trials out with one policy in one simulator.

    horizon: control steps of a scene's episode. key: folded with each trial's key, so that equal trials have equal noise whenever and
    beside whomever they run.
    on_result: called with each outcome, in the order in which rollouts end (progress, a signal to stop). record: outcomes are recorded.
    """

    def __init__(
        self,
        sim: Simulator,
        catalogue: Catalogue,
        policy_fn: PolicyFn,
        embed: EmbedFn,
        executed: int,
        horizon: Callable[[SceneSpec], int],
        key: jax.Array,
        on_result: Callable[[Outcome], None] = lambda _: None,
        record: bool = False,
    ):
        self._sim, self._catalogue, self._policy_fn, self._embed = sim, catalogue, policy_fn, embed
        self._executed, self._horizon, self._key, self._on_result = executed, horizon, key, on_result
        self._record = record

    def __call__(self, trials: Sequence[Trial]) -> list[Outcome]:
        """Outcomes in the order of the trials; every trial is simulated, repeated ones too."""
        numbers: dict[int, int] = {}
        episodes = []
        for number, trial in enumerate(trials):
            episode = episode_of(trial.spec, self._horizon(trial.spec), trial.key, trial.prefix)
            numbers[id(episode)] = number
            episodes.append(episode)
        outcomes: list[Outcome | None] = [None] * len(trials)
        made = rollout(self._sim, self._catalogue, episodes, self._policy_fn, self._embed, self._executed, self._key, record=self._record)
        for result in made:
            number = numbers[id(result.episode)]
            outcome = outcomes[number] = outcome_of(result, trials[number])
            self._on_result(outcome)
        assert all(o is not None for o in outcomes), "every episode ends"
        return [o for o in outcomes if o is not None]


def success_rate(outcomes: Sequence[Outcome]) -> tuple[int, int]:
    """(successes, rollouts) of those that stayed healthy."""
    healthy = [o for o in outcomes if not o.health]
    return sum(o.success for o in healthy), len(healthy)


def counts_of(outcomes: Sequence[Outcome], n: int) -> list[tuple[int, int]]:
    """``success_rate`` of every ``n`` consecutive outcomes: of trials that roll out one scene after the other, ``n`` times each."""
    return [success_rate(outcomes[first : first + n]) for first in range(0, len(outcomes), n)]


def by_scene(outcomes: Sequence[Outcome]) -> dict[int, tuple[int, int]]:
    """Scene number to (successes, healthy rollouts), in order of first appearance."""
    groups: dict[int, list[Outcome]] = {}
    for o in outcomes:
        groups.setdefault(o.trial.key[0], []).append(o)
    return {number: success_rate(group) for number, group in groups.items()}


def success_interval(outcomes: Sequence[Outcome]) -> Interval:
    """95 % interval of ``success_rate`` over scenes."""
    counts = [(k, n) for k, n in by_scene(outcomes).values() if n]
    return rate_interval([k for k, _ in counts], [n for _, n in counts])


def rate_interval(k: Sequence[int], n: Sequence[int] | int) -> Interval:
    """95 % interval of the success rate of scenes with ``k`` of ``n`` each: scenes are resampled, as the rollouts of one scene are not
    independent; (0, 1) without scenes."""
    rollouts = [n] * len(k) if isinstance(n, int) else list(n)
    return wilson(sum(k), sum(rollouts)) if len(k) < 2 else cluster_bootstrap(k, rollouts)
