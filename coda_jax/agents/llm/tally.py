"""What became of what language models said, by purpose: filled by the agents, committed with the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Tally:
    """counts: of each purpose, e.g. "engine.write", how often each thing happened: "answered", a CallErrorKind, "accepted",
    "rejected:syntax", "fenced", "repaired", "fallback", ..."""

    def __init__(self) -> None:
        self.counts: dict[str, dict[str, int]] = {}

    def count(self, purpose: str, what: str, n: int = 1) -> None:
        """``what`` happened ``n`` more times."""
        own = self.counts.setdefault(purpose, {})
        own[what] = own.get(what, 0) + n

    @classmethod
    def merged(cls, tallies: Iterable[Tally]) -> Tally:
        """A new tally of all that several counted."""
        found = cls()
        for tally in tallies:
            for purpose, own in tally.counts.items():
                for what, n in own.items():
                    found.count(purpose, what, n)
        return found

    def plain(self) -> dict[str, dict[str, int]]:
        """A copy of the counts, sorted by name: equal tallies give equal text."""
        return {purpose: dict(sorted(own.items())) for purpose, own in sorted(self.counts.items())}

    @classmethod
    def from_plain(cls, counts: Mapping[str, Mapping[str, int]]) -> Tally:
        """The tally that ``plain`` gave."""
        found = cls()
        found.counts = {purpose: dict(own) for purpose, own in counts.items()}
        return found

    def since(self, earlier: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
        """What was counted after ``earlier``, which ``plain`` gave; nothing where nothing was."""
        grown = {
            purpose: {
                what: n - earlier.get(purpose, {}).get(what, 0) for what, n in own.items() if n > earlier.get(purpose, {}).get(what, 0)
            }
            for purpose, own in self.plain().items()
        }
        return {purpose: own for purpose, own in grown.items() if own}
