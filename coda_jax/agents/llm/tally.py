"""Counts of what became of questions and answers, by purpose."""

from __future__ import annotations


class Tally:
    """counts: purpose to what happened to how often."""

    def __init__(self) -> None:
        self.counts: dict[str, dict[str, int]] = {}

    def count(self, purpose: str, what: str, n: int = 1) -> None:
        """``n`` more of ``what``."""
        own = self.counts.setdefault(purpose, {})
        own[what] = own.get(what, 0) + n
