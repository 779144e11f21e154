"""The present policy in training scenes: one simulator and one policy executable for every experiment of every round."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import jax

from coda_jax import runtime
from coda_jax.agents.base import Outcome, RolloutFn, Trial
from coda_jax.evaluation.terminal import Progress
from coda_jax.evaluation.trials import TrialRunner
from coda_jax.learning.policies.base import Params
from coda_jax.loop import evaluation, guides, parts
from coda_jax.loop.rounds import outcomes as stored
from coda_jax.loop.run import Run

# Noise of each purpose; before and after a training are measured with the same.
PURPOSES = ("collect", "revert", "search", "control", "measure", "band", "practice", "try")
KEPT = ("collect", "control", "measure", "practice")  # whose rollouts are kept to learn from


class Rollouts:
    """Rolls trials out with one set of parameters; ``physics_steps`` and ``count`` grow with the work, of earlier processes too.

    task: which of ``actor.collect`` and ``actor.evaluate`` acts.
    """

    def __init__(self, run: Run, params: Params, task: str = "evaluate"):
        self._run = run
        bucket = parts.training_bucket(run.config, run.train)
        self._base = parts.simulator(run.config, run.everything, bucket)
        self.sim, self._policy_fn = evaluation.acting(
            parts.policy_of(run.config), params, self._base, run.everything, guides.guide_of(run, task)
        )
        self.count = self._control_steps = 0
        self._scenes: set[str] = set()

    @property
    def physics_steps(self) -> int:
        """From what the rollouts were, not from the simulator, which knows nothing of an earlier process; 0 where it does not count."""
        if not hasattr(self._base, "physics_steps"):
            return 0
        return parts.platform_of(self._run.config).physics_steps(self._control_steps, len(self._scenes))

    @contextlib.contextmanager
    def runner(self, purpose: str, round_number: int, total: int, label: str) -> Iterator[RolloutFn]:
        """A ``RolloutFn`` with progress over ``total`` rollouts, or more if more are asked for; its noise depends on purpose and round."""
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(self._run.config.seed), 3 + PURPOSES.index(purpose)), round_number)
        with Progress(f"round {round_number}, {label}", total, "rollouts") as progress:
            record = parts.learns(self._run.config) and purpose in KEPT
            yield lambda trials: self._roll_out(trials, key, progress, record)

    def _roll_out(self, trials: Sequence[Trial], key: jax.Array, progress: Progress, record: bool) -> list[Outcome]:
        """Outcomes in the order of the trials; those that an earlier process committed are read back."""
        config, specs = self._run.config, {t.spec.scene_id: t.spec for t in trials}
        batch = self._run.substeps.batch(stored.save, lambda path: stored.load(path, specs.__getitem__))
        known = {identity(o.trial): o for o in batch.known}
        progress.total = max(progress.total or 0, progress.done + len(trials))
        progress.skip(progress.done + len(known))

        def done(outcome: Outcome) -> None:
            progress.advance()
            batch.add(outcome)
            runtime.check_stop()

        run_trials = TrialRunner(
            self.sim,
            self._run.everything,
            self._policy_fn,
            self._run.encoder.encode,
            config.evaluate.executed,
            parts.horizon_of(config),
            key,
            done,
            record,
        )
        fresh = iter(run_trials([t for t in trials if identity(t) not in known]))
        outcomes = [known[identity(t)] if identity(t) in known else next(fresh) for t in trials]
        self.count += len(outcomes)
        self._control_steps += sum(o.steps for o in outcomes)
        self._scenes |= specs.keys()
        return outcomes


def identity(trial: Trial) -> tuple[str, tuple[int, int]]:
    """Equal trials of one batch end equally, so that one outcome may stand for both."""
    return trial.spec.scene_id, trial.key
