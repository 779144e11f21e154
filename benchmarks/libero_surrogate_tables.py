"""Markdown tables of what LIBERO's surrogates change."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

from coda_jax.evaluation.statistics import mcnemar, wilson

_NAMES = {
    "official": "official shapes",
    "few": "few primitives",
    "replayed": "few primitives, actions of the first",
    "mjx": "few primitives, MJX",
}


def tables(rows: Sequence[dict[str, Any]]) -> str:
    """Success by suite and arm, paired differences to the official shapes, tasks that differ, speed."""
    episodes = {(r["arm"], r["task"]): r for r in rows if "arm" in r}
    parts = [_success(episodes), _different(episodes), _speed([r for r in rows if "speed" in r])]
    return "\n\n".join(p for p in parts if p)


def outcomes(episodes: dict[tuple[str, str], dict[str, Any]], arm: str, suite: str) -> dict[tuple[str, str], bool]:
    """(task, initial state) to success."""
    own = [r for (a, task), r in episodes.items() if a == arm and task.startswith(suite + "/")]
    return {(r["task"], state): ok for r in own for state, ok in r["success"].items()}


def _success(episodes: dict[tuple[str, str], dict[str, Any]]) -> str:
    if not episodes:
        return ""
    lines = [
        "| suite | shapes | solved | of the same episodes: official, this | only official, only this | McNemar's p |",
        "|---|---|---|---|---|---|",
    ]
    suites = list(dict.fromkeys(task.partition("/")[0] for _, task in episodes))
    for suite in suites:
        first = outcomes(episodes, "official", suite)
        for arm in (a for a in _NAMES if any(a == found for found, _ in episodes)):
            own = outcomes(episodes, arm, suite)
            if not own:
                continue
            k, n = sum(own.values()), len(own)
            found = wilson(k, n)
            line = f"| {suite} | {_NAMES[arm]} | {k}/{n}, {100 * k / n:.0f} % ({100 * found.low:.0f} .. {100 * found.high:.0f}) "
            both = [e for e in own if e in first]
            if arm == "official" or not both:
                lines.append(line + "| | | |")
                continue
            lost, won = sum(first[e] and not own[e] for e in both), sum(own[e] and not first[e] for e in both)
            here, there = sum(first[e] for e in both), sum(own[e] for e in both)
            lines.append(line + f"| {here}, {there} of {len(both)} | {lost}, {won} | {mcnemar(lost, won):.2g} |")
    return "\n".join(lines)


def _different(episodes: dict[tuple[str, str], dict[str, Any]]) -> str:
    lines = []
    for (arm, task), row in episodes.items():
        failed = [state for state, ok in row["success"].items() if not ok]
        if failed:
            causes = collections.Counter(row["causes"].values())
            told = "; ".join(f"{cause} ({n})" for cause, n in causes.most_common())
            lines.append(f"| {_NAMES[arm]} | `{task}` | {len(failed)}/{len(row['success'])} | {told} |")
    return "\n".join(["| shapes | task | failed | causes |", "|---|---|---|---|", *lines]) if lines else ""


def _speed(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return ""
    lines = [
        "| suite | shapes | worlds | geoms | pairs | physics steps a CPU-s | a second | first reset, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        few = r["speed"] != "official"
        cells = (r["suite"], _NAMES[r["speed"]], r["worlds"], r["geoms"][few], r["pairs"] if few else "", r["physics_steps_per_cpu_s"])
        lines.append("| " + " | ".join(map(str, (*cells, r["physics_steps_per_s"], r["first_reset_s"]))) + " |")
    return "\n".join(lines)
