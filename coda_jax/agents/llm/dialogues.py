"""Conversations as generators, so that several of them ask side by side: each yields its next question and is sent the answer."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeVar

from coda_jax.agents.llm.chat import CallError, Chat, Reply, Request

T = TypeVar("T")
Dialogue = Generator[Request, Reply | CallError, T]


def side_by_side(chat: Chat, dialogues: Sequence[Dialogue[T]]) -> list[T]:
    """What each dialogue ends with, in their order. The next questions of all that still run are asked together."""
    found: dict[int, T] = {}
    asking: dict[int, Request] = {}

    def go_on(i: int, answer: Reply | CallError | None) -> None:
        try:
            asking[i] = next(dialogues[i]) if answer is None else dialogues[i].send(answer)
        except StopIteration as ended:
            found[i] = ended.value

    for i in range(len(dialogues)):
        go_on(i, None)
    while asking:
        asked, asking = asking, {}
        for i, answer in zip(asked, chat.ask(list(asked.values())), strict=True):
            go_on(i, answer)
    return [found[i] for i in range(len(dialogues))]
