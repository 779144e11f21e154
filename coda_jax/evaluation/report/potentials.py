"""The training programs of the rounds: their subgoals, how far rollouts came in them, what was mended."""

from __future__ import annotations

from html import escape
from typing import Any

from coda_jax.evaluation.mode_history import number, whole
from coda_jax.evaluation.report import charts, markup, panels
from coda_jax.evaluation.report.data import RunData
from coda_jax.evaluation.report.markup import Markup
from coda_jax.evaluation.wording import cause_in_words

_MOST = 24  # programs shown, the latest
_FORMS = {"sparse": "success alone", "dense": "a dense reward"}


def potentials(run: RunData) -> str:
    """A line for each program of each round."""
    before: dict[str | None, list[str]] = {}
    lines = []
    for row in run.of_kind("potential"):
        at, mode = whole(row.get("round")), row.get("mode")
        if at is None or not (mode is None or isinstance(mode, str)):
            continue
        own = _texts(row.get("subgoals"))
        # rollouts were those under the program as it was before it was mended
        measured = before.get(mode, []) if row.get("refined") is True else own
        kept = mode in before and before[mode] == own
        lines.append((str(at), Markup(_name(row)), Markup(_stages(row, measured)), Markup(_change(row, own, measured, kept))))
        before[mode] = own
    if not lines:
        return ""
    header = ("round", "practised for", "share of rollouts that reached each subgoal", "this round")
    note = (
        "A training program leads to success by subgoals; the critic's targets reward progress along them without changing which chunk is "
        "best. Programs are written for the phase in which a mode fails, pass the gates on certified demonstrations, and are mended at the "
        "subgoal where rollouts stop."
    )
    left_out = f'<p class="note">{len(lines) - _MOST} earlier ones are left out.</p>' if len(lines) > _MOST else ""
    return markup.section("Training programs", note, f'<div class="modes">{markup.table(header, lines[-_MOST:], 4)}</div>{left_out}')


def _texts(value: Any) -> list[str]:
    return [str(v) for v in value] if isinstance(value, list) else []


def _name(row: dict[str, Any]) -> str:
    phase = escape(charts.shorten(str(row.get("phase", "")), 30))
    if row.get("mode") is None:
        return f"scenes that practise no mode<small>most failures in {phase}</small>"
    factor, cause = str(row.get("factor", "")), str(row.get("cause", ""))
    words = charts.shorten(cause_in_words(factor, cause), 160)
    return f'<span class="tag">{escape(charts.shorten(factor, 20))}</span> in {phase}: {escape(words)}'


def _stages(row: dict[str, Any], names: list[str]) -> str:
    """The shares as bars; the subgoals alone where nothing was measured."""
    found = row["reached"] if isinstance(row.get("reached"), list) else []
    shares = [share for value in found if (share := number(value)) is not None and 0 <= share <= 1]
    if shares and len(shares) == len(found) == len(names):
        return panels.stages_panel(list(zip(names, shares, strict=True)), "subgoals reached")
    if names:
        return f"{escape(', '.join(charts.shorten(n, 30) for n in names[:8]))}<small>not measured yet</small>"
    return escape(_FORMS.get(str(row.get("form")), charts.shorten(str(row.get("form", "")), 30)))


def _change(row: dict[str, Any], own: list[str], measured: list[str], kept: bool) -> str:
    repairs = _texts(row.get("repairs"))
    mended = f"<small>to pass the gates: {escape(charts.shorten(', '.join(repairs), 160))}</small>" if repairs else ""
    if row.get("refined") is True:
        added = [name for name in own if name not in measured]
        split = f", new: {escape(charts.shorten(', '.join(added), 80))}" if added and measured else ""
        return f"<b>refined</b>{split}{mended}"
    return ("kept" if kept else "written") + mended
