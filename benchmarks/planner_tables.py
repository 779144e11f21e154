"""Markdown tables of what ``benchmarks.planners`` measured."""

from __future__ import annotations

import collections
import re
from typing import Any

import numpy as np

_EASY = 0.95  # categories that are solved at the first try more often are counted together


def tables(rows: list[dict[str, Any]]) -> str:
    """Markdown tables of rows: success, several demonstrations of a scene, speed; failures and categories of each family over all of
    its rows of one demonstration a scene."""
    one, several = ([r for r in rows if (r["each"] > 1) == many] for many in (False, True))
    lines = ["| family | edits | noise | valid | first try | supervised | plain repeats |", "|---|---|---|---|---|---|---|"]
    for row in one:
        s, n = row["supervised"], row["valid"]
        plain = _share(row["plain"]["solved"], n) if "plain" in row else "not measured" if row["noise"] else "as the first try"
        noise = "yes" if row["noise"] else "no"
        found = f"{n}/{row['drawn']} | {_share(s['first'], n)} | {_share(s['solved'], n)} | {plain}"
        lines.append(f"| `{family_of_row(row)}` | {row['edits']} | {noise} | {found} |")
    if several:
        lines += ["", "| family | asked of a scene | scenes that give all | that give one |", "|---|---|---|---|"]
    for row in several:
        s, n = row["supervised"], row["valid"]
        lines.append(f"| `{family_of_row(row)}` | {row['each']} | {_share(s['all'], n)} | {_share(s['solved'], n)} |")
    families = list(dict.fromkeys(map(family_of_row, one)))
    lines += ["", "| family | demonstrations a CPU minute | control steps of one |", "|---|---|---|"]
    for family in families:
        own = [r["supervised"] for r in rows if family_of_row(r) == family]
        ranges = (f"{min(s[k] for s in own):.0f} .. {max(s[k] for s in own):.0f}" for k in ("a_cpu_minute", "steps"))
        lines.append(f"| `{family}` | {' | '.join(ranges)} |")
    lines += ["", "| family | causes of failed first tries | remarks on failed tries |", "|---|---|---|"]
    for family in families:
        causes, remarks = collections.Counter(), collections.Counter()
        for row in (r for r in one if family_of_row(r) == family):
            remarks.update(row["supervised"]["remarks"])
            for cause, n in row["supervised"]["causes"].items():
                causes[_without_names(cause)] += n
        listed = (", ".join(f"{k} {n}" for k, n in counts.most_common()) or "none" for counts in (causes, remarks))
        lines.append(f"| `{family}` | {' | '.join(listed)} |")
    lines += ["", f"| family | below {100 * _EASY:.0f} % at the first try: solved by it, supervised | the others |", "|---|---|---|"]
    for family in families:
        counts: dict[str, np.ndarray] = {}
        for row in (r for r in one if family_of_row(r) == family):
            for category, found in row["supervised"]["by_category"].items():
                counts[category] = counts.get(category, np.zeros(3, int)) + found
        shares = {c: k / n for c, (k, _, n) in counts.items()}
        hard = sorted((c for c in counts if shares[c] < _EASY), key=lambda c: (shares[c], c))
        others = sum((counts[c] for c in counts if c not in hard), np.zeros(3, int))
        shown = "; ".join("{}: {}, {} of {}".format(c, *counts[c]) for c in hard) or "none"
        lines.append(f"| `{family}` | {shown} | {len(counts) - len(hard)} categories: {others[0]}, {others[1]} of {others[2]} |")
    return "\n".join(lines)


def family_of_row(row: dict[str, Any]) -> str:
    """What a row of the results was measured on."""
    return row["name"].removeprefix("planner.")


def _share(k: int, n: int) -> str:
    from coda_jax.evaluation.statistics import wilson

    low, high = wilson(k, n)
    return f"{k}/{n} = {100 * k / n:.1f} % ({100 * low:.1f} .. {100 * high:.1f})"


def _without_names(cause: str) -> str:
    """A cause without what to do, and "a thing" for ids, so that causes can be counted."""
    return re.sub(r"\b[a-z]+(_[a-z]+)*_\d+\b", "a thing", cause.split(":")[0])
