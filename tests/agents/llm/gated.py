"""The door of training programs with real demonstrations, and compilers whose models answer from a list."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from coda_jax import config as settings
from coda_jax.agents.llm.chat import Request
from coda_jax.agents.llm.exemplars import Exemplar
from coda_jax.agents.llm.potentials import LlmPotentials, LlmPotentialSettings
from coda_jax.agents.llm.tally import Tally
from coda_jax.loop import improvement, parts
from coda_jax.loop.check_training import TrainingCheck
from coda_jax.loop.compilers import Door, potential_settings
from coda_jax.programs.sandbox import Sandbox
from tests.agents.llm.transcripts import Answer, Scripted


class Remembering(Door):
    """A door whose memory is given."""

    examples: Sequence[Exemplar] = ()

    def remembered(self) -> list[Exemplar]:
        return list(self.examples)


@functools.cache
def checked(family: str) -> TrainingCheck:
    """Demonstrations of a family, made once."""
    config = settings.default()
    config.family = family
    return TrainingCheck(config, family)


@contextlib.contextmanager
def door() -> Iterator[Remembering]:
    config = settings.default()
    config.sandbox.time_s = config.sandbox.grace_s = 0.3
    with Sandbox(parts.limits_of(config)) as sandbox:
        yield Remembering({family: checked(family) for family in settings.FAMILIES}, sandbox, None)


def chosen(**changes: Any) -> LlmPotentialSettings:
    """The default settings, some of them changed."""
    return dataclasses.replace(potential_settings(settings.default()), **changes)


@dataclasses.dataclass
class Desk:
    """A compiler with its chat and what was counted."""

    compiler: LlmPotentials
    chat: Scripted
    tally: Tally


def desk(at: Remembering, answers: Sequence[Answer] | Callable[[Request], Answer], **changes: Any) -> Desk:
    """A compiler whose model gives ``answers`` and whose scripted counterpart has the same settings."""
    config, own = settings.default(), chosen(**changes)
    config.potential.update({"signal": own.variant, "stages": own.stages, "dense_weight": own.dense_weight, "tools": own.tools})
    chat, tally = Scripted(answers), Tally()
    return Desk(LlmPotentials(chat, own, tally, improvement.compiler_of(config), at, 7), chat, tally)
