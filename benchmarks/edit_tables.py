"""Tables of the random edits in markdown."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_NAME = re.compile(r"\b[a-z_]+_\d+\b")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def reason_of(message: str) -> str:
    """An EditError without the scene's own names and numbers, so that equal reasons are counted as one."""
    head = message.split(": ")
    short = head[1] if head[0].endswith("no fair task") or head[0] == "not enough room" else head[0]
    return _NUMBER.sub("#", _NAME.sub("it", short))


def _commonest(reasons: Iterable[str], most: int) -> str:
    return "; ".join(f"{n} {r}" for r, n in collections.Counter(reasons).most_common(most))


def table(rows: Sequence[Mapping[str, Any]], most: int = 2) -> str:
    """One line for each family and verb: tried, applied, accepted, largest way of anything accepted, commonest reasons."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        verbs = row.get("verbs", ["(no base scene)"])
        groups.setdefault((row["family"], verbs[0] if len(verbs) == 1 else f"two of {row['factor']}"), []).append(row)
    heads = ("family", "verb", "tried", "applied", "valid", "largest movement, mm", "not applied because", "refused by")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for (family, verb), own in sorted(groups.items()):
        applied = [r for r in own if "valid" in r]
        valid = [r for r in applied if r["valid"]]
        way = max((max(r["moved_m"], r["moved_after_m"]) for r in valid), default=0.0)
        refused = _commonest((r["failures"][0]["check"] for r in applied if not r["valid"]), most)
        why = _commonest((reason_of(r["error"]) for r in own if "error" in r), most)
        share = f"{len(valid) / len(applied):.1%}" if applied else ""
        lines.append(f"| {family} | `{verb}` | {len(own)} | {len(applied)} | {share} | {1000 * way:.1f} | {why} | {refused} |")
    return "\n".join(lines)
