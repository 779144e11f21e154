"""What the rounds of a run found out about each difficulty mode, gathered from the rows of ``metrics.jsonl``.

Rows may come from anywhere: fields of another type are passed over, texts are kept as they are (hostile until escaped).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from coda_jax.evaluation.metrics import Tally
from coda_jax.memory.causes import canonical

_Z95 = 1.959963984540054  # 97.5 % quantile of the normal distribution
_ORDER = {"confirmed": 0, "undecided": 1, "refuted": 2}


@dataclasses.dataclass(frozen=True)
class Search:
    """Levels of a program that were rolled out, and the one that was taken (None: none lay in the band)."""

    round: int
    verb: str
    levels: tuple[tuple[float, Tally], ...]
    level: float | None


@dataclasses.dataclass(frozen=True)
class ControlOutcome:
    """A control test: drop of success beyond that of another factor with its 90 % interval, and the verdict."""

    round: int
    verdict: str
    mean: float
    low: float
    high: float
    scenes: int


@dataclasses.dataclass(frozen=True)
class Value:
    """A Learning Value. gain, interval: measured, with a 95 % interval of normal theory (None where its noise is unknown).
    value: shrunk toward the round's mean, what later rounds use. before, after: success on the mode's environments (scenes of them).
    controls: the same of scenes that were not practised, None where there were none."""

    round: int
    gain: float
    value: float
    interval: tuple[float, float] | None
    before: Tally
    after: Tally
    scenes: int
    controls: tuple[Tally, Tally] | None = None


@dataclasses.dataclass(frozen=True)
class ModeHistory:
    """One mode. diagnoses: round to number. searches, tests, values: oldest first. imported: it came from another run's memory."""

    mode_id: str
    factor: str
    phase: str
    cause: str
    diagnoses: Mapping[int, int]
    searches: tuple[Search, ...]
    tests: tuple[ControlOutcome, ...]
    values: tuple[Value, ...]
    imported: bool = False

    @property
    def verdict(self) -> str:
        """Of the last control test, "" before one."""
        return self.tests[-1].verdict if self.tests else ""

    @property
    def total(self) -> int:
        return sum(self.diagnoses.values())


def number(value: Any) -> float | None:
    """A finite number, or None for anything else."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def whole(value: Any) -> int | None:
    """A whole number of at most 15 digits, or None."""
    found = number(value)
    return int(found) if found is not None and found == int(found) and abs(found) < 1e15 else None


def tally(k: Any, n: Any) -> Tally | None:
    """k of n, or None where they are no counts."""
    successes, rollouts = whole(k), whole(n)
    if successes is None or rollouts is None or not 0 <= successes <= rollouts:
        return None
    return Tally(successes, rollouts)


def mode_histories(rows: Iterable[Mapping[str, Any]]) -> list[ModeHistory]:
    """Every mode that the rows name: tested ones first (confirmed, undecided, refuted), then by number of diagnoses."""
    names: dict[str, tuple[str, str, str]] = {}
    diagnoses: dict[str, dict[int, int]] = {}
    searches: dict[str, list[Search]] = {}
    tests: dict[str, list[ControlOutcome]] = {}
    values: dict[str, list[Value]] = {}
    imported: set[str] = set()
    for row in rows:
        kind, mode, at = row.get("kind"), row.get("mode"), whole(row.get("round"))
        if kind not in ("imported", "diagnosis", "program", "control_test", "learning_value") or not isinstance(mode, str) or at is None:
            continue
        if "factor" in row and (kind != "diagnosis" or mode not in names):
            cause = str(row.get("cause", ""))
            # a mode keeps the canonical words of its causes, a diagnosis its own
            names[mode] = str(row["factor"]), str(row.get("phase", "")), canonical(cause) if kind == "diagnosis" else cause
        if kind == "imported":
            imported.add(mode)
        elif kind == "diagnosis":
            own = diagnoses.setdefault(mode, {})
            own[at] = own.get(at, 0) + 1
        elif kind == "program":
            searches.setdefault(mode, []).append(_search(row, at))
        elif kind == "control_test" and (test := _test(row, at)):
            tests.setdefault(mode, []).append(test)
        elif kind == "learning_value" and (value := _value(row, at)):
            values.setdefault(mode, []).append(value)
    found = [
        ModeHistory(
            mode,
            *names.get(mode, ("", "", "")),
            diagnoses.get(mode, {}),
            tuple(searches.get(mode, ())),
            tuple(tests.get(mode, ())),
            tuple(values.get(mode, ())),
            mode in imported,
        )
        for mode in dict.fromkeys([*names, *diagnoses, *searches, *tests, *values])
    ]
    return sorted(found, key=lambda m: (_ORDER.get(m.verdict, 3), not m.searches, -m.total, m.mode_id))


def _search(row: Mapping[str, Any], at: int) -> Search:
    levels = row.get("levels")
    found = []
    for name, counts in levels.items() if isinstance(levels, Mapping) else ():
        try:
            level = number(float(name))
        except ValueError:
            continue
        count = tally(*counts) if isinstance(counts, list) and len(counts) == 2 else None
        if level is not None and 0 <= level <= 1 and count is not None and count.n:
            found.append((level, count))
    return Search(at, str(row.get("verb", "")), tuple(sorted(found, key=lambda pair: pair[0])), number(row.get("level")))


def _test(row: Mapping[str, Any], at: int) -> ControlOutcome | None:
    mean, low, high = (number(row.get(name)) for name in ("mean", "low", "high"))
    if mean is None or low is None or high is None:
        return None
    return ControlOutcome(at, str(row.get("verdict", "")), mean, low, high, whole(row.get("scenes")) or 0)


def _value(row: Mapping[str, Any], at: int) -> Value | None:
    gain, value, se = (number(row.get(name)) for name in ("gain", "value", "se"))
    before, after = tally(row.get("before"), row.get("n")), tally(row.get("after"), row.get("n"))
    if gain is None or value is None or before is None or after is None:
        return None
    interval = None if not se else (gain - _Z95 * se, gain + _Z95 * se)
    told = row.get("controls")
    controls = [tally(told.get(name), told.get("n")) for name in ("before", "after")] if isinstance(told, Mapping) else []
    pair = (controls[0], controls[1]) if controls and controls[0] is not None and controls[1] is not None else None
    return Value(at, gain, value, interval, before, after, whole(row.get("scenes")) or 0, pair)
