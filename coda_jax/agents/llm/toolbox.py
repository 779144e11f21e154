"""Tools that a model calls: arguments read strictly, answers cut to a bound, a wrong call answered with what was wrong with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from coda_jax.agents.llm.chat import Message, Picture, Tool, ToolCall
from coda_jax.agents.llm.tally import Tally
from coda_jax.programs.errors import one_line, quote

MOST_CALLS = 4  # of one answer
_ARGUMENT_BYTES = 80_000  # of one call: a program fits
_MESSAGE = 300


class Arguments(BaseModel):
    """Arguments of a tool: no other fields, no other types."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class ToolRefused(Exception):
    """A call that cannot be carried out; the message, for the model, says what to change. kind: for counters."""

    def __init__(self, kind: str, message: str):
        self.kind = kind
        super().__init__(message)


@dataclasses.dataclass(frozen=True)
class Use:
    """A tool and what carries it out: a function from its arguments to text, or to text and a picture."""

    tool: Tool
    run: Callable[[Any], str | tuple[str, Picture]]


class Toolbox:
    """What one agent's model may call; every call is counted. answer_chars: most characters of an answer."""

    def __init__(self, uses: Sequence[Use], answer_chars: int, purpose: str, tally: Tally):
        self._uses = {u.tool.name: u for u in uses}
        self._chars, self._purpose, self._tally = answer_chars, purpose, tally

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(u.tool for u in self._uses.values())

    def answers(self, calls: Sequence[ToolCall]) -> list[Message]:
        """One turn for each call, in order, then one with the pictures that tools drew. Never raises for what a model asks."""
        turns, pictures = [], []
        for i, call in enumerate(calls):
            text, picture = self._answer(call) if i < MOST_CALLS else self._refused("too_many", f"at most {MOST_CALLS} calls at once")
            turns.append(Message("tool", (text,), answers=call.id))
            pictures += [picture] if picture is not None else []
        return [*turns, Message("user", tuple(pictures))] if pictures else turns

    def _answer(self, call: ToolCall) -> tuple[str, Picture | None]:
        use = self._uses.get(call.name)
        if use is None:
            return self._refused("unknown", f"there is no tool {quote(call.name)}: use {', '.join(self._uses) or 'none'}")
        if len(call.arguments) > _ARGUMENT_BYTES:
            return self._refused("arguments", f"more than {_ARGUMENT_BYTES} characters of arguments: shorten them")
        try:
            arguments = use.tool.arguments.model_validate_json(call.arguments or "{}")
        except (ValidationError, ValueError) as error:
            return self._refused("arguments", wrong_arguments(error, use.tool.arguments))
        try:
            found = use.run(arguments)
        except ToolRefused as refused:
            return self._refused(refused.kind, str(refused))
        self._tally.count(self._purpose, f"tool:{use.tool.name}")
        text, picture = found if isinstance(found, tuple) else (found, None)
        return (text if len(text) <= self._chars else f"{text[: self._chars]}\n... (cut; ask for less)"), picture

    def _refused(self, kind: str, message: str) -> tuple[str, None]:
        self._tally.count(self._purpose, f"tool_refused:{kind}")
        return f"error: {one_line(message, _MESSAGE)}", None


def wrong_arguments(error: Exception, arguments: type[BaseModel]) -> str:
    """What is wrong with a call's arguments, and which there are."""
    fields = ", ".join(arguments.model_fields) or "none"
    if not isinstance(error, ValidationError):
        return f"the arguments are no JSON object; there are: {fields}"
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part)[:40] for part in first["loc"][:4]) or "arguments"
    return f"{where}: {first['msg']}; there are: {fields}"
