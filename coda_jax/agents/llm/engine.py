"""The data engine that asks a language model: generation programs for a difficulty, and changes where no check knows one.

Everything a model writes goes through the doors before it leaves this module, and leaves it as the canonical text of what passed: no word
of a model's own gets into memory, reports or other prompts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from coda_jax.agents.base import SPEC_FACTOR, Cure, DataEngine, Difficulty, Priors
from coda_jax.agents.llm import mending, sdk_docs
from coda_jax.agents.llm.author import Commission, Refusal, refusal_of, written
from coda_jax.agents.llm.chat import Chat, Message, question_seed
from coda_jax.agents.llm.dialogues import side_by_side
from coda_jax.agents.llm.engine_tools import WRITING, EngineTools, facts, toolbox, variants_said
from coda_jax.agents.llm.tally import Tally
from coda_jax.agents.prompts import prompt
from coda_jax.programs.errors import ProgramError, one_line
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.edits.verbs import verbs_of
from coda_jax.scenes.generation import GenerationProgram, to_text
from coda_jax.scenes.language import noun
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.checks.record import Failure

WRITE, MEND = "engine.write", "engine.mend"
ENDING = "result = generation(...)"
_MOST_BASES, _MOST_TRACES = 8, 8  # that a question tells
_LINE = 200


@dataclasses.dataclass(frozen=True)
class EngineSettings:
    """programs: asked for side by side for a difficulty. repairs: attempts at a program after its first. tool_rounds: answers in which
    tools may be used, 0 for none: the facts then stand in the question. tool_chars: of a tool's answer. rollouts: quick ones for one
    program. mends: questions about scenes that no standard repair cures, of one engine. answer_tokens: of an answer."""

    programs: int
    repairs: int
    tool_rounds: int
    tool_chars: int
    rollouts: int
    mends: int
    answer_tokens: int


class LlmEngine:
    """DataEngine Protocol. fallback: writes where the model's programs are all refused, and mends first. seed: of the run and round."""

    def __init__(
        self, chat: Chat, settings: EngineSettings, tally: Tally, fallback: DataEngine, catalogue: Catalogue, tools: EngineTools, seed: int
    ):
        self._chat, self._settings, self._tally, self._fallback = chat, settings, tally, fallback
        self._catalogue, self._tools, self._seed = catalogue, tools, seed
        self._mends = 0

    def propose(self, difficulty: Difficulty, bases: Sequence[SceneSpec], priors: Priors) -> list[str]:
        """Canonical texts of the model's programs that passed, those with most valid variants first; the fallback's without any."""
        accepted = self._written(difficulty, bases) if bases else []
        if not accepted:
            self._tally.count(WRITE, "fallback")
            return self._fallback.propose(difficulty, bases, priors)
        return [to_text(program) for _, program in sorted(accepted, key=lambda found: -found[0])]

    def _written(self, difficulty: Difficulty, bases: Sequence[SceneSpec]) -> list[tuple[int, GenerationProgram]]:
        """Valid variants and program of each that passed, in the order of the questions."""
        chosen, taken = self._settings, {p.mechanism_id for p in self._tools.taken()}
        families = tuple(dict.fromkeys(b.task.family for b in bases))
        system = prompt("engine_generation").filled(docs=sdk_docs.generation_docs(families, SPEC_FACTOR[difficulty.factor]))

        def door(text: str) -> tuple[int, GenerationProgram]:
            found = self._passed(text, difficulty, bases, taken)
            taken.add(found[1].mechanism_id)
            return found

        def commission(number: int) -> Commission[tuple[int, GenerationProgram]]:
            asked = self._question(difficulty, bases, families, number)
            messages = (Message("system", (system,)), Message("user", (asked,)))
            box = toolbox(
                WRITING, self._tools, self._catalogue, bases, self._evaluated, chosen.rollouts, chosen.tool_chars, WRITE, self._tally
            )
            seed = question_seed(self._seed, WRITE, difficulty.factor, difficulty.phase, difficulty.cause, *families, number)
            return Commission(WRITE, messages, door, ENDING, seed, chosen.answer_tokens, chosen.repairs, box, chosen.tool_rounds)

        return [f for f in side_by_side(self._chat, [written(commission(n), self._tally) for n in range(chosen.programs)]) if f is not None]

    def _evaluated(self, text: str) -> GenerationProgram:
        try:
            return self._tools.generation(text)
        except ProgramError as error:
            raise refusal_of(error) from None

    def _passed(
        self, text: str, difficulty: Difficulty, bases: Sequence[SceneSpec], taken: Collection[str]
    ) -> tuple[int, GenerationProgram]:
        """The rules of the loop beyond the door: the difficulty's factor, an edit of its own, a valid variant. Raises Refusal."""
        program = self._evaluated(text)
        wanted = SPEC_FACTOR[difficulty.factor]
        if program.factor != wanted:
            verbs = ", ".join(verbs_of({b.task.family for b in bases}, wanted))
            raise Refusal(
                "wrong_factor", f"factor: the difficulty is one of {wanted}, the program's factor is {program.factor}: use {verbs}"
            )
        if program.mechanism_id in taken:
            raise Refusal("taken", "the same edits of the same roles are used by another program of this round: use another verb or role")
        found = self._tools.variants(program, bases, program.level)
        if not found.valid:
            raise Refusal("no_variant", f"no base scene gives a valid variant at level {program.level:g}: {variants_said(found)}")
        return found.valid, program

    def _question(self, difficulty: Difficulty, bases: Sequence[SceneSpec], families: Sequence[str], number: int) -> str:
        known = self._tools.known(difficulty.factor, difficulty.phase, difficulty.cause, families)
        told = [facts(known) if known else "nothing was measured of it yet"]
        if not self._settings.tool_rounds:
            own = [t for v in verbs_of(set(families), SPEC_FACTOR[difficulty.factor]) for t in self._tools.traces(v, None, 0.5, 1)]
            told += ["earlier constructions that failed a check:", *(t.said() for t in own[:_MOST_TRACES])] if own else []
            told += ["categories: " + ", ".join(self._catalogue.categories())]
        asked = prompt("engine_write").filled(
            number=number + 1,
            count=self._settings.programs,
            factor=difficulty.factor,
            phase=one_line(difficulty.phase, _LINE),
            cause=one_line(difficulty.cause, _LINE),
            families=", ".join(families),
            facts="\n".join(told),
            bases="\n".join(base_line(i, b, self._catalogue) for i, b in enumerate(bases[:_MOST_BASES])),
            taken="\n".join(map(_in_short, self._tools.taken())) or "nothing",
        )
        return f"{asked}\n{with_tools(self._settings)}"

    def repair(self, spec: SceneSpec, failures: Sequence[Failure], factors: Collection[str]) -> tuple[SceneSpec, tuple[Cure, ...]] | None:
        """The fallback's repair, which knows the number that mends most failures and costs nothing; the model is asked about the rest."""
        found = self._fallback.repair(spec, failures, factors)
        if found is not None or self._mends >= self._settings.mends:
            return found
        self._mends += 1
        seed = question_seed(self._seed, MEND, spec.scene_id, self._mends)
        return mending.mended(self._chat, self._tally, MEND, spec, failures, factors, self._catalogue, seed, self._settings.answer_tokens)


def _in_short(program: GenerationProgram) -> str:
    """Edits and roles of a program that passed the door."""
    edits = ", ".join(f"{e.verb} {e.low:g} to {e.high:g}" for e in program.edits)
    return f"{edits} of {', '.join(r.name for r in program.roles)}"


def with_tools(settings: EngineSettings) -> str:
    """What a question says of tools, where there are any."""
    return prompt("engine_tools").filled(rounds=settings.tool_rounds) if settings.tool_rounds else ""


def base_line(number: int, spec: SceneSpec, catalogue: Catalogue) -> str:
    """A scene in one line: what is asked, and every thing with its roles and place."""
    things = []
    for made in spec.attributes.objects:
        place = spec.placement(made.object)
        roles = "/".join(r.role for r in spec.task.roles if r.object == made.object) or "other"
        name = noun(made.colour, catalogue.get(made.asset).category) if made.asset in catalogue else made.colour
        things.append(f"{name} ({roles}) at {place.pos_m[0]:.2f},{place.pos_m[1]:.2f}")
    return one_line(f"{number}: {spec.task.family}, {spec.task.instruction!r}; {', '.join(things)}", 3 * _LINE)
