"""Whether a potential cuts the way where the policy breaks: its subgoals against the phase's beginning and end (METHOD section 2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from coda_jax.programs.training.gates import Demonstrated, measured
from coda_jax.programs.training.program import TrainingProgram

LEAST_STEPS = 2  # a phase that ends sooner after its beginning has no inside
_MET = 1e-3  # of several goals the first one's phase is met where the share is above 0


@dataclasses.dataclass(frozen=True)
class Span:
    """Where a phase lies in a demonstration: after control step ``begin``, up to ``end``; the reset is 0."""

    begin: int
    end: int

    @property
    def has_inside(self) -> bool:
        return self.end - self.begin >= LEAST_STEPS


def phase_spans(phases: np.ndarray) -> list[Span]:
    """The span of each phase in a successful episode.

    phases: [t, p] values of the phase predicates after each control step, in the order of the phases; of several goals the first one's
    phases count. A phase that is met before an earlier one, or never, ends with it.
    """
    held = phases > _MET
    met = np.where(held.any(0), 1 + held.argmax(0), 0)  # moment 0 is the reset
    ends = np.maximum.accumulate(met)
    return [Span(int(begin), int(end)) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


@dataclasses.dataclass(frozen=True)
class Placing:
    """Where the subgoals of a program are first met. first: [d, m] control steps in the ``d`` demonstrations that show the phase.

    inside: [d, m] bool, whether in the phase; of subgoals met at one control step the first alone counts. needed: how many must be.
    """

    first: np.ndarray
    inside: np.ndarray
    needed: int

    @property
    def share(self) -> float | None:
        """Of demonstrations in which enough subgoals lie inside the phase; None where none shows the phase."""
        return None if not len(self.inside) else float((self.inside.sum(1) >= self.needed).mean())


def placing(program: TrainingProgram, demonstrations: Sequence[Demonstrated], spans: Sequence[Span]) -> Placing:
    """How the subgoals lie to a phase, whose ``spans`` are given for each demonstration: two belong inside, one where there are two.

    Raises:
      ValueError: as ``gates.measured``.
    """
    _, found, episode = measured(program, demonstrations)
    numbers = range(1, program.stages + 1)
    shown = [i for i, span in enumerate(spans) if span.has_inside]
    first = np.array([[int((found.stage[episode == i] >= n).argmax()) for n in numbers] for i in shown], int).reshape(-1, program.stages)
    begin, end = (np.array([getattr(spans[i], name) for i in shown], int)[:, None] for name in ("begin", "end"))
    return Placing(first, (first > begin) & (first <= end) & (np.diff(first, axis=1, prepend=-1) > 0), min(2, max(1, program.stages - 1)))
