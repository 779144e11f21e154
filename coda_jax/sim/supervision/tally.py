"""How scenes went under a supervisor, in numbers for rows and messages."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable

from coda_jax.sim.supervision.scene_tries import SceneTries


@dataclasses.dataclass(frozen=True)
class Tally:
    """scenes: tried. first: solved by the planner's first choice. solved: also with those that a changed plan solved.

    remarks: kind to the failed tries that it was said of.
    """

    scenes: int = 0
    first: int = 0
    solved: int = 0
    remarks: dict[str, int] = dataclasses.field(default_factory=dict)

    @staticmethod
    def of(tries: Iterable[SceneTries]) -> Tally:
        """Of scenes whose tries have all ended."""
        own = list(tries)
        at = [t.solved_at for t in own]
        remarks = collections.Counter(kind for t in own for c in t.critiques for kind in c.kinds)
        return Tally(len(own), sum(n == 0 for n in at), sum(n is not None for n in at), dict(sorted(remarks.items())))

    def __add__(self, other: Tally) -> Tally:
        remarks = collections.Counter(self.remarks) + collections.Counter(other.remarks)
        return Tally(self.scenes + other.scenes, self.first + other.first, self.solved + other.solved, dict(sorted(remarks.items())))

    def failures(self) -> str:
        """For a message: scenes that failed at first, what was remarked, and those that failed to the end."""
        if self.first == self.scenes:
            return "0"
        said = ", ".join(f"{kind} {n}" for kind, n in sorted(self.remarks.items(), key=lambda item: (-item[1], item[0])))
        return f"{self.scenes - self.first} at the first try ({said}), in {self.scenes - self.solved} after revision"

    def row(self) -> dict:
        """Fields of a row of metrics."""
        return {"scenes": self.scenes, "first": self.first, "solved": self.solved, "remarks": dict(self.remarks)}
