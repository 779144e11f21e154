"""Recorded conversations, written by hand as a strong model would, and a chat that answers from a list."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from coda_jax.agents.llm.chat import CallError, Reply, Request

FOLDER = Path(__file__).parents[2] / "data" / "transcripts"
Answer = str | Reply | CallError


@dataclasses.dataclass(frozen=True)
class Transcript:
    """purpose: of its requests. turns: (role, text), user and assistant in turn; the user's after the first hold what the door said.

    about: what was asked for and what is expected, by kind. "refused": kinds that are counted for the answers before the last.
    """

    name: str
    purpose: str
    turns: tuple[tuple[str, str], ...]
    about: dict[str, Any]

    @property
    def replies(self) -> list[str]:
        """What the model said, in order."""
        return [text for role, text in self.turns if role == "assistant"]

    @property
    def said(self) -> list[str]:
        """Part of what the door said to each answer but the last."""
        return [text for role, text in self.turns if role == "user"][1:]


def load(kind: str) -> list[Transcript]:
    """The transcripts of "scene", "generation" or "training" programs, by name."""
    found = []
    for path in sorted((FOLDER / kind).glob("*.json")):
        row = json.loads(path.read_text("utf-8"))
        turns = tuple((turn["role"], turn["text"]) for turn in row["turns"])
        found.append(Transcript(path.stem, row["purpose"], turns, row["about"]))
    return found


class Scripted:
    """Chat that gives its answers in order, each to the next question, or what a function makes of a question; asked: every question."""

    def __init__(self, answers: Sequence[Answer] | Callable[[Request], Answer]):
        self._answers, self.asked = answers, list[Request]()

    def ask(self, requests: Sequence[Request]) -> list[Reply | CallError]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Reply | CallError:
        self.asked.append(request)
        if callable(self._answers):
            answer = self._answers(request)
        else:
            assert len(self.asked) <= len(self._answers), f"question {len(self.asked)} was not expected: {request.messages[-1].parts}"
            answer = self._answers[len(self.asked) - 1]
        return Reply(answer, (), (10, 10)) if isinstance(answer, str) else answer
