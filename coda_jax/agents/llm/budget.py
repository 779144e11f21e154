"""The tokens of a run: what was asked and spent, what may still be asked, what it costs."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from coda_jax.agents.llm.called import Called, Caller, failed
from coda_jax.agents.llm.chat import CallError, CallErrorKind, Reply, Request
from coda_jax.agents.llm.estimate import most_tokens

Count = Annotated[int, Field(ge=0)]
_PER = 1e6  # tokens of a price


@dataclasses.dataclass(frozen=True)
class Prices:
    """Of a million tokens, in whatever currency."""

    price_in: float
    price_out: float

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        return (tokens_in * self.price_in + tokens_out * self.price_out) / _PER


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class Asked:
    """What was asked for one purpose, alike in a run, its continuation and its replay: recorded answers count as when they came.

    outcomes: "answered", or a CallErrorKind, to its number. estimated: questions whose tokens no server counted.
    """

    tokens_in: Count = 0
    tokens_out: Count = 0
    estimated: Count = 0
    outcomes: dict[str, Count] = dataclasses.field(default_factory=dict)

    @property
    def questions(self) -> int:
        return sum(self.outcomes.values())

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    def plus(self, called: Called) -> Asked:
        outcomes = collections.Counter(self.outcomes)
        outcomes[called.outcome] += 1
        tokens = self.tokens_in + called.tokens[0], self.tokens_out + called.tokens[1]
        return Asked(*tokens, self.estimated + called.estimated, dict(sorted(outcomes.items())))

    def minus(self, earlier: Asked) -> Asked:
        """What came after ``earlier``."""
        outcomes = collections.Counter(self.outcomes)
        outcomes.subtract(earlier.outcomes)
        spent = self.tokens_in - earlier.tokens_in, self.tokens_out - earlier.tokens_out, self.estimated - earlier.estimated
        return Asked(*spent, {name: n for name, n in sorted(outcomes.items()) if n > 0})


@dataclasses.dataclass
class Paid:
    """What one purpose took of this machine and the server's owner, also where a kill threw the work away. calls: tries that went out.
    recorded: questions that a recording answered, at no cost."""

    calls: int = 0
    recorded: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0

    def add(self, called: Called) -> None:
        if not called.attempts:
            self.recorded += called.outcome != CallErrorKind.NOT_RECORDED
            return
        self.calls += called.attempts
        self.tokens_in += called.tokens[0]
        self.tokens_out += called.tokens[1]
        self.seconds += called.seconds


def total(asked: Mapping[str, Asked]) -> int:
    """Tokens of all purposes."""
    return sum(one.tokens for one in asked.values())


class Budgeted:
    """A Chat that asks while the run's tokens last.

    Questions are taken in their order, as many side by side as would fit even if each were answered at its longest; what they took is then
    charged in the same order. So what is asked depends on nothing but the questions and their answers, not on which answer came first.

    Args:
      tokens: of the run. answer_tokens: most of one answer, whatever a request asks for. asked: what was spent before, by purpose.
      watch: told (answers, questions) of an ``ask`` as answers arrive; what it raises ends the ask.
    """

    def __init__(
        self,
        caller: Caller,
        tokens: int,
        answer_tokens: int,
        asked: Mapping[str, Asked],
        watch: Callable[[int, int], None] = lambda answers, questions: None,
    ):
        self.asked: dict[str, Asked] = dict(asked)
        self._caller, self._tokens, self._answer_tokens, self._watch = caller, tokens, answer_tokens, watch
        self._paid: dict[str, Paid] = {}

    def ask(self, requests: Sequence[Request]) -> list[Reply | CallError]:
        """As ``Chat.ask``."""
        asked = [dataclasses.replace(r, max_tokens=min(r.max_tokens, self._answer_tokens)) for r in requests]
        answers: list[Reply | CallError] = []
        while len(answers) < len(asked):
            first = len(answers)
            wave = self._fitting(asked[first:])
            found: dict[int, Called] = {}

            def came(number: int, called: Called, found: dict[int, Called] = found, first: int = first) -> None:
                found[number] = called
                self._paid.setdefault(asked[first + number].purpose, Paid()).add(called)
                self._watch(first + len(found), len(asked))

            if wave:
                self._caller.call(wave, came)
            else:
                left = max(0, self._tokens - total(self.asked))
                message = (
                    f"the run has {left:,} of its {self._tokens:,} tokens left, too few for this question; raise config.agents.llm.tokens"
                )
                found[0] = failed(CallErrorKind.BUDGET, message)
            for number in range(len(found)):
                purpose = asked[first + number].purpose
                self.asked[purpose] = self.asked.get(purpose, Asked()).plus(found[number])
                answers.append(found[number].answer)
        return answers

    def _fitting(self, requests: Sequence[Request]) -> Sequence[Request]:
        """The first of them, as many as surely fit."""
        left = self._tokens - total(self.asked)
        for number, request in enumerate(requests):
            left -= most_tokens(request)
            if left < 0:
                return requests[:number]
        return requests

    def paid(self) -> dict[str, Paid]:
        """What was paid since this was asked last, by purpose."""
        found, self._paid = self._paid, {}
        return found
