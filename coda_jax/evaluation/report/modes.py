"""The difficulty modes: what each is, whether a controlled experiment confirms it, what practising it brought, and what it looks like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from coda_jax.evaluation.mode_history import ModeHistory, mode_histories, number, whole
from coda_jax.evaluation.report import charts, markup
from coda_jax.evaluation.report.data import RunData
from coda_jax.evaluation.report.markup import Markup
from coda_jax.evaluation.wording import cause_in_words, counted, margin_in_words
from coda_jax.memory.band import HIGH, LOW

_MOST = 12  # tested modes that the table shows
_CLIPS = 3  # of one mode
_CLASSES = {"confirmed": "good", "refuted": "bad", "undecided": "open"}


def modes(run: RunData) -> str:
    found = mode_histories(run.rows)
    if not found:
        return ""
    clips = _clips(run, found)
    studied = [m for m in found if m.tests or m.values]
    shown, others = studied[:_MOST], [m for m in found if m not in studied[:_MOST]]
    body = _table(shown, clips)
    if others:
        known = "diagnosed or imported" if any(m.imported for m in others) else "diagnosed"
        what = f"{counted(len(others), 'more mode')} {known}{' and not tested' if len(studied) <= _MOST else ''}"
        body += f"<details><summary>{what}</summary>{_table(others, clips)}</details>"
    figures = "".join(text for text, _ in clips.values())
    if figures:
        body += f"<h3>Evidence</h3>{figures}"
    note = (
        "A mode is a factor, a phase and a cause that failures share. Its edit makes fresh scenes harder in this respect; the level is "
        "taken where success lies in the shaded band (ringed). The control test asks on further scenes whether this edit costs more "
        "success than an equally strong edit of another factor (90 % interval). The Learning Value is what a round of practice gained on "
        "the mode's environments, beyond what scenes gained that were not practised; counts of both stand below (95 % interval)."
    )
    return markup.section("Difficulty modes", note, body)


def _table(chosen: Sequence[ModeHistory], clips: Mapping[str, tuple[str, int]]) -> str:
    header = ("difficulty", "failures", "edit, success by level", "control test: effect on success", "Learning Value")
    rows = [_row(mode, clips.get(mode.mode_id, ("", 0))) for mode in chosen]
    return f'<div class="modes">{markup.table(header, rows, len(header))}</div>' if rows else ""


def _name(mode: ModeHistory) -> str:
    factor = charts.shorten(mode.factor, 20)
    words = charts.shorten(cause_in_words(mode.factor, mode.cause), 160)
    return f'<span class="tag">{escape(factor)}</span> in {escape(charts.shorten(mode.phase, 30))}: {escape(words)}'


def _failures(mode: ModeHistory) -> str:
    by_round = ", ".join(f"{n} in round {at}" for at, n in sorted(mode.diagnoses.items()))
    return by_round or ("imported" if mode.imported else "remembered")


def _row(mode: ModeHistory, clips: tuple[str, int]) -> tuple[str, ...]:
    link = f'<br><a href="#mode-{mode.mode_id}">{counted(clips[1], "clip")}</a>' if clips[1] and _safe(mode.mode_id) else ""
    return (
        Markup(_name(mode) + link),
        Markup(f"{mode.total}<small>{escape(_failures(mode))}</small>"),
        Markup(_level(mode)),
        Markup("".join(_tests(mode))),
        Markup("".join(_values(mode))),
    )


def _safe(mode_id: str) -> bool:
    """Whether an id can stand in an attribute; all of ours are hexadecimal."""
    return mode_id.isascii() and mode_id.isalnum()


def _level(mode: ModeHistory) -> str:
    """The last search's curve."""
    if not mode.searches:
        return "no program"
    last = mode.searches[-1]
    verb = escape(charts.shorten(last.verb, 24))
    levels = [(level, t.k / t.n, f"level {level:g}: {t.k}/{t.n}") for level, t in last.levels]
    taken = "no level in the band" if last.level is None else f"level {last.level:g}"
    counts = ", ".join(f"{t.k}/{t.n}" for _, t in last.levels)
    chart = charts.level_chart(levels, (LOW, HIGH), last.level, "success by level")
    return f"<b>{verb}</b>, {taken}{chart}<small>{counts} (round {last.round})</small>"


def _tests(mode: ModeHistory) -> list[str]:
    found = []
    for test in mode.tests:
        name, verdict = _CLASSES.get(test.verdict, "open"), escape(charts.shorten(test.verdict, 20))
        where = f"round {test.round}, {counted(test.scenes, 'scene')}"
        # the drop is measured; shown is the effect on success, as everywhere else on the page
        found.append(f'<span class="{name}">{verdict}</span><small>{markup.points(-test.mean, -test.high, -test.low)}, {where}</small>')
    return found or ["not tested"]


def _values(mode: ModeHistory) -> list[str]:
    found = []
    for value in mode.values:
        low_high = "" if value.interval is None else f" ({markup.signed(value.interval[0])} to {markup.signed(value.interval[1])})"
        where = (
            f"round {value.round}, {counted(value.scenes, 'scene')}: {value.before.k}/{value.before.n} to {value.after.k}/{value.after.n}"
        )
        if value.controls is not None:
            first, second = value.controls
            where += f"; not practised {first.k}/{first.n} to {second.k}/{second.n}"
        found.append(f"<b>{markup.signed(value.gain)}</b>{low_high}<small>{where}</small>")
    return found or ["not practised"]


def _clips(run: RunData, known: list[ModeHistory]) -> dict[str, tuple[str, int]]:
    """Mode to its figures and their number, in the order of the table."""
    names = {m.mode_id: m for m in known}
    found: dict[str, list[str]] = {}
    for row in run.of_kind("evidence"):
        mode = names.get(row["mode"]) if isinstance(row.get("mode"), str) else None
        source = run.image(row.get("file"))
        if mode is None or source is None or len(found.get(mode.mode_id, [])) == _CLIPS:
            continue
        base = row["base"] if isinstance(row.get("base"), dict) else {}
        beside = run.image(base.get("file"))
        text = _caption(row) + (". Below it the scene before the edit, solved." if beside is not None else ".")
        found.setdefault(mode.mode_id, []).append(markup.figure("film strip", [s for s in (source, beside) if s is not None], text))
    out = {}
    for mode in known:
        if figures := found.get(mode.mode_id):
            anchor = f' id="mode-{mode.mode_id}"' if _safe(mode.mode_id) else ""
            out[mode.mode_id] = f"<h4{anchor}>{_name(mode)}</h4>" + "".join(figures), len(figures)
    return out


def _caption(row: dict[str, Any]) -> str:
    """Round, phase, measured margin, number of the rollout."""
    text = f'Round {whole(row.get("round"))}: <span class="bad">failed in {escape(charts.shorten(str(row.get("phase", "")), 30))}</span>'
    margin = row.get("margin")
    if isinstance(margin, list) and len(margin) == 5:
        value, step, threshold = number(margin[1]), whole(margin[2]), number(margin[3])
        if value is not None and step is not None and threshold is not None:
            words = margin_in_words(str(margin[0])[:60], value, step, threshold, str(margin[4])[:10])
            text += f": {escape(words)}"
    else:
        text += ": its measure was reached, but not with all else that the phase asks for"
    episode = whole(row.get("episode"))
    return text if episode is None else f"{text} (episode {episode})"
