"""What a language model is asked and what comes back, free of any server: the one interface between agents and an endpoint."""

from __future__ import annotations

import dataclasses
import enum
import zlib
from collections.abc import Sequence
from typing import Literal, Protocol

from pydantic import BaseModel


@dataclasses.dataclass(frozen=True)
class Picture:
    """png: an encoded picture. caption: one line that stands before it."""

    png: bytes = dataclasses.field(repr=False)
    caption: str = ""


@dataclasses.dataclass(frozen=True)
class ToolCall:
    """A model's wish to use a tool. arguments: JSON text, as it wrote it."""

    id: str
    name: str
    arguments: str


@dataclasses.dataclass(frozen=True)
class Message:
    """One turn of a conversation. calls: of an assistant's turn. answers: the id of the tool call that a "tool" turn answers."""

    role: Literal["system", "user", "assistant", "tool"]
    parts: tuple[str | Picture, ...]
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""


@dataclasses.dataclass(frozen=True)
class Tool:
    """What a model may call. arguments: the strict pydantic model that its JSON text must fit."""

    name: str
    description: str
    arguments: type[BaseModel]


@dataclasses.dataclass(frozen=True)
class Request:
    """One question to a model.

    purpose: who asks, for counters and the ledger, e.g. "engine.write". seed: tells apart questions of the same words, which are recorded
    by their content; also given to servers that take one. schema: the answer's text must fit it; None for free text. max_tokens: of
    the answer.
    """

    purpose: str
    messages: tuple[Message, ...]
    seed: int
    max_tokens: int
    schema: type[BaseModel] | None = None
    tools: tuple[Tool, ...] = ()


def question_seed(seed: int, *parts: object) -> int:
    """A number for one question of a run, the same whenever it is asked again."""
    return zlib.crc32("/".join(map(str, (seed, *parts))).encode())


@dataclasses.dataclass(frozen=True)
class Reply:
    """A complete answer: text (fitting the schema, where there is one) or calls of offered tools. tokens: (in, out), as the server
    counted."""

    text: str
    calls: tuple[ToolCall, ...]
    tokens: tuple[int, int]


class CallErrorKind(enum.StrEnum):
    """Why a question has no answer."""

    RATE_LIMITED = "rate_limited"  # 429 to the last retry
    SERVER = "server"  # 5xx to the last retry
    CONNECTION = "connection"  # refused, reset, no such host
    DEADLINE = "deadline"  # stalled, or slower than the call's deadline
    TOO_LARGE = "too_large"  # more bytes than are read of an answer
    TRUNCATED = "truncated"  # the model ran out of its tokens
    REFUSED = "refused"  # the model or a content filter declined
    EMPTY = "empty"  # nothing said, no tool called
    SCHEMA = "schema"  # the answer does not fit what was asked for, or is no answer of a chat
    BUDGET = "budget"  # the run's tokens are spent
    REQUEST = "request"  # 4xx: key, model or what was asked is not accepted
    NOT_RECORDED = "not_recorded"  # a replay has no such question


class CallError(Exception):
    """A question without an answer. message: one line of printable ASCII without keys, what to change included where a person can."""

    def __init__(self, kind: CallErrorKind, message: str):
        self.kind, self.message = kind, message
        super().__init__(f"{kind.value}: {message}")

    def __reduce__(self):
        return type(self), (self.kind, self.message)


class Chat(Protocol):
    """Whoever answers: an endpoint, a recording of one, a list of answers."""

    def ask(self, requests: Sequence[Request]) -> list[Reply | CallError]:
        """Answers in the order of the requests, asked side by side as far as the endpoint's cap allows.

        What is answered does not depend on the order in which answers arrive. Never raises for what a server or model did.
        """
        ...
