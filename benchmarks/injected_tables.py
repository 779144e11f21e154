"""Tables of benchmarks/injected_causes.py: how hard the cases were, who blamed what, verdicts of the control test, the A/A arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coda_jax.agents.base import FACTORS, SCRIPTED
from coda_jax.evaluation.statistics import Interval, wilson

HARD = 0.15  # success that a case must cost against "none", or nothing was made hard and its failures are not counted
_NAMES = [*FACTORS, "EXECUTION"]
_VERDICTS = ("confirmed", "refuted", "undecided", "no scene")
Row = Mapping[str, Any]


class Right(NamedTuple):
    """Diagnoses of one diagnoser that name a factor which was made hard, of all in cases that were."""

    k: int
    n: int
    interval: Interval


def truth_of(cases: Mapping[str, Mapping[str, Any]], case: str) -> list[str]:
    """Factors that were made hard; EXECUTION where none was."""
    return sorted(cases[case]) or ["EXECUTION"]


def diagnosers_of(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(r.get("diagnoser", SCRIPTED) for r in rows if r["kind"] == "diagnosis"))


def _of(rows: Iterable[Row], diagnoser: str, case: str) -> list[Row]:
    return [r for r in rows if r["kind"] == "diagnosis" and r["case"] == case and r.get("diagnoser", SCRIPTED) == diagnoser]


def _measured(rows: Iterable[Row], case: str) -> Row | None:
    return next((r for r in rows if r["kind"] == "case" and r["case"] == case), None)


def was_hard(rows: Sequence[Row], case: str) -> bool:
    """Whether the case cost the policy enough to count; "none" counts always."""
    plain, own = _measured(rows, "none"), _measured(rows, case)
    return case == "none" or plain is None or own is None or plain["k"] / plain["n"] - own["k"] / own["n"] >= HARD


def right(rows: Sequence[Row], cases: Mapping[str, Mapping[str, Any]], diagnoser: str) -> Right:
    k = n = 0
    for case in cases:
        own = _of(rows, diagnoser, case) if _measured(rows, case) and was_hard(rows, case) else []
        k += sum(r["factor"] in r["truth"] for r in own)
        n += len(own)
    return Right(k, n, wilson(k, n))


def confusion(rows: Sequence[Row], cases: Mapping[str, Mapping[str, Any]], diagnoser: str) -> list[str]:
    """Markdown lines: what one diagnoser blamed in each case."""
    lines = ["| case | truth | success | " + " | ".join(_NAMES) + " | right |", "|" + "---|" * (4 + len(_NAMES))]
    for case in cases:
        info, own = _measured(rows, case), _of(rows, diagnoser, case)
        if info is None:
            continue
        counts = Counter(r["factor"] for r in own)
        good = sum(r["factor"] in r["truth"] for r in own)
        note = "" if was_hard(rows, case) else ", not hard"
        cells = " | ".join(str(counts.get(name, 0)) for name in _NAMES)
        lines.append(f"| {case} | {', '.join(truth_of(cases, case))} | {info['k']}/{info['n']} | {cells} | {good}/{len(own)}{note} |")
    return lines


def side_by_side(rows: Sequence[Row], cases: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Markdown lines: one row a diagnoser. own: diagnoses that it made itself, not its fallback."""
    lines = ["| diagnoser | right | 95 % | own diagnoses |", "|---|---|---|---|"]
    for name in diagnosers_of(rows):
        k, n, (low, high) = right(rows, cases, name)
        made = [r for r in rows if r["kind"] == "diagnosis" and r.get("diagnoser", SCRIPTED) == name]
        share = f"{100 * k / n:.0f} %" if n else "-"
        own = sum(r.get("agent", name) == name for r in made)
        lines.append(f"| {name} | {k}/{n}, {share} | {100 * low:.0f} .. {100 * high:.0f} % | {own}/{len(made)} |")
    return lines


def tables(rows: Sequence[Row], cases: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown of everything."""
    lines = []
    for name in diagnosers_of(rows):
        lines += [f"{name}:", "", *confusion(rows, cases, name), ""]
    lines += [*side_by_side(rows, cases), "", *_tests(rows), "", *_aa(rows)]
    return "\n".join(lines)


def _tests(rows: Sequence[Row]) -> Iterator[str]:
    yield from ("| diagnoses | confirmed | refuted | undecided | no scene |", "|---|---|---|---|---|")
    for true in (True, False):
        verdicts = Counter(r["verdict"] for r in rows if r["kind"] == "test" and r["true"] is true)
        yield f"| {'true' if true else 'false'} | {' | '.join(str(verdicts.get(v, 0)) for v in _VERDICTS)} |"


def _aa(rows: Sequence[Row]) -> Iterator[str]:
    arms = [r for r in rows if r["kind"] == "aa"]
    yield from ("| A/A arm | base scenes | confirmed |", "|---|---|---|")
    yield from (f"| {r['verb']} | {r['scenes']} | {r['confirmed']}/{r['labellings']} |" for r in arms)
    if arms:
        k, n = sum(r["confirmed"] for r in arms), sum(r["labellings"] for r in arms)
        low, high = wilson(k, n)
        yield f"\nFalse acceptance {100 * k / n:.1f} % ({100 * low:.1f} .. {100 * high:.1f}) over {n} labellings of {len(arms)} sets"


def records(rows: Sequence[Row], cases: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One JSON object for each diagnoser."""
    found = []
    for name in diagnosers_of(rows):
        k, n, interval = right(rows, cases, name)
        by_case = {c: dict(Counter(r["factor"] for r in _of(rows, name, c))) for c in cases if _of(rows, name, c)}
        value = k / n if n else None
        found.append({"name": f"injected_causes_{name}", "value": value, "unit": "share right", "k": k, "n": n})
        found[-1] |= {"low": interval.low, "high": interval.high, "blamed": by_case}
    return found
