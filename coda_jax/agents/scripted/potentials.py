"""The scripted potential compiler: it cuts the way to success where the policy breaks (METHOD section 2).

The subgoals are the family's (scenes/families/staging.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from coda_jax.agents.base import Factor, Failing, Stalled
from coda_jax.agents.scripted.refinement import RefinementSettings, refined
from coda_jax.programs.expressions import Expr
from coda_jax.programs.training.program import DenseProgram, SparseProgram, Subgoal, Tools, TrainingProgram, to_program
from coda_jax.programs.training.rewrite import rewritten
from coda_jax.scenes import families
from coda_jax.scenes.families import PHASES
from coda_jax.scenes.families.staging import Staging

Variant = Literal["diagnosed", "task_text", "free_form", "sparse"]


@dataclasses.dataclass(frozen=True)
class PotentialSettings:
    """variant: subgoals in the diagnosed phase, one for each phase, a dense reward, or success alone. stages: m, 2 to 4, of the first.
    dense_weight: of the dense reward. tools: whether programs hold learning tools. refinement: see RefinementSettings."""

    variant: Variant
    stages: int
    dense_weight: float
    tools: bool
    refinement: RefinementSettings


def in_phase(staging: Staging, phase: str, stages: int) -> TrainingProgram:
    """The potential of a diagnosed phase with ``stages`` subgoals, as it reads before the gates' rewrite; a subgoal that is left out leaves
    its progress to the next one.

    Raises:
      ValueError: there is no such phase, or a number of stages that no cut has.
    """
    if phase not in staging.cuts:
        raise ValueError(f"there is no phase {phase!r}: use one of {', '.join(staging.cuts)}")
    if not 2 <= stages <= 4:
        raise ValueError(f"{stages} stages: use 2, 3 or 4")
    cut = staging.cuts[phase]
    left_out = set(cut.spare[: 4 - stages])
    kept: list[Subgoal] = []
    waiting: list[Expr] = []
    for place, subgoal in enumerate(cut.subgoals):
        waiting.append(subgoal.progress)
        if place not in left_out:
            kept.append(dataclasses.replace(subgoal, progress=waiting[0] if len(waiting) == 1 else Expr("mean", tuple(waiting))))
            waiting = []
    return TrainingProgram(tuple(kept))


def tools_for(factor: Factor, phase: str) -> Tools:
    """What helps to practise a phase: begin there instead of waiting to get there; more demonstrations where the motion itself fails."""
    demo_share = 0.5 if factor == "EXECUTION" else None
    return Tools(demo_share=demo_share, start_states=True if phase != PHASES[0] else None, sampling_weight=2.0)


class ScriptedPotentials:
    """PotentialCompiler Protocol, deterministic, no network."""

    def __init__(self, settings: PotentialSettings):
        self._settings = settings

    def compile(self, failing: Sequence[Failing]) -> list[str]:
        """The text of a training program for each; a cause says which scenes are hard and moves no subgoal.

        Raises:
          ValueError: see ``in_phase``.
        """
        return [self._compiled(f.family, f.factor, f.phase) for f in failing]

    def _compiled(self, family: str, factor: Factor, phase: str) -> str:
        chosen, staging = self._settings, families.get(family).staging
        staged: Mapping[Variant, TrainingProgram] = {"task_text": staging.task_text}
        tools = tools_for(factor, phase) if chosen.tools else Tools()
        if chosen.variant == "sparse":
            return to_program(SparseProgram(tools))
        if chosen.variant == "free_form":
            return to_program(DenseProgram(staging.dense, chosen.dense_weight, tools))
        program = staged.get(chosen.variant) or in_phase(staging, phase, chosen.stages)
        return to_program(dataclasses.replace(rewritten(program), tools=tools))

    def refine(self, stalled: Sequence[Stalled]) -> list[str]:
        """The text of each program with the stage mended at which most rollouts stop; the same program where none is."""
        return [to_program(rewritten(refined(s.program, s.measured, self._settings.refinement))) for s in stalled]
