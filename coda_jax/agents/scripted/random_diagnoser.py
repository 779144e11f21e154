"""A diagnoser that knows nothing: the base rate against which every other one is judged (METHOD section 7)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from coda_jax.agents.base import FACTORS, Case, Diagnosis, Evidence, Factor, RolloutFn
from coda_jax.agents.vocabulary import measurements
from coda_jax.scenes.families import PHASES

NAME = "random"


class RandomDiagnoser:
    """Diagnoser Protocol: factor, phase and cause drawn evenly from the vocabulary, by the run's seed and the rollout alone."""

    def __init__(self, seed: int):
        self._seed = seed

    def diagnose(self, failures: Sequence[Case], round_cases: Sequence[Case], rollout_fn: RolloutFn) -> list[Diagnosis]:
        """One diagnosis per failure, in order; its confidence is the chance that a drawn factor is right."""
        if not failures:
            return []
        causes = measurements([case.spec for case in round_cases or failures]).causes()
        return [self._drawn(case, causes) for case in failures]

    def _drawn(self, case: Case, causes: dict[Factor, tuple[str, ...]]) -> Diagnosis:
        named = f"{self._seed} {case.spec.scene_id} {case.outcome.trial.key}"
        rng = np.random.default_rng(int.from_bytes(hashlib.sha256(named.encode()).digest()[:8]))
        factors: tuple[Factor, ...] = (*FACTORS, "EXECUTION")
        factor, phase = factors[rng.integers(len(factors))], PHASES[rng.integers(len(PHASES))]
        cause = causes[factor][rng.integers(len(causes[factor]))]
        return Diagnosis(factor, phase, cause, 1 / len(factors), Evidence({}, {}, case.outcome.margins), agent=NAME)
