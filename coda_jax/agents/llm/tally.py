"""What became of the questions of a run, counted by purpose."""

from __future__ import annotations


class Tally:
    """counts: purpose ("diagnoser") to what happened ("answered", "rejected:step", "fallback") to how often."""

    def __init__(self):
        self.counts: dict[str, dict[str, int]] = {}

    def count(self, purpose: str, what: str, n: int = 1) -> None:
        own = self.counts.setdefault(purpose, {})
        own[what] = own.get(what, 0) + n
