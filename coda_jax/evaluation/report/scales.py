"""What the scale doctor measured, round by round, and what it warned of."""

from __future__ import annotations

from typing import Any

from coda_jax.evaluation.mode_history import number, whole
from coda_jax.evaluation.report import markup
from coda_jax.evaluation.report.data import RunData
from coda_jax.learning.scale_doctor import healthy

_MOST_ROUNDS = 20  # the latest ones are shown


def scales(run: RunData) -> str:
    """Warnings first, each with the setting to change, then every measured value beside its healthy range."""
    rows = [(at, row) for row in run.of_kind("doctor") if (at := whole(row.get("round"))) is not None]
    if not rows:
        return ""
    latest = {(at, str(row.get("part"))): row for at, row in rows}  # a stage that was done again counts once
    warned = [(f"round {at}", part, *words) for (at, part), row in sorted(latest.items()) for words in _warnings(row)]
    shown = sorted({at for at, _ in latest})[-_MOST_ROUNDS:]
    values: dict[tuple[str, str], dict[int, str]] = {}
    for (at, part), row in sorted(latest.items()):
        for name, value in _measured(row).items():
            values.setdefault((part, name), {})[at] = value
    table = [(part, name, healthy(name), *(own.get(at, "") for at in shown)) for (part, name), own in values.items()]
    body = markup.table(("", "part", "warning", "setting"), warned, 4) if warned else '<p class="good">Nothing to warn of.</p>'
    if table:
        body += markup.table(("part", "measure", "healthy", *(f"round {at}" for at in shown)), table, 3)
    note = "Badly scaled training does not fail, it does nothing. What each measure means stands in docs/scale_doctor.md."
    return markup.section("Scales", note, body)


def _warnings(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Text and setting of the warnings of a row."""
    found = row.get("warnings")
    kept = [w for w in found if isinstance(w, dict)] if isinstance(found, list) else []
    return [(str(w.get("text")), f"config.{w.get('setting')}") for w in kept]


def _measured(row: dict[str, Any]) -> dict[str, str]:
    """Name to value in text; a number that JSON cannot hold was stored as null."""
    found = row.get("measured")
    if not isinstance(found, dict):
        return {}
    known = {name: (value, number(value)) for name, value in found.items()}
    return {name: "not finite" if value is None else f"{at:.3g}" for name, (value, at) in known.items() if value is None or at is not None}
