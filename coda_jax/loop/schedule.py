"""When the next round begins: after a fixed number of updates, or when the present scenes have nothing left to teach."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from coda_jax.evaluation.statistics import paired_difference
from coda_jax.evaluation.wording import counted


@dataclasses.dataclass(frozen=True)
class Fixed:
    """A round every ``updates`` policy updates."""

    updates: int


@dataclasses.dataclass(frozen=True)
class Adaptive:
    """Next round when fewer than ``least_modes`` are in band, or success on them moved less than ``least_gain`` over ``window`` updates.

    "Less" is judged by the upper limit of a paired interval at ``confidence``, so a small sample never ends a round by chance.
    That needs many scenes, hence ``most_updates``: a round ends there whatever was measured.
    """

    least_modes: int = 8
    window: int = 2_000
    least_gain: float = 0.02
    confidence: float = 0.90
    most_updates: int = 10_000


@dataclasses.dataclass(frozen=True)
class Measurement:
    """updates: policy updates since the round began. modes_in_band: modes in band now. success: scene -> (k, n) of in-band modes."""

    updates: int
    modes_in_band: int
    success: Mapping[str, tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class Decision:
    """Whether the next round begins, and why, in words for the log."""

    start: bool
    reason: str


def next_round(schedule: Fixed | Adaptive, history: Sequence[Measurement]) -> Decision:
    """Decide from this round's measurements, oldest first. A round in which nothing was trained yet never ends.

    Raises:
      ValueError: measurements out of order, or successes outside 0..n with n >= 1.
    """
    for earlier, later in itertools.pairwise(history):
        if later.updates <= earlier.updates:
            raise ValueError(f"a measurement at {later.updates} updates follows one at {earlier.updates}; pass this round's, oldest first")
    if not history or history[-1].updates <= 0:
        return Decision(False, "nothing was trained in this round yet")
    now = history[-1]
    if isinstance(schedule, Fixed):
        return Decision(now.updates >= schedule.updates, f"{now.updates} of {schedule.updates} updates")
    if now.modes_in_band < schedule.least_modes:
        return Decision(True, f"{counted(now.modes_in_band, 'mode')} in band, fewer than {schedule.least_modes}")
    if now.updates >= schedule.most_updates:
        return Decision(True, f"{now.updates} updates, the most for one round")
    before = next((m for m in reversed(history) if m.updates <= now.updates - schedule.window), None)
    if before is None:
        return Decision(False, f"no measurement {schedule.window} updates ago to compare with")
    gains = _gains(before, now)
    if not gains:
        return Decision(False, f"no in-band scene was measured at both {before.updates} and {now.updates} updates")
    change = paired_difference(gains, schedule.confidence)
    moved = f"success on {len(gains)} in-band scenes moved by {change.mean:+.3f} (at most {change.high:+.3f}) since update {before.updates}"
    return Decision(change.high < schedule.least_gain, f"{moved}; {schedule.least_gain} counts as progress")


def _gains(before: Measurement, now: Measurement) -> list[float]:
    """Success rate gained on each scene of both measurements, in the order of their names."""
    gains = []
    for scene in sorted(before.success.keys() & now.success.keys()):
        for measured in (before, now):
            k, n = measured.success[scene]
            if n < 1 or not 0 <= k <= n:
                raise ValueError(f"scene {scene} at {measured.updates} updates: k = {k} of n = {n}; it needs n >= 1 and 0 <= k <= n")
        (k0, n0), (k1, n1) = before.success[scene], now.success[scene]
        gains.append(k1 / n1 - k0 / n0)
    return gains
