"""Who writes training programs in a run: the scripted compiler, or one that asks a language model and falls back to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from coda_jax import config as settings
from coda_jax.agents.base import PotentialCompiler
from coda_jax.agents.llm.exemplars import Exemplar, remembered
from coda_jax.agents.llm.potentials import Judgement, LlmPotentials, LlmPotentialSettings
from coda_jax.loop import improvement
from coda_jax.loop.check_training import TrainingCheck
from coda_jax.loop.own_programs import retried
from coda_jax.loop.rounds.variants import seed_of
from coda_jax.loop.run import Run
from coda_jax.loop.strategies import STRATEGIES
from coda_jax.memory.store import Memory
from coda_jax.programs.errors import ProgramError
from coda_jax.programs.sandbox import Sandbox
from coda_jax.programs.training.landmarks import Landmark
from coda_jax.programs.training.program import AnyProgram, TrainingProgram, evaluate_training, to_program


class Door:
    """TrainingDoor Protocol. A worker that dies or stalls is asked again, as for programs of our own.

    checks: of each family. memory: None of a run that does not remember.
    """

    def __init__(self, checks: Mapping[str, TrainingCheck], sandbox: Sandbox, memory: Memory | None):
        self._checks, self._sandbox, self._memory = checks, sandbox, memory

    def read(self, text: str) -> AnyProgram:
        return retried(self._sandbox, lambda: evaluate_training(text, self._sandbox))

    def judged(self, program: TrainingProgram, family: str, phase: str | None) -> Judgement:
        return self._checks[family].judged(program, phase)

    def landmarks(self, family: str) -> list[Landmark]:
        return self._checks[family].landmarks()

    def remembered(self) -> list[Exemplar]:
        found = []
        for one in [] if self._memory is None else remembered(self._memory, list(self._checks)):
            try:
                program = self.read(one.text)
            except ProgramError:  # another run's, of a time when more was allowed
                continue
            if isinstance(program, TrainingProgram):
                found.append(dataclasses.replace(one, text=to_program(program)))
        return found


def potential_settings(config: settings.Config) -> LlmPotentialSettings:
    p = config.potential
    return LlmPotentialSettings(
        p.signal, p.stages, p.dense_weight, p.tools, p.least_stopped, config.agents.llm_potentials.repairs, config.agents.llm.answer_tokens
    )


def compiler_of(run: Run, round_number: int, checks: Mapping[str, TrainingCheck], sandbox: Sandbox) -> PotentialCompiler:
    """The run's compiler for one stage of a round. checks: of each family of the run."""
    scripted = improvement.compiler_of(run.config)
    if settings.agent_kind(run.config, "potentials") != "llm":
        return scripted
    seed = seed_of("potentials", run.config.seed, round_number)
    door = Door(checks, sandbox, run.memory if STRATEGIES[run.config.strategy].remembers else None)
    return LlmPotentials(run.chat, potential_settings(run.config), run.tally, scripted, door, seed)
