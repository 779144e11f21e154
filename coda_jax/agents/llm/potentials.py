"""Text2potential: a language model writes the training program of a diagnosis, and mends it from measured progress.

What it writes goes through the door of every training program, the gates on certified demonstrations and the critic's certificate, and
leaves this module as the canonical text of what passed: no word of a model's own gets into memory, reports or other prompts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

from coda_jax.agents.base import Failing, PotentialCompiler, Stalled
from coda_jax.agents.llm import exemplars, training_docs
from coda_jax.agents.llm.author import Commission, Refusal, refusal_of, written
from coda_jax.agents.llm.chat import Chat, Message, question_seed
from coda_jax.agents.llm.dialogues import side_by_side
from coda_jax.agents.llm.episode_text import cause_said
from coda_jax.agents.llm.exemplars import Exemplar
from coda_jax.agents.llm.tally import Tally
from coda_jax.agents.prompts import prompt
from coda_jax.agents.scripted.potentials import Variant
from coda_jax.programs.code import expression_code
from coda_jax.programs.errors import ProgramError, quote
from coda_jax.programs.expressions import Expr
from coda_jax.programs.training.landmarks import Landmark
from coda_jax.programs.training.limits import MAX_STAGES
from coda_jax.programs.training.measured import MeasuredProgress, first_ramp
from coda_jax.programs.training.program import AnyProgram, DenseProgram, Tools, TrainingProgram, to_program
from coda_jax.scenes import families
from coda_jax.scenes.families import PHASES

WRITE, REFINE = "potential.write", "potential.refine"
_PURPOSE: dict[Variant, str] = {"diagnosed": WRITE, "task_text": "potential.task_text", "free_form": "potential.free_form"}
ENDING = "result = training(...)"
_WORSE, _LEAST = 1e-6, 1e-9  # shares of rollouts


@dataclasses.dataclass(frozen=True)
class LlmPotentialSettings:
    """variant, stages, dense_weight, tools: as PotentialSettings; stages is the most, dense_weight the largest. least_stopped: share of all
    rollouts that must stop at one subgoal before the model is asked to mend it. repairs: attempts at a program after its first.
    answer_tokens: of an answer."""

    variant: Variant
    stages: int
    dense_weight: float
    tools: bool
    least_stopped: float
    repairs: int
    answer_tokens: int


@dataclasses.dataclass(frozen=True)
class Judgement:
    """What the gates say of a potential. kind, message: why they refuse it, for counters and for its author; "" where it passed.

    cured: the program weakened or latched by rule so that it passes, where that helps.
    """

    kind: str = ""
    message: str = ""
    cured: TrainingProgram | None = None


class TrainingDoor(Protocol):
    """What a compiler needs of the run: sandbox, certified demonstrations, memory."""

    def read(self, text: str) -> AnyProgram:
        """The program of a text. Raises ProgramError."""
        ...

    def judged(self, program: TrainingProgram, family: str, phase: str | None) -> Judgement:
        """Certificate and gates and, where a phase is given, whether enough subgoals lie inside it."""
        ...

    def landmarks(self, family: str) -> list[Landmark]:
        """How certified demonstrations of a family go."""
        ...

    def remembered(self) -> list[Exemplar]:
        """Programs of memory that passed and helped, their texts canonical."""
        ...


@dataclasses.dataclass
class _Asked:
    """One question. commission: with a door that leaves in ``cured`` what the gates would let pass of a refused program."""

    purpose: str
    commission: Commission[AnyProgram]
    cured: list[TrainingProgram]


class LlmPotentials:
    """PotentialCompiler Protocol. fallback: writes where the model's programs are all refused. seed: of the run and round."""

    def __init__(
        self, chat: Chat, settings: LlmPotentialSettings, tally: Tally, fallback: PotentialCompiler, door: TrainingDoor, seed: int
    ):
        self._chat, self._settings, self._tally, self._fallback = chat, settings, tally, fallback
        self._door, self._seed = door, seed

    def compile(self, failing: Sequence[Failing]) -> list[str]:
        """Canonical texts of what the model wrote and the gates let pass, asked for side by side; the fallback's where nothing did.

        Raises:
          ValueError: there is no such phase.
        """
        if unknown := [f.phase for f in failing if f.phase not in PHASES]:
            raise ValueError(f"there is no phase {quote(unknown[0])}: use one of {', '.join(PHASES)}")
        if self._settings.variant == "sparse":
            return self._fallback.compile(failing)
        asked = list(dict.fromkeys(map(self._told, failing)))
        found = dict(zip(asked, self._answers([self._writing(f) for f in asked]), strict=True))
        texts = []
        for f in failing:
            program = found[self._told(f)]
            texts.append(self._fallback.compile([f])[0] if program is None else to_program(program))
        return texts

    def refine(self, stalled: Sequence[Stalled]) -> list[str]:
        """Canonical texts of what the model made of each program that stalls and the gates let pass; the fallback's of the others."""
        places = [i for i, s in enumerate(stalled) if s.measured.stopped >= max(self._settings.least_stopped, _LEAST)]
        found = dict(zip(places, self._answers([self._mending(stalled[i]) for i in places]), strict=True))
        texts = []
        for i, s in enumerate(stalled):
            program = found.get(i)
            texts.append(self._fallback.refine([s])[0] if program is None else to_program(program))
        return texts

    def _answers(self, asked: Sequence[_Asked]) -> list[AnyProgram | None]:
        """What each question led to: the model's program, else its last one as the gates cure it, else None, which is a fallback."""
        found = side_by_side(self._chat, [written(a.commission, self._tally) for a in asked])
        for i, a in enumerate(asked):
            if found[i] is None:
                self._tally.count(a.purpose, "cured" if a.cured else "fallback")
                found[i] = a.cured[-1] if a.cured else None
        return found

    def _told(self, failing: Failing) -> Failing:
        """What of a diagnosis a question tells: nothing where the potential is to come from the task's text alone."""
        return Failing(failing.family, "EXECUTION", PHASES[0], "") if self._settings.variant == "task_text" else failing

    def _writing(self, failing: Failing) -> _Asked:
        purpose, cured = _PURPOSE[self._settings.variant], list[TrainingProgram]()
        phase = failing.phase if self._settings.variant == "diagnosed" else None

        def door(text: str) -> AnyProgram:
            return self._judged(self._fitting(self._read(text), self._settings.stages), failing.family, phase, cured)

        seed = question_seed(self._seed, purpose, *dataclasses.astuple(failing))
        return _Asked(purpose, self._commission(purpose, self._question(failing), door, seed), cured)

    def _commission(self, purpose: str, asked: str, door: Callable[[str], AnyProgram], seed: int) -> Commission[AnyProgram]:
        system = prompt("potential_rules").filled(docs=training_docs.training_docs())
        messages, chosen = (Message("system", (system,)), Message("user", (asked,))), self._settings
        return Commission(purpose, messages, door, ENDING, seed, chosen.answer_tokens, chosen.repairs, repair="potential_repair")

    def _read(self, text: str) -> AnyProgram:
        try:
            program = self._door.read(text)
        except ProgramError as error:
            raise refusal_of(error) from None
        return program if self._settings.tools else dataclasses.replace(program, tools=Tools())

    def _fitting(self, program: AnyProgram, most: int) -> AnyProgram:
        """A program of the form that the run's signal asks for. Raises Refusal."""
        chosen = self._settings
        if chosen.variant == "free_form":
            if not isinstance(program, DenseProgram):
                raise Refusal("form", f"a dense reward is asked for, not a {program.kind} program: write training(dense(reward, weight))")
            if program.weight > chosen.dense_weight:
                raise Refusal("weight", f"dense: weight is {program.weight:g}, at most {chosen.dense_weight:g} fits the critic's range")
            return program
        if not isinstance(program, TrainingProgram):
            raise Refusal("form", f"a potential is asked for, not a {program.kind} program: write training(subgoal(...), ...)")
        if not 2 <= program.stages <= most:
            raise Refusal("stages", f"training: has {program.stages} subgoals, 2 to {most} are asked for")
        return program

    def _judged(self, program: AnyProgram, family: str, phase: str | None, cured: list[TrainingProgram]) -> AnyProgram:
        """The program, if the gates let it pass. Raises Refusal."""
        if isinstance(program, TrainingProgram):
            found = self._door.judged(program, family, phase)
            if found.kind:
                cured += [found.cured] if found.cured is not None else []
                raise Refusal(found.kind, found.message)
        return program

    def _question(self, failing: Failing) -> str:
        chosen, said = self._settings, _task(failing.family)
        if chosen.variant == "task_text":
            return prompt("potential_task_text").filled(task=said, stages=chosen.stages, examples=self._examples(failing))
        told = {"task": said, "diagnosis": _diagnosis(failing), "phases": ", ".join(PHASES), "phase": failing.phase}
        told |= {"landmarks": training_docs.landmark_lines(self._door.landmarks(failing.family)), "examples": self._examples(failing)}
        if chosen.variant == "free_form":
            return prompt("potential_free_form").filled(weight=f"{chosen.dense_weight:g}", **told)
        return prompt("potential_write").filled(stages=chosen.stages, **told)

    def _examples(self, failing: Failing) -> str:
        chosen = self._settings
        found = exemplars.library(chosen.variant, chosen.stages, chosen.dense_weight, chosen.tools)
        if chosen.variant == "diagnosed":
            found += self._door.remembered()
        else:  # ours of a family says what the scripted compiler answers for it, whatever the phase
            found = [e for e in found if not exemplars.same_staging(e.family, failing.family)]
        near = exemplars.nearest(failing, found)
        whole = chosen.variant != "diagnosed"  # of no phase
        return "\n".join(f"For {e.family if whole else e.said}:\n```python\n{e.text}```" for e in near)

    def _mending(self, stalled: Stalled) -> _Asked:
        cured = list[TrainingProgram]()

        def door(text: str) -> AnyProgram:
            program = self._fitting(self._read(text), MAX_STAGES)
            self._judged(program, stalled.failing.family, None, cured)
            assert isinstance(program, TrainingProgram)
            if (now := stalled.measure(program)).stopped > stalled.measured.stopped + _WORSE:
                raise Refusal("worse", _worse(program, now, stalled.measured))
            if program == stalled.program:
                self._tally.count(REFINE, "unchanged")
            return program

        failing, program = stalled.failing, stalled.program
        seed = question_seed(self._seed, REFINE, *dataclasses.astuple(failing), program.program_id)
        told = {"diagnosis": _diagnosis(failing), "program": to_program(program), "progress": _progress(program, stalled.measured)}
        marks = training_docs.landmark_lines(self._door.landmarks(failing.family))
        asked = prompt("potential_refine").filled(task=_task(failing.family), landmarks=marks, stages=MAX_STAGES, **told)
        return _Asked(REFINE, self._commission(REFINE, asked, door, seed), cured)


def _task(family: str) -> str:
    """What a family's robot is told to do, in training phrasings; {} stand for things."""
    own = families.get(family)
    relations = dict.fromkeys(relation for relation, _ in own.pairs_of("train"))
    return "\n".join([f"family {family}", *(f"  {own.phrases[relation]['train'][0]}" for relation in relations)])


def _diagnosis(failing: Failing) -> str:
    cause = f", cause {cause_said(failing.cause)}" if failing.cause else ""
    return f"{failing.factor} in {failing.phase}{cause}"


def _progress(program: TrainingProgram, found: MeasuredProgress) -> str:
    """What rollouts reached under a program, in words and numbers of ours."""
    lines = [f"{found.rollouts} rollouts"]
    lines += [
        f"  subgoals[{i}] {s.name!r}: reached by {share:.0%}"
        for i, (s, share) in enumerate(zip(program.subgoals, found.reached, strict=True))
    ]
    if found.stalled is None:
        return "\n".join(lines)
    name = program.subgoals[found.stalled].name
    lines.append(f"Most stop before subgoals[{found.stalled}] {name!r} is done: {found.stopped:.0%} of all rollouts.")
    ramp = first_ramp(program.subgoals[found.stalled].progress)
    if ramp is not None and found.entry is not None and found.best is not None:
        quantity = expression_code(next(a for a in ramp.args if isinstance(a, Expr)), 0)
        worst, middle, best = found.best
        lines.append(f"Of these {quantity} is {found.entry:.3f} where they enter the stage; the best value that they reach in it is")
        lines.append(f"{worst:.3f} for the worst tenth, {middle:.3f} for half of them, {best:.3f} for the best tenth.")
    return "\n".join(lines)


def _worse(program: TrainingProgram, now: MeasuredProgress, before: MeasuredProgress) -> str:
    assert now.stalled is not None
    name = program.subgoals[now.stalled].name
    return (
        f"under this program {now.stopped:.0%} of the same rollouts stop before subgoals[{now.stalled}] {name!r}, {before.stopped:.0%} "
        "stopped at one subgoal before: put a subgoal where they stop, so that some of them complete it"
    )
