"""Examples beside a question for a training program: those of memory that helped, else good ones of our own, the most similar first."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from coda_jax.agents.base import Failing
from coda_jax.agents.llm.episode_text import cause_said
from coda_jax.agents.scripted.potentials import PotentialSettings, ScriptedPotentials, Variant
from coda_jax.agents.scripted.refinement import RefinementSettings
from coda_jax.memory.learning_value import gained
from coda_jax.memory.modes import current_modes, learning_values
from coda_jax.memory.programs import history, programs_of
from coda_jax.memory.rows import LearningValue
from coda_jax.memory.store import Memory
from coda_jax.scenes import families
from coda_jax.scenes.families import PHASES

WANTED = 3
_OTHER_STAGING, _OTHER_FAMILY = 3.0, 1.0
_UNKNOWN, _HALF = 0.5, 0.5


@dataclasses.dataclass(frozen=True)
class Exemplar:
    """text: canonical. gain: Learning Value of its mode's training under it, None of a program of our own, whose factor is unknown."""

    family: str
    factor: str | None
    phase: str
    cause: str
    text: str
    gain: float | None = None

    @property
    def said(self) -> str:
        """What it is an example of."""
        what = f"{self.factor} in {self.phase}" if self.factor else f"failures in {self.phase}"
        helped = f", under which success rose by {self.gain:.2f}" if self.gain is not None else ""
        return f"{self.family}, {what}{f', cause {cause_said(self.cause)}' if self.cause else ''}{helped}"


def same_staging(one: str, other: str) -> bool:
    return families.get(one).staging is families.get(other).staging


def distance(wanted: Failing, found: Exemplar) -> float:
    """How little an example is like what is wanted, the sum of

    family: 0 the same, 1 one that is cut alike (scenes/families), 3 another; phase: how many phases lie between them; factor: 0 the same,
    0.5 unknown, 1 another; cause: 0 the same, 0.5 the same quantity in another direction, or unknown, 1 another.
    """
    family = 0.0 if found.family == wanted.family else _OTHER_FAMILY if same_staging(found.family, wanted.family) else _OTHER_STAGING
    phase = abs(PHASES.index(found.phase) - PHASES.index(wanted.phase))
    factor = 0.0 if found.factor == wanted.factor else _UNKNOWN if found.factor is None else 1.0
    return family + phase + factor + _cause_distance(wanted.cause, found.cause)


def _cause_distance(wanted: str, found: str) -> float:
    if wanted == found:
        return 0.0
    if not (wanted and found):
        return _UNKNOWN
    return _HALF if wanted.partition(":")[0] == found.partition(":")[0] else 1.0


def nearest(wanted: Failing, found: Sequence[Exemplar]) -> list[Exemplar]:
    """The ``WANTED`` most similar ones with different texts, the most similar first; of equal ones those that helped most, then by text.

    What the scripted compiler would answer is left out, unless it helped.
    """
    answer = {e.text for e in found if e.gain is None and e.phase == wanted.phase and same_staging(e.family, wanted.family)}
    texts: dict[str, Exemplar] = {}
    for e in sorted(found, key=lambda e: (distance(wanted, e), -(e.gain or 0.0), e.family, e.text)):
        if e.gain is not None or e.text not in answer:
            texts.setdefault(e.text, e)
    return list(texts.values())[:WANTED]


def library(variant: Variant, stages: int, dense_weight: float, tools: bool) -> list[Exemplar]:
    """Programs of our own of every family, for each phase or, where the signal knows none, for the whole way."""
    author = ScriptedPotentials(PotentialSettings(variant, stages, dense_weight, tools, RefinementSettings(1.0, False)))
    every = [Failing(family, "SPATIAL", phase, "") for family in families.names() for phase in PHASES]
    texts = author.compile(every)
    return [Exemplar(f.family, None, f.phase, "", text) for f, text in zip(every, texts, strict=True)]


def remembered(memory: Memory, chosen: Sequence[str]) -> list[Exemplar]:
    """Programs of modes of the families that were in use when training on the mode's scenes surely gained more than training in general.

    Their texts are as they were stored: whoever shows them reads them through the sandbox first.
    """
    found = []
    for mode in (m for family in chosen for m in current_modes(memory, family)):
        values = [v for v in learning_values(memory, mode.mode_id) if _helped(v)]
        for program in programs_of(memory, mode.mode_id, "training"):
            used = [v.shrunk for v in values if _in_use(memory, program.program_id, v.round)]
            if used and mode.phase in PHASES:
                found.append(Exemplar(mode.family, mode.factor, mode.phase, mode.cause, program.text, max(used)))
    return found


def _helped(value: LearningValue) -> bool:
    """A value of a few rollouts may come from nothing, or from controls that fell."""
    if len({g.n for g in value.scenes}) != 1:  # another run's rows may be anything
        return False
    before, after = [g.k_before for g in value.scenes], [g.k_after for g in value.scenes]
    return gained(min(value.raw, value.shrunk), before, after, value.scenes[0].n)


def _in_use(memory: Memory, program_id: str, round_number: int) -> bool:
    """Whether a program was active in the training of a round."""
    before = [p for p in history(memory, program_id) if p.round <= round_number]
    return bool(before) and before[-1].status == "active"
