"""What the environments of each round are made of, and what was refused on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coda_jax.evaluation.mode_history import number, whole
from coda_jax.evaluation.report import charts, markup
from coda_jax.evaluation.report.cost import by_reason, shortened
from coda_jax.evaluation.report.data import RunData

_ORIGINS = ("targeted", "replay", "novelty", "randomised", "seed")
_ORIGIN_COLOURS = ("#2563eb", "#93c5fd", "#f59e0b", "#a78bfa", "#9ca3af")
_ROUND_COLOURS = ("#9ca3af", "#2563eb", "#f59e0b", "#0f766e", "#7c3aed", "#c2410c")
_MOST_VERBS = 24


def environments(run: RunData) -> str:
    rows = [(at, row) for row in run.of_kind("environments") if (at := whole(row.get("round"))) is not None]
    body = _origins(rows) + _verbs(rows) + _refused(run)
    note = (
        "Targeted: made by a mode's program at its level. Replay: of mastered and retired modes, so that they are not forgotten. Novelty: "
        "random edits that no mode asked for. Every environment passed the checks on physics and the planner solved it."
    )
    return markup.section("Environments of the rounds", note if rows else "", body)


def _origins(rows: Iterable[tuple[int, dict[str, Any]]]) -> str:
    found: dict[int, list[int]] = {}
    for at, row in rows:
        origins = row["origins"] if isinstance(row.get("origins"), dict) else {}
        counts = [whole(origins.get(name)) or 0 for name in _ORIGINS]
        if min(counts) >= 0 and sum(counts):
            found[at] = counts
    used = [i for i in range(len(_ORIGINS)) if any(c[i] for c in found.values())]
    if not used:
        return ""
    return charts.stacked_chart(
        [(f"round {at}", [found[at][i] for i in used]) for at in sorted(found)],
        [_ORIGINS[i] for i in used],
        [_ORIGIN_COLOURS[i] for i in used],
        "origin of environments",
        "scenes",
    )


def _verbs(rows: Iterable[tuple[int, dict[str, Any]]]) -> str:
    """A line of dots for each verb: how strongly its edits changed the scenes, coloured by round."""
    found: dict[str, list[tuple[float, int]]] = {}
    rounds: list[int] = []
    for at, row in rows:
        for verb in row["verbs"] if isinstance(row.get("verbs"), list) else ():
            magnitude = number(verb[1]) if isinstance(verb, list) and len(verb) >= 2 else None
            if magnitude is None:
                continue
            if at not in rounds:
                rounds.append(at)
            found.setdefault(str(verb[0]), []).append((magnitude, rounds.index(at)))
    if not found:
        return ""
    ranked = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))[:_MOST_VERBS]
    colours = [_ROUND_COLOURS[i % len(_ROUND_COLOURS)] for i in range(len(rounds))]
    names = [f"round {at}" for at in rounds]
    chart = charts.strip_chart(ranked, names, colours, "verbs and magnitudes")
    heading = "<h3>Edits and their magnitudes</h3>"
    return f'{heading}<p class="note">0 leaves the scene as it is, 1 is the hardest that is still a fair task there.</p>{chart}'


def _refused(run: RunData) -> str:
    """Candidates that were refused while a round's scenes were built, by reason and round."""
    counts: dict[int, dict[str, int]] = {}
    for row in run.rows:
        at = whole(row.get("round"))
        if row.get("kind") not in ("collect", "construction", "environments") or at is None or not isinstance(row.get("refused"), dict):
            continue
        own = counts.setdefault(at, {})
        for reason, n in row["refused"].items():
            own[reason] = own.get(reason, 0) + max(whole(n) or 0, 0)
        if unsolved := whole(row.get("unsolved")):
            own["the planner failed"] = own.get("the planner failed", 0) + max(unsolved, 0)
    rounds = sorted(counts)
    totals: dict[str, int] = {}
    for own in counts.values():
        for reason, n in own.items():
            totals[reason] = totals.get(reason, 0) + n
    merged = {at: by_reason(counts[at]) for at in rounds}
    ranked = {reason: n for reason, n in by_reason(totals).items() if n}
    if not ranked:
        return ""
    rows = []
    for reason, total in shortened(ranked).items():
        cells = [str(merged[at][reason]) if reason in merged[at] else "" for at in rounds]
        rows.append((charts.shorten(reason, 140), *(c if c != "0" else "" for c in cells), f"{total:,}"))
    table = markup.table(("reason", *(f"round {at}" for at in rounds), "all"), rows, 1)
    return f'<h3>Refused while building</h3><p class="note">In collecting, level searches, control tests and filling the budget.</p>{table}'
