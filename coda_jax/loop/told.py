"""A Chat that says what is asked and what comes back, for a person who waits at a terminal."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from coda_jax.agents.llm.budget import Budgeted, total
from coda_jax.agents.llm.chat import CallError, Reply, Request
from coda_jax.agents.llm.tally import Tally

SAID_EVERY_S = 10.0  # while an answer is awaited
_QUIET = ("answered", "fenced")  # of a tally: what says nothing about whether a program passed


class Told:
    """Asks ``chat`` and says each question, the wait for it, its tokens and seconds, or why there is no answer.

    tally: of the agent that asks; what it counted of the last answer is said before the next question. say: of one line, also from a
    thread of its own. deadline_s: of a call.
    """

    def __init__(self, chat: Budgeted, tally: Tally, say: Callable[[str], None], deadline_s: float, every_s: float = SAID_EVERY_S):
        self._chat, self._tally, self._say = chat, tally, say
        self._deadline_s, self._every_s = deadline_s, every_s
        self._asked, self._heard = 0, tally.plain()

    def ask(self, requests: Sequence[Request]) -> list[Reply | CallError]:
        """As ``Chat.ask``."""
        self.outcome()
        first = self._asked + 1
        self._asked += len(requests)
        named = f"question {first}" if len(requests) == 1 else f"questions {first} to {self._asked}"
        self._say(f"{named}: asked")
        began, before = time.monotonic(), total(self._chat.asked)
        with self._waiting(named):
            answers = self._chat.ask(requests)
        spent = f"{total(self._chat.asked) - before:,} tokens, {time.monotonic() - began:.0f} s"
        for number, answer in enumerate(answers, first):
            if isinstance(answer, CallError):
                self._say(f"question {number}: no answer, {answer.kind.value}: {answer.message} ({spent})")
            else:
                used = ", ".join(call.name for call in answer.calls)
                self._say(f"question {number}: answered ({spent}){f', it uses {used}' if used else ''}")
        return answers

    def outcome(self) -> None:
        """Say what the agent made of the answers since the last question."""
        new = self._tally.since(self._heard)
        self._heard = self._tally.plain()
        found = [what for own in new.values() for what in own if what not in _QUIET]
        if found:
            self._say(f"question {self._asked}: {', '.join(found)}")

    @contextlib.contextmanager
    def _waiting(self, named: str) -> Iterator[None]:
        """While it is open a thread says every few seconds for how long the answer has been awaited."""
        arrived, began = threading.Event(), time.monotonic()

        def speak() -> None:
            while not arrived.wait(self._every_s):
                self._say(f"{named}: waiting for {time.monotonic() - began:.0f} s, at most {self._deadline_s:g} s for an answer")

        thread = threading.Thread(target=speak, name="waiting", daemon=True)
        thread.start()
        try:
            yield
        finally:
            arrived.set()
            thread.join()
