"""The diagnoser that asks a language model: it watches a failed rollout and says what of the scene it failed by.

Blind as the scripted one, and more so: it is shown the rollout and what the scene measures beside the others of the round, never the scene
with which it would be compared, nor an edit. It rolls nothing out again: what it says is put to the control test like anybody's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from coda_jax.agents.base import Case, Diagnoser, Diagnosis, RolloutFn
from coda_jax.agents.llm.chat import CallError, CallErrorKind, Chat, Message, Picture, Reply, Request, question_seed
from coda_jax.agents.llm.diagnosis import MOST_REASON, NO_CAUSE, Answer, Rejection, checked, parsed
from coda_jax.agents.llm.episode_text import cause_lines, episode_text, scene_text
from coda_jax.agents.llm.frames import chosen_steps
from coda_jax.agents.llm.seen import Seen, Watch
from coda_jax.agents.llm.tally import Tally
from coda_jax.agents.prompts import prompt
from coda_jax.agents.vocabulary import Measurements, measurements
from coda_jax.programs.errors import one_line
from coda_jax.scenes.families import PHASES

PURPOSE = "diagnoser"
MOST_REASKS = 2
# The model answered, and may do better: everything else is the server's or the budget's.
_ITS_OWN = (CallErrorKind.SCHEMA, CallErrorKind.EMPTY, CallErrorKind.TRUNCATED)
# Where the error speaks to the run's owner; of what does not fit the schema it speaks to the model.
_WHY = {
    CallErrorKind.EMPTY: "the answer was empty",
    CallErrorKind.TRUNCATED: "the answer was cut off before it ended: make it shorter",
}


@dataclasses.dataclass(frozen=True)
class LlmDiagnoserSettings:
    """frames: pictures of a rollout. rows: of its table. pictures: whether the model takes any. answer_tokens: of an answer, at most.
    seed: of the run."""

    frames: int
    rows: int
    pictures: bool
    answer_tokens: int
    seed: int


@dataclasses.dataclass(frozen=True)
class _Question:
    """A failure that is asked about. number: among the failures."""

    number: int
    case: Case
    seen: Seen
    messages: tuple[Message, ...]


class LlmDiagnoser:
    """Diagnoser Protocol. watch: shows rollouts again. fallback: diagnoses what the model gave no usable answer for."""

    def __init__(self, chat: Chat, settings: LlmDiagnoserSettings, tally: Tally, fallback: Diagnoser, watch: Watch):
        self._chat, self._settings, self._tally, self._fallback, self._watch = chat, settings, tally, fallback, watch

    def diagnose(self, failures: Sequence[Case], round_cases: Sequence[Case], rollout_fn: RolloutFn) -> list[Diagnosis]:
        """One diagnosis per failure, in order. An answer that the episode or the vocabulary does not hold is asked for again with the
        reason, at most MOST_REASKS times; whatever stays without one is the fallback's, counted."""
        if not failures:
            return []
        round_ = measurements([case.spec for case in (round_cases or failures)])
        open_ = self._questions(failures, round_)
        found: dict[int, Diagnosis] = {}
        for _ in range(1 + MOST_REASKS):
            if not open_:
                break
            replies = self._chat.ask([self._request(question) for question in open_])
            again = []
            for question, reply in zip(open_, replies, strict=True):
                judged = self._judged(question, reply, round_)
                if isinstance(judged, Diagnosis):
                    found[question.number] = judged
                elif judged is not None:
                    again.append(judged)
            open_ = again
        return self._completed(found, failures, round_cases, rollout_fn)

    def _completed(
        self, found: dict[int, Diagnosis], failures: Sequence[Case], round_cases: Sequence[Case], rollout_fn: RolloutFn
    ) -> list[Diagnosis]:
        left = [number for number in range(len(failures)) if number not in found]
        if left:
            self._tally.count(PURPOSE, "fallback", len(left))
            instead = self._fallback.diagnose([failures[number] for number in left], round_cases, rollout_fn)
            found |= dict(zip(left, instead, strict=True))
        return [found[number] for number in range(len(failures))]

    def _questions(self, failures: Sequence[Case], round_: Measurements) -> list[_Question]:
        system = Message("system", (_instructions(round_),))
        questions = []
        for number, (case, seen) in enumerate(zip(failures, self._watch([case.outcome for case in failures]), strict=True)):
            if seen is None or not seen.steps:
                self._tally.count(PURPOSE, "not_seen")
                continue
            questions.append(_Question(number, case, seen, (system, Message("user", self._shown(case, seen, round_)))))
        return questions

    def _shown(self, case: Case, seen: Seen, round_: Measurements) -> tuple[str | Picture, ...]:
        rows = chosen_steps(seen, self._settings.rows)
        words = f"{episode_text(case.outcome, seen, rows)}\n\n{scene_text(case.spec, round_)}"
        if not self._settings.pictures or seen.draw is None:
            return (words,)
        steps = chosen_steps(seen, self._settings.frames)
        said = [f"step {step} of {seen.steps}, {_phase_at(seen, step)}" for step in steps]
        drawn = seen.draw(list(zip(steps, said, strict=True)))
        return (words, *(Picture(png, caption) for png, caption in zip(drawn, said, strict=True)))

    def _request(self, question: _Question) -> Request:
        seed = question_seed(self._settings.seed, PURPOSE, question.case.spec.scene_id, *question.case.outcome.trial.key)
        return Request(PURPOSE, question.messages, seed, self._settings.answer_tokens, Answer)

    def _judged(self, question: _Question, reply: Reply | CallError, round_: Measurements) -> Diagnosis | _Question | None:
        """The diagnosis, the question with what was wrong with the answer, or None where asking again is no use."""
        if isinstance(reply, CallError):
            self._tally.count(PURPOSE, reply.kind.value)
            if reply.kind not in _ITS_OWN:
                return None
            why = _WHY.get(reply.kind) or one_line(reply.message, MOST_REASON)
            return _with(question, None, f"{why}; answer with one JSON object of the schema's fields")
        self._tally.count(PURPOSE, "answered")
        answer = parsed(reply.text)
        judged = answer if isinstance(answer, Rejection) else checked(answer, question.case.outcome, question.seen, round_.causes())
        if isinstance(judged, Diagnosis):
            self._tally.count(PURPOSE, "accepted")
            return judged
        self._tally.count(PURPOSE, f"rejected:{judged.kind}")
        return _with(question, reply.text, judged.message)


def _with(question: _Question, said: str | None, reason: str) -> _Question:
    """The question after an answer that was refused. said: by the model, which gets its own words back, cut."""
    turns = (Message("assistant", (said[:2000],)),) if said else ()
    return dataclasses.replace(question, messages=(*question.messages, *turns, Message("user", (f"Refused: {reason}.",))))


def _instructions(round_: Measurements) -> str:
    causes = round_.causes()
    said = {factor: "\n".join(cause_lines([c or NO_CAUSE for c in names])) for factor, names in causes.items()}
    return prompt("diagnoser").filled(
        phases=", ".join(PHASES), task=said["TASK"], spatial=said["SPATIAL"], attribute=said["ATTRIBUTE"], execution=said["EXECUTION"]
    )


def _phase_at(seen: Seen, step: int) -> str:
    """Which phases hold after a control step: "approach, grasp hold"."""
    holding = [name for name, values in seen.phases.items() if values[step - 1] > 0]
    return f"{', '.join(holding)} hold" if holding else "no phase holds"
