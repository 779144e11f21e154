"""One program, asked for, put through its door, and sent back with the door's message until it passes or the repairs are used up."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Generic, TypeVar

from coda_jax.agents.llm.chat import CallError, CallErrorKind, Message, Reply, Request
from coda_jax.agents.llm.dialogues import Dialogue
from coda_jax.agents.llm.replies import ReplyError, program_in
from coda_jax.agents.llm.tally import Tally
from coda_jax.agents.llm.toolbox import Toolbox
from coda_jax.agents.prompts import prompt
from coda_jax.programs.errors import ProgramError, one_line

T = TypeVar("T")
_MOST_SAID = 1200  # characters of a door's message
_KEPT = 20_000  # characters of an own answer that a model is shown again
# answers that a model can be asked to give again in another way
_AGAIN = {
    CallErrorKind.TRUNCATED: "your answer was cut off before it ended: give the program alone, shorter",
    CallErrorKind.EMPTY: "your answer was empty: give one program",
}
_NO_PROGRAM = {
    "no_program": "there is no program in your answer: give exactly one, in a code block, that ends with {ending}",
    "two_programs": "there is more than one program in your answer: give exactly one, in one code block",
    "empty": "your answer was empty: give exactly one program, in a code block, that ends with {ending}",
}


class Refusal(Exception):
    """What a door says of a program that it does not let pass. kind: for counters. message: for the author, what to change."""

    def __init__(self, kind: str, message: str):
        self.kind, self.message = kind, message
        super().__init__(f"{kind}: {message}")


def refusal_of(error: ProgramError) -> Refusal:
    """A door's refusal of a text, with the line of it."""
    where = f"line {error.line}: " if error.line is not None else ""
    return Refusal(error.kind.value, f"{where}{error.message}")


@dataclasses.dataclass(frozen=True)
class Commission(Generic[T]):
    """A program that is wanted.

    messages: the question. door: from a program's text to what it is accepted as; raises Refusal. ending: the program's last line.
    toolbox, tool_rounds: tools, and in how many answers they may be used; None for none. repairs: most attempts after the first, each asked
    for with the prompt ``repair``.
    """

    purpose: str
    messages: tuple[Message, ...]
    door: Callable[[str], T]
    ending: str
    seed: int
    max_tokens: int
    repairs: int
    toolbox: Toolbox | None = None
    tool_rounds: int = 0
    repair: str = "engine_repair"


def written(wanted: Commission[T], tally: Tally) -> Dialogue[T | None]:
    """The dialogue that ends with what the door accepted, or None: at most ``1 + repairs + tool_rounds`` questions, each answer counted."""
    messages, attempts, rounds = list(wanted.messages), 0, wanted.tool_rounds
    while attempts <= wanted.repairs:
        tools = wanted.toolbox.tools if wanted.toolbox is not None and rounds > 0 else ()
        answer = yield Request(wanted.purpose, tuple(messages), wanted.seed, wanted.max_tokens, tools=tools)
        if isinstance(answer, CallError):
            tally.count(wanted.purpose, answer.kind.value)
            if answer.kind not in _AGAIN:
                return None
            said = _AGAIN[answer.kind]
        else:
            tally.count(wanted.purpose, "answered")
            if answer.calls and wanted.toolbox is not None and rounds > 0:
                rounds -= 1
                messages += [Message("assistant", _own(answer), answer.calls), *wanted.toolbox.answers(answer.calls)]
                if not rounds:
                    messages.append(Message("user", ("No more tools now: give the program.",)))
                continue
            try:
                found = _through(wanted, answer, tally)
            except Refusal as refused:
                tally.count(wanted.purpose, refused.kind)
                if refused.kind == "refusal":
                    return None
                said = refused.message
            else:
                tally.count(wanted.purpose, "accepted")
                if attempts:
                    tally.count(wanted.purpose, "repaired")
                return found
            messages.append(Message("assistant", _own(answer)))
        messages.append(Message("user", (prompt(wanted.repair).filled(said=one_line(said, _MOST_SAID), ending=wanted.ending),)))
        attempts += 1
    return None


def _own(answer: Reply) -> tuple[str, ...]:
    return (answer.text[:_KEPT],) if answer.text else ()


def _through(wanted: Commission[T], answer: Reply, tally: Tally) -> T:
    """What the door makes of the answer's program. Raises Refusal, of a kind as it is counted."""
    try:
        text, fenced = program_in(answer.text)
    except ReplyError as error:
        kind = str(error.kind)
        said = _NO_PROGRAM.get(kind, _NO_PROGRAM["no_program"])
        raise Refusal(kind, said.format(ending=wanted.ending)) from None
    if fenced:
        tally.count(wanted.purpose, "fenced")
    try:
        return wanted.door(text)
    except Refusal as refused:
        raise Refusal(f"rejected:{refused.kind}", refused.message) from None
