"""What agents are asked and what they answer, whoever they are: scripted ones, language models, people.

An agent never touches a simulator: it gets a ``rollout_fn`` and plain data, and gives program text and plain data back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, Protocol

import numpy as np

from coda_jax.programs.training.measured import MeasuredProgress
from coda_jax.programs.training.program import TrainingProgram
from coda_jax.scenes.fixes import Fix
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.checks.record import Failure
from coda_jax.types import WorldView

SceneFactor = Literal["TASK", "SPATIAL", "ATTRIBUTE"]
Factor = Literal["TASK", "SPATIAL", "ATTRIBUTE", "EXECUTION"]
FACTORS: tuple[SceneFactor, ...] = ("TASK", "SPATIAL", "ATTRIBUTE")
SPEC_FACTOR: dict[SceneFactor, str] = {"TASK": "task", "SPATIAL": "spatial", "ATTRIBUTE": "attributes"}  # to field of SceneSpec
SCRIPTED = "scripted"  # the agent of a diagnosis that no model and no chance made
DIAGNOSED: dict[str, SceneFactor] = {field: factor for factor, field in SPEC_FACTOR.items()}


@dataclasses.dataclass(frozen=True)
class Trial:
    """One rollout of the present policy. key: (scene number, repeat), what its noise folds in; equal keys are paired.

    prefix: [p, 7] actions carried out before the policy takes over, None to begin at the scene's start. It is no part of what makes trials
    equal: a trial with a prefix needs a key of its own.
    """

    spec: SceneSpec
    key: tuple[int, int]
    prefix: np.ndarray | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True)
class Recorded:
    """What a recorded rollout leaves to learn from.

    views: the t + 1 moments (sim/recording.py). executed: [k] control steps of each decision. prefix: steps before the policy took over.
    chunks: [k, h, 7] as the policy gave them, with the actions that were not carried out.
    """

    views: WorldView
    executed: np.ndarray
    prefix: int
    chunks: np.ndarray


@dataclasses.dataclass(frozen=True)
class Measured:
    """The best value that a margin's quantity reached, at which control step, and what the phase asks for, all in ``unit``."""

    value: float
    step: int
    threshold: float
    unit: str


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a trial ended. phase: first phase predicate not met, None for a success. margins: by name (scenes/families/steps.py).

    health: bit flags; a flagged rollout says nothing and counts for nothing. actions: [t, 7] as the policy gave them.
    recorded: None where no record was asked for.
    """

    trial: Trial
    success: bool
    steps: int
    phase: str | None
    margins: Mapping[str, Measured]
    health: int
    actions: np.ndarray
    recorded: Recorded | None = None


RolloutFn = Callable[[Sequence[Trial]], list[Outcome]]  # outcomes in the order of the trials


@dataclasses.dataclass(frozen=True)
class Case:
    """A rollout to be explained, or to be compared with. base: the scene with which its factors are compared.

    What stands here is all that a diagnoser sees: two scenes and an outcome, never how the second was made from the first.
    """

    base: SceneSpec
    outcome: Outcome

    @property
    def spec(self) -> SceneSpec:
        return self.outcome.trial.spec


@dataclasses.dataclass(frozen=True)
class Evidence:
    """rollouts: arm ("as it is", "TASK", ..., "everything") to (successes, rollouts), empty where nothing was rolled out again. shares:
    factor to its part of the regression's logit drop, empty without one. margins: of the failed rollout. steps: control steps that were
    named, in order; none where the margins' say it."""

    rollouts: Mapping[str, tuple[int, int]]
    shares: Mapping[str, float]
    margins: Mapping[str, Measured]
    steps: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """Why a rollout failed. cause: what of the factor, e.g. "nearest_gap_m:low" ("" for EXECUTION). confidence: in [0, 1]. agent: who
    says so."""

    factor: Factor
    phase: str
    cause: str
    confidence: float
    evidence: Evidence
    agent: str = SCRIPTED


@dataclasses.dataclass(frozen=True)
class Difficulty:
    """A mode as a data engine sees it: factor, phase and cause of its diagnoses."""

    factor: SceneFactor
    phase: str
    cause: str


@dataclasses.dataclass(frozen=True)
class Cure:
    """A failed check and the change made against it."""

    failure: Failure
    fix: Fix


Priors = Mapping[tuple[str, float], tuple[int, int]]  # (verb, magnitude) to (valid, built) scenes of earlier constructions


class Diagnoser(Protocol):
    def diagnose(self, failures: Sequence[Case], round_cases: Sequence[Case], rollout_fn: RolloutFn) -> list[Diagnosis]:
        """One diagnosis per failure, in order; ``round_cases`` are all rollouts of the round, successes too."""
        ...


class DataEngine(Protocol):
    def propose(self, difficulty: Difficulty, bases: Sequence[SceneSpec], priors: Priors) -> list[str]:
        """Texts of generation programs that practise the difficulty, the most promising first, each at the level where a search for
        the band may begin. ``bases``: scenes like those that the programs will be applied to."""
        ...

    def repair(self, spec: SceneSpec, failures: Sequence[Failure], factors: Collection[str]) -> tuple[SceneSpec, tuple[Cure, ...]] | None:
        """The scene with some failed checks cured, by changes of what they name, and the changes; None where none would help. Only the
        factors (of SceneSpec) given may change."""
        ...


@dataclasses.dataclass(frozen=True)
class Failing:
    """What a training program is for: rollouts of a family that fail in a phase, for a cause in a factor ("" for EXECUTION)."""

    family: str
    factor: Factor
    phase: str
    cause: str


@dataclasses.dataclass(frozen=True)
class Stalled:
    """A potential to mend. measured: progress of rollouts under it. measure: progress of the same rollouts under another one."""

    failing: Failing
    program: TrainingProgram
    measured: MeasuredProgress
    measure: Callable[[TrainingProgram], MeasuredProgress]


class PotentialCompiler(Protocol):
    def compile(self, failing: Sequence[Failing]) -> list[str]:
        """Text of a training program for each diagnosis or mode: at least two of its subgoals lie inside the phase (one of two).

        Raises:
          ValueError: there is no such phase.
        """
        ...

    def refine(self, stalled: Sequence[Stalled]) -> list[str]:
        """Text of each program after rollouts under it: changed where most of them stopped. It passes the gates again before use."""
        ...
