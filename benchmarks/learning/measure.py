"""Contestants that take turns, so that what else runs on the machine weighs on all of them alike."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence

TURN_S = 0.3  # least duration of a turn


@dataclasses.dataclass
class Contestant:
    """run: carries out that many units of work and waits for them. compile_s: of the first call, filled in by ``race``.

    wall_s, cpu_s: of a unit, one of each turn; CPU time is that of all threads of the process.
    """

    name: str
    run: Callable[[int], object]
    compile_s: float = 0.0
    wall_s: list[float] = dataclasses.field(default_factory=list)
    cpu_s: list[float] = dataclasses.field(default_factory=list)

    @property
    def rate(self) -> float:
        """Units a second, median over the turns."""
        return 1 / statistics.median(self.wall_s)

    @property
    def spread(self) -> tuple[float, float]:
        """Lower and upper quartile of the units a second."""
        low, _, high = statistics.quantiles(self.wall_s, n=4)
        return 1 / high, 1 / low

    @property
    def cpu_ms(self) -> float:
        return 1e3 * statistics.median(self.cpu_s)


def race(contestants: Sequence[Contestant], turns: int) -> None:
    """Compile all, then ``turns`` rounds in which each has a turn of at least TURN_S."""
    counts = []
    for one in contestants:
        began = time.perf_counter()
        one.run(1)
        first = time.perf_counter() - began
        began = time.perf_counter()
        one.run(2)
        unit = (time.perf_counter() - began) / 2
        one.compile_s = max(first - unit, 0.0)
        counts.append(max(2, round(TURN_S / unit)))
    for _ in range(turns):
        for one, count in zip(contestants, counts, strict=True):
            wall, cpu = time.perf_counter(), time.process_time()
            one.run(count)
            one.wall_s.append((time.perf_counter() - wall) / count)
            one.cpu_s.append((time.process_time() - cpu) / count)
