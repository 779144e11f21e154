"""One question's outcome with what it cost, as endpoint, recording and budget hand it on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

from coda_jax.agents.llm.chat import CallError, CallErrorKind, Reply, Request

ANSWERED = "answered"
MOST_SAID = 2000  # characters of a refused answer that are kept for people


@dataclasses.dataclass(frozen=True)
class Called:
    """What became of a request.

    tokens: (in, out) that it is charged with, also where there is no answer. estimated: from the length of the texts, because the server
    did not say. said: beginning of an answer that does not count. seconds, attempts: of this process; 0 where nothing went out.
    """

    answer: Reply | CallError
    tokens: tuple[int, int] = (0, 0)
    estimated: bool = False
    said: str = ""
    seconds: float = 0.0
    attempts: int = 0

    @property
    def outcome(self) -> str:
        """ "answered", or why it was not."""
        return self.answer.kind.value if isinstance(self.answer, CallError) else ANSWERED


def failed(kind: CallErrorKind, message: str) -> Called:
    """A question that cost nothing and has no answer."""
    return Called(CallError(kind, message))


class Caller(Protocol):
    """Whoever gets answers."""

    def call(self, requests: Sequence[Request], done: Callable[[int, Called], None]) -> None:
        """Get them all side by side; ``done`` is told of each, by its place among the requests, in this thread as they arrive.

        What ``done`` raises ends it; answers that are still out are given up.
        """
        ...
