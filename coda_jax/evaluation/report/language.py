"""The language model of a run: what it was asked, what came of it, what it took, and where scripted agents stood in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coda_jax.agents.llm.called import ANSWERED
from coda_jax.agents.llm.chat import CallErrorKind
from coda_jax.evaluation.mode_history import number
from coda_jax.evaluation.report import charts, markup
from coda_jax.evaluation.report.data import RunData

_OF_THE_MODEL = ("truncated", "refused", "empty", "schema", "too_large")
_OF_THE_WAY = ("rate_limited", "server", "connection", "deadline", "request")
_PIECES = (
    ("answered", "#0f766e", (ANSWERED,)),
    ("no usable answer", "#f97316", _OF_THE_MODEL),
    ("not reached", "#7c2d12", _OF_THE_WAY),
    ("budget spent", "#6b7280", ("budget",)),
    ("not recorded", "#d1d5db", ("not_recorded",)),
)
_CALL_WORDS = {ANSWERED, *(kind.value for kind in CallErrorKind)}
_MOST_ROWS = 40


def language_model(run: RunData) -> str:
    s = run.summary
    if not s.questions and not s.agents:
        return ""
    parts = [part for part in (_chart(run), _purposes(run), _reasons(run), _tokens(run), _paid(run)) if part]
    return markup.section("Language model", _note(run), "".join(parts))


def _setting(run: RunData, name: str) -> Any:
    return run.setting("agents", "llm", name)


def _note(run: RunData) -> str:
    s = run.summary
    model, budget = _setting(run, "model"), number(_setting(run, "tokens"))
    asked = sum(sum(own.values()) for own in s.questions.values())
    text = f"{charts.shorten(model, 80) if isinstance(model, str) and model else 'A model'} was asked {asked:,} questions"
    text += " and answered from a recording" if _setting(run, "replay") else ""
    share = f" of {budget:,.0f} in the budget" if budget else ""
    text += f": {s.tokens_in:,} tokens read and {s.tokens_out:,} written{share}."
    if s.tokens_estimated:
        text += f" Of {s.tokens_estimated:,} questions no server counted them; they are estimated from the length of the texts."
    stood_in = sum(own.get("fallback", 0) for own in s.agents.values())
    if stood_in:
        return f"{text} In {stood_in:,} places a scripted agent did the work instead, because no answer could be used."
    return f"{text} No scripted agent had to stand in."


def _chart(run: RunData) -> str:
    """What came of the questions, by purpose."""
    rows = [(purpose, [sum(own.get(w, 0) for w in words) for _, _, words in _PIECES]) for purpose, own in run.summary.questions.items()]
    rows = [(purpose, counts) for purpose, counts in rows if sum(counts)]
    shown = [i for i in range(len(_PIECES)) if any(counts[i] for _, counts in rows)]
    if not rows:
        return ""
    names, colours = [_PIECES[i][0] for i in shown], [_PIECES[i][1] for i in shown]
    pieces = [(purpose, [counts[i] for i in shown]) for purpose, counts in rows[:_MOST_ROWS]]
    return charts.stacked_chart(pieces, names, colours, "what came of the questions", unit="questions")


def _sum(own: Mapping[str, int], name: str) -> int:
    """Of a count and those that say more, as "rejected:syntax" does of "rejected"."""
    return sum(n for what, n in own.items() if what.partition(":")[0] == name)


def _purposes(run: RunData) -> str:
    s = run.summary
    rows = []
    for purpose in sorted(s.questions.keys() | s.agents.keys())[:_MOST_ROWS]:
        asked, became = s.questions.get(purpose, {}), s.agents.get(purpose, {})
        counts = (sum(asked.values()), asked.get(ANSWERED, 0), *(_sum(became, w) for w in ("accepted", "rejected", "repaired", "fallback")))
        rows.append((charts.shorten(purpose, 40), *(f"{n:,}" for n in counts)))
    header = ("purpose", "questions", "answered", "accepted", "rejected", "repaired", "scripted instead")
    return markup.table(header, rows, 1) if rows else ""


def _reasons(run: RunData) -> str:
    """Why there was no answer, and why what was answered was refused."""
    found: dict[tuple[str, str], int] = {}
    for source in (run.summary.questions, run.summary.agents):
        for purpose, own in source.items():
            for what, n in own.items():
                # an agent counts the calls that failed too: the questions have them already
                if what not in (ANSWERED, "accepted", "fallback", "repaired") and (
                    source is run.summary.questions or what not in _CALL_WORDS
                ):
                    found[purpose, what] = found.get((purpose, what), 0) + n
    rows = [
        (charts.shorten(purpose, 40), charts.shorten(what.replace("_", " "), 60), f"{n:,}")
        for (purpose, what), n in sorted(found.items(), key=lambda x: (-x[1], x[0]))[:_MOST_ROWS]
    ]
    return f"<h3>What was wrong with the answers</h3>{markup.table(('purpose', 'what', 'times'), rows, 2)}" if rows else ""


def _tokens(run: RunData) -> str:
    """Tokens by stage, as the run went on."""
    spent: dict[str, list[int]] = {}
    for row in run.of_kind("language_model"):
        counts = [number(row.get(name)) for name in ("tokens_in", "tokens_out")]
        own = spent.setdefault(str(row.get("stage", "")), [0, 0])
        for i, count in enumerate(counts):
            own[i] += int(count) if count is not None and count >= 0 else 0
    rows = [(charts.shorten(stage, 40), f"{a:,}", f"{b:,}", f"{a + b:,}") for stage, (a, b) in spent.items() if a + b][:_MOST_ROWS]
    return f"<h3>Tokens by stage</h3>{markup.table(('stage', 'read', 'written', 'together'), rows, 1)}" if rows else ""


def _paid(run: RunData) -> str:
    """From the ledger: what went out to a server in fact, also where a stop threw work away."""
    rows = []
    totals = dict.fromkeys(("calls", "recorded", "tokens_in", "tokens_out", "seconds", "cost"), 0.0)
    for own in run.calls.values():
        for one in own.values():
            for name in totals:
                totals[name] += number(one.get(name)) or 0.0
    if not any(totals.values()):
        return ""
    rows = [
        ("calls that went out, every try", f"{totals['calls']:,.0f}"),
        ("answers that a recording gave", f"{totals['recorded']:,.0f}"),
        ("tokens of these calls", f"{totals['tokens_in'] + totals['tokens_out']:,.0f}"),
        ("seconds waited, of all calls together", f"{totals['seconds']:,.0f}"),
        ("price", f"{totals['cost']:,.4g}" if totals["cost"] else "not set, or nothing"),
    ]
    return f"<h3>What went over the network</h3>{markup.table(('', ''), rows, 1)}"
