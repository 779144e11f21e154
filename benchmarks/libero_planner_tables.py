"""Markdown tables of what LIBERO's planner certifies."""

from __future__ import annotations

import collections
from typing import Any


def tables(rows: list[dict[str, Any]]) -> str:
    """Markdown tables of rows, one line a task."""
    lines = []
    for noise in sorted({r["noise"] for r in rows}):
        own = [r for r in rows if r["noise"] == noise]
        enough = sum(r["solved"] >= 0.8 * r["states"] for r in own)
        states, solved = (sum(r[k] for r in own) for k in ("states", "solved"))
        lines += [f"{'With' if noise else 'Without'} noise: {enough} of {len(own)} tasks from at least 80 % of their initial states; "]
        lines[-1] += f"{solved}/{states} episodes.\n"
        lines += ["| task | solved | first grasp | steps: least, median, most | causes |", "|---|---|---|---|---|"]
        for r in own:
            causes = collections.Counter(r["failed"].values())
            told = "; ".join(f"{cause} ({n})" for cause, n in causes.most_common()) or ""
            steps = ", ".join(str(s) for s in r["steps"]) + f" of {r['horizon']}"
            lines.append(f"| `{r['task']}` | {r['solved']}/{r['states']} | {r['first_grasp']} | {steps} | {told} |")
        cpu, taken = sum(r["cpu_s"] for r in own), sum(r["control_steps"] for r in own)
        lines += [
            "",
            f"{taken} control steps in {cpu:.0f} CPU-s: {1000 * cpu / taken:.1f} ms a step, {60 * solved / cpu:.0f} solved a CPU minute.",
        ]
        lines += [""]
    return "\n".join(lines)
