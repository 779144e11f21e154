"""Runs that differ in who diagnoses, side by side: success, what the control test refuted, agreement with people (the paper's table 3)."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coda_jax.evaluation.metrics import Summary, Tally
from coda_jax.evaluation.report.data import HELD_OUT, pooled
from coda_jax.evaluation.statistics import wilson

HEADER = ("run", "diagnoser", "in distribution", "held out", "change", "refuted of tested", "agreement before", "after", "fallbacks")
_IN, _FALLBACK = ("id",), "fallback"


@dataclasses.dataclass(frozen=True)
class Arm:
    """One finished run. before, after: held-out success around the rounds; inside: in distribution, after them. tested: control tests by
    verdict. agreement: shares (all diagnoses, refuted ones removed) of factor and phase, None where nobody annotated. fallbacks: diagnoses
    that a model was asked for and that its fallback gave, None where no model was asked."""

    name: str
    diagnoser: str
    inside: Tally
    before: Tally
    after: Tally
    tested: dict[str, int]
    agreement: tuple[float, float] | None
    fallbacks: int | None

    @property
    def refuted(self) -> Tally:
        return Tally(self.tested.get("refuted", 0), sum(self.tested.values()))


def arm_of(name: str, diagnoser: str, summary: Summary, agreement: dict[str, Any] | None) -> Arm:
    """agreement: what ``--mode=agreement`` wrote."""
    counts = summary.agents.get("diagnoser", {})
    return Arm(
        name,
        diagnoser,
        pooled(summary, _IN, "after"),
        pooled(summary, HELD_OUT, "before"),
        pooled(summary, HELD_OUT, "after"),
        dict(summary.diagnoses),
        None if agreement is None else _shares(agreement),
        counts.get(_FALLBACK, 0) if counts else None,
    )


def read_agreement(path: Path) -> dict[str, Any] | None:
    """What was written there, None where nothing that can be read is."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _shares(agreement: dict[str, Any]) -> tuple[float, float] | None:
    try:
        before, after = (agreement["shares"][group]["both"] for group in ("all diagnoses", "refuted ones removed"))
        return before["k"] / before["n"], after["k"] / after["n"]
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def rows(arms: Sequence[Arm]) -> list[tuple[str, ...]]:
    """Cells of HEADER, a row for each run; of a diagnoser with several runs (seeds) also their mean and its standard error."""
    found = []
    for diagnoser in dict.fromkeys(arm.diagnoser for arm in arms):
        own = [arm for arm in arms if arm.diagnoser == diagnoser]
        found += [_row(arm) for arm in own]
        if len(own) > 1:
            found.append(_mean_row(diagnoser, own))
    return found


def _row(arm: Arm) -> tuple[str, ...]:
    change = _rate(arm.after), _rate(arm.before)
    return (
        arm.name,
        arm.diagnoser,
        _counted(arm.inside),
        _counted(arm.after),
        "-" if None in change else f"{100 * (change[0] - change[1]):+.1f}",  # type: ignore[operator]
        _counted(arm.refuted),
        *("-" if arm.agreement is None else f"{100 * share:.1f} %" for share in (arm.agreement or (0.0, 0.0))),
        "-" if arm.fallbacks is None else str(arm.fallbacks),
    )


def _mean_row(diagnoser: str, arms: Sequence[Arm]) -> tuple[str, ...]:
    changes = [None if None in (_rate(a.after), _rate(a.before)) else _rate(a.after) - _rate(a.before) for a in arms]  # type: ignore[operator]
    return (
        f"mean of {len(arms)}",
        diagnoser,
        _mean([_rate(a.inside) for a in arms]),
        _mean([_rate(a.after) for a in arms]),
        _mean(changes, "+"),
        _mean([_rate(a.refuted) for a in arms]),
        *(_mean([a.agreement[i] if a.agreement else None for a in arms]) for i in range(2)),
        "",
    )


def _rate(tally: Tally) -> float | None:
    return tally.k / tally.n if tally.n else None


def _counted(tally: Tally) -> str:
    if not tally.n:
        return "-"
    low, high = wilson(tally.k, tally.n)
    return f"{tally.k}/{tally.n}, {100 * tally.k / tally.n:.1f} % ({100 * low:.0f} .. {100 * high:.0f})"


def _mean(values: Sequence[float | None], sign: str = "") -> str:
    """Mean and standard error in percent; "-" unless every run has the value."""
    known = [v for v in values if v is not None]
    if len(known) < len(values):
        return "-"
    mean = sum(known) / len(known)
    error = math.sqrt(sum((v - mean) ** 2 for v in known) / (len(known) - 1) / len(known))
    return f"{100 * mean:{sign}.1f} +- {100 * error:.1f} %"
