"""The present policy in training scenes: one simulator and one policy executable for every experiment of every round."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax

from coda_jax import runtime
from coda_jax.evaluation.terminal import Progress
from coda_jax.evaluation.trials import TrialRunner
from coda_jax.learning.policies.base import Params
from coda_jax.loop import evaluation, parts
from coda_jax.loop.run import Run

# Noise of each purpose; before and after a training are measured with the same.
PURPOSES = ("collect", "revert", "search", "control", "measure", "band")
KEPT = ("collect", "control", "measure")  # whose rollouts are kept to learn from


class Rollouts:
    """Rolls trials out with one set of parameters; ``physics_steps`` and ``count`` grow with the work."""

    def __init__(self, run: Run, params: Params):
        self._run = run
        bucket = parts.training_bucket(run.train)
        self._base = parts.simulator(run.config, run.everything, bucket)
        self.sim, self._policy_fn = evaluation.acting(parts.policy_of(run.config), params, self._base, run.everything)
        self.count = 0

    @property
    def physics_steps(self) -> int:
        return getattr(self._base, "physics_steps", 0)

    @contextlib.contextmanager
    def runner(self, purpose: str, round_number: int, total: int, label: str) -> Iterator[TrialRunner]:
        """A ``RolloutFn`` with progress over about ``total`` rollouts; its noise depends on purpose and round."""
        config = self._run.config
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(config.seed), 3 + PURPOSES.index(purpose)), round_number)
        with Progress(f"round {round_number}, {label}", max(total, 1), "rollouts") as progress:

            def tick() -> None:
                self.count += 1
                progress.advance()
                runtime.check_stop()

            yield TrialRunner(
                self.sim,
                self._run.everything,
                self._policy_fn,
                self._run.encoder.encode,
                config.evaluate.executed,
                config.horizon,
                key,
                tick,
                record=config.experience.record and purpose in KEPT,
            )
