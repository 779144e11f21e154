"""A Caller of listed answers, for tests: no server, and a note of what was asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from coda_jax.agents.llm.called import Called
from coda_jax.agents.llm.chat import Message, Reply, Request


def question(text: str = "say hello", seed: int = 0, **changes) -> Request:
    return dataclasses.replace(Request("test", (Message("user", (text,)),), seed, 20), **changes)


def answer(text: str = "hello", tokens: tuple[int, int] = (10, 5), **changes) -> Called:
    return Called(Reply(text, (), tokens), tokens, attempts=1, seconds=0.5, **changes)


class Listed:
    """Answers by what ``of`` makes of each request. backwards: the last question is answered first. asked: questions in order."""

    def __init__(self, of: Callable[[Request], Called] = lambda request: answer(), backwards: bool = False):
        self.of, self.backwards = of, backwards
        self.asked: list[Request] = []
        self.waves: list[int] = []

    def call(self, requests: Sequence[Request], done: Callable[[int, Called], None]) -> None:
        self.asked += requests
        self.waves.append(len(requests))
        numbers = range(len(requests))
        for i in reversed(numbers) if self.backwards else numbers:
            done(i, self.of(requests[i]))
