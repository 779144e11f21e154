"""The sections of the report: each takes a run and returns HTML, or "" where the run has nothing to show.

All text of a run (names, instructions, reasons) is hostile until escaped: everything passes ``escape`` here or in charts.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html import escape

from coda_jax.evaluation.comparison import before_and_after
from coda_jax.evaluation.failures import PHASES
from coda_jax.evaluation.metrics import Moment, Tally
from coda_jax.evaluation.records import EvalRecord
from coda_jax.evaluation.report import charts
from coda_jax.evaluation.report.data import HELD_OUT, RunData, number, pooled
from coda_jax.evaluation.statistics import wilson
from coda_jax.evaluation.terminal import duration, rate_text

COLOURS: dict[Moment, str] = {"before": "#9ca3af", "after": "#2563eb"}
MOMENTS: tuple[Moment, ...] = ("before", "after")
_TEAL = "#0f766e"
_SUCCESS = "#bbf7d0"
_PHASE_COLOURS = ("#fde68a", "#fdba74", "#f97316", "#c2410c", "#7c2d12")
_SERIES = ("#2563eb", "#c2410c", "#0f766e", "#7c3aed")
_FILMS = 2  # of each outcome and suite
_GALLERY = 12
_CURVE_POINTS = 400


def table(header: Sequence[str], rows: Sequence[Sequence[str]], numeric: int) -> str:
    """An HTML table of plain text cells, the columns from index ``numeric`` on aligned right."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(f"<{tag}{' class=n' if i >= numeric else ''}>{escape(c)}</{tag}>" for i, c in enumerate(row))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells('th', header)}</tr></thead><tbody>{body}</tbody></table>"


def percent(tally: Tally) -> str:
    return f"{100 * tally.k / tally.n:.0f} %" if tally.n else "-"


def interval_text(tally: Tally) -> str:
    low, high = wilson(tally.k, tally.n)
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def _section(title: str, note: str, body: str) -> str:
    note_html = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"<section><h2>{escape(title)}</h2>{note_html}{body}</section>" if body else ""


def _bar(label: str, tally: Tally, colour: str) -> charts.Bar:
    value = tally.k / tally.n if tally.n else 0.0
    return charts.Bar(label, value, wilson(tally.k, tally.n) if tally.n else None, f"{tally.k}/{tally.n} = {percent(tally)}", colour)


def tiles(run: RunData) -> str:
    """The page's key numbers."""
    s = run.summary
    moment: Moment = "after" if any("after" in m for f in s.suites.values() for m in f.values()) else "before"
    shown = []
    for label, suites in (("in distribution", ("id",)), ("held out, four suites", HELD_OUT)):
        total = pooled(s, suites, moment)
        if total.n:
            shown.append((percent(total), f"{label}: {total.k}/{total.n}, {interval_text(total)}"))
    rejected = sum(s.rejected.values())
    shown.append((f"{s.accepted:,}", f"scenes accepted, {rejected:,} refused"))
    planner = _planner(run)
    if planner:
        total = Tally(sum(t.k for t in planner.values()), sum(t.n for t in planner.values()))
        shown.append((percent(total), f"planner success, {total.k:,}/{total.n:,}"))
    shown.append((duration(s.wall_s), f"wall time, {s.sim_steps / 1e6:.1f} M physics steps"))
    shown.append((str(sum(s.compiles_per_round)), "compilations after the start"))
    return "".join(f'<div class="tile"><b>{escape(a)}</b><span>{escape(b)}</span></div>' for a, b in shown)


def suites(run: RunData) -> str:
    body = []
    for family, by_suite in run.summary.suites.items():
        groups = [[_bar(name, m[moment], COLOURS[moment]) for moment in MOMENTS if moment in m] for name, m in by_suite.items() if m]
        if not groups:
            continue
        present: list[Moment] = [moment for moment in MOMENTS if any(moment in by_moment for by_moment in by_suite.values())]
        key = "".join(f'<i style="background:{COLOURS[m]}"></i>{m} training' for m in present) if len(present) > 1 else ""
        rows = []
        for name, m in by_suite.items():
            for moment in MOMENTS:
                if moment not in m:
                    continue
                change = _change(run, family, name) if moment == "after" else ""
                rows.append((name, moment, f"{m[moment].k}/{m[moment].n}", percent(m[moment]), interval_text(m[moment]), change))
        header = ["suite", "moment", "k/n", "success", "95 % interval", "change, paired 95 %"]
        if not any(row[5] for row in rows):
            header, rows = header[:5], [row[:5] for row in rows]
        body.append(f"<h3>{escape(family)}</h3>" + (f'<div class="key">{key}</div>' if key else ""))
        body.append(charts.bar_chart(groups, f"success by suite, {family}") + table(header, rows, 2))
    note = "One rollout for each suite scene and seed. Whiskers are 95 % Wilson intervals."
    return _section("Success by suite", note, "".join(body))


def _change(run: RunData, family: str, suite: str) -> str:
    """Mean change over the scenes that were measured at both moments, with its sign-flip interval."""
    rows = [r for split in sorted({r.split for r in run.records}) for r in before_and_after(run.records, split)]
    found = next((r.difference for r in rows if (r.family, r.suite) == (family, suite)), None)
    return f"{100 * found.mean:+.0f} ({100 * found.low:+.0f} to {100 * found.high:+.0f}) points" if found else ""


def _latest(run: RunData) -> list[EvalRecord]:
    """Records after training, or before it where there are none after."""
    after = [r for r in run.records if r.moment == "after"]
    return after or list(run.records)


def failures(run: RunData) -> str:
    records = _latest(run)
    rows: dict[str, list[int]] = {}
    other = "other"
    several = len({r.family for r in records}) > 1
    for r in records:
        counts = rows.setdefault(f"{r.family} {r.suite}" if several else r.suite, [0] * (len(PHASES) + 2))
        position = 0 if r.success else 1 + PHASES.index(r.phase_failed) if r.phase_failed in PHASES else len(PHASES) + 1
        counts[position] += 1
    if not rows:
        return ""
    names = ["success", *PHASES, other]
    colours = [_SUCCESS, *_PHASE_COLOURS, "#4b5563"]
    if not any(counts[-1] for counts in rows.values()):
        names, colours, rows = names[:-1], colours[:-1], {k: v[:-1] for k, v in rows.items()}
    flagged = sum(r.health != 0 for r in records)
    note = "A failed rollout counts at the first phase it never met, from the approach to the release."
    if flagged:
        note += f" {flagged} of {len(records)} rollouts ended with a simulator flag (NaN or contact overflow) and count as failures."
    return _section("Where rollouts fail", note, charts.stacked_chart(list(rows.items()), names, colours, "failures by phase"))


def films(run: RunData) -> str:
    body = []
    groups: dict[tuple[str, str], list[EvalRecord]] = {}
    for r in _latest(run):
        if r.film is not None:
            groups.setdefault((r.family, r.suite), []).append(r)
    several = len({family for family, _ in groups}) > 1
    for (family, suite), records in groups.items():
        strips = []
        for success in (True, False):
            shown = 0
            for r in (r for r in records if r.success is success):
                source = run.image(r.film)
                if source is None or shown == _FILMS:
                    continue
                shown += 1
                strips.append(_film(r, source))
        if strips:
            body.append(f"<h3>{escape(f'{family}: {suite}' if several else suite)}</h3>" + "".join(strips))
    note = "Evenly spaced control steps from the first to the last; under each frame its step and the furthest phase met so far."
    return _section("Film strips", note, "".join(body))


def _film(r: EvalRecord, source: str) -> str:
    verdict = (
        '<span class="good">success</span>'
        if r.success
        else f'<span class="bad">failed in {escape(r.phase_failed or "unknown phase")}</span>'
    )
    caption = f"{verdict} after {r.steps} steps: {escape(charts.shorten(r.instruction, 160))} (scene {escape(r.scene_id)}, seed {r.seed})"
    return f'<figure><img alt="film strip" src="{source}"><figcaption>{caption}</figcaption></figure>'


def _planner(run: RunData) -> dict[str, Tally]:
    """Planner successes by category; a later row of a category replaces an earlier one."""
    out = {}
    for row in run.of_kind("planner"):
        k, n = number(row.get("k")), number(row.get("n"))
        if k is not None and n is not None and 0 <= k <= n:
            out[str(row.get("category"))] = Tally(int(k), int(n))
    return out


def planner(run: RunData) -> str:
    tallies = _planner(run)
    if not tallies:
        return ""
    groups = [[_bar(name, t, _TEAL)] for name, t in sorted(tallies.items(), key=lambda item: (-item[1].k / max(item[1].n, 1), item[0]))]
    note = "Share of scenes that the scripted planner solves, by the category of the target; demonstrations are its certified successes."
    return _section("Planner by category", note, charts.bar_chart(groups, "planner success by category"))


def training(run: RunData) -> str:
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in run.of_kind("train"):
        step = number(row.get("step"))
        for field in ("loss", "validation_loss"):
            value = number(row.get(field))
            if step is not None and value is not None:
                name = field.replace("_", " ") if "name" not in row else f"{row['name']} {field.replace('_', ' ')}"
                curves.setdefault(name, []).append((step, value))
    series = [(name, _thin(points), colour) for (name, points), colour in zip(curves.items(), _SERIES, strict=False)]
    if not series:
        return ""
    return _section("Training loss", "", charts.line_chart(series, "training step", "training loss"))


def _thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most _CURVE_POINTS points, each the mean of its neighbours."""
    size = -(-len(points) // _CURVE_POINTS)
    pieces = [points[i : i + size] for i in range(0, len(points), size)]
    return [(sum(x for x, _ in p) / len(p), sum(y for _, y in p) / len(p)) for p in pieces]


def gallery(run: RunData) -> str:
    figures = []
    for row in run.of_kind("scene"):
        source = run.image(row.get("file"))
        if source is None or len(figures) == _GALLERY:
            continue
        caption = escape(charts.shorten(str(row.get("instruction", "")), 120))
        figures.append(f'<figure><img alt="scene" src="{source}"><figcaption>{caption}</figcaption></figure>')
    return _section(
        "Scenes", "Training scenes as their programs built them.", f'<div class="gallery">{"".join(figures)}</div>' if figures else ""
    )


def costs(run: RunData) -> str:
    """Refused scenes by reason beside time by stage."""
    parts = []
    if run.summary.rejected:
        total = run.summary.accepted + sum(run.summary.rejected.values())
        rows = [
            (reason, f"{n:,}", f"{100 * n / total:.1f} %")
            for reason, n in sorted(run.summary.rejected.items(), key=lambda x: (-x[1], x[0]))
        ]
        rows.append(("accepted", f"{run.summary.accepted:,}", f"{100 * run.summary.accepted / total:.1f} %"))
        parts.append(f"<div><h3>Scenes by outcome of the checks</h3>{table(('reason', 'scenes', 'share'), rows, 1)}</div>")
    stages = []
    for row in run.of_kind("stage"):
        wall, done, compiles = number(row.get("wall_s")), number(row.get("done")), number(row.get("compiles"))
        if wall is None:
            continue
        rate = rate_text(done / wall, str(row.get("unit", "items"))) if done and wall > 0 else ""
        stages.append((str(row.get("name", "")), duration(wall), rate, "" if compiles is None else f"{compiles:.0f}"))
    if stages:
        parts.append(f"<div><h3>Time by stage</h3>{table(('stage', 'wall time', 'rate', 'compilations'), stages, 1)}</div>")
    rounds = run.summary.compiles_per_round
    if rounds:
        rows = [(str(i), str(n)) for i, n in enumerate(rounds)]
        parts.append(f"<div><h3>Compilations by round, after the start</h3>{table(('round', 'compilations'), rows, 1)}</div>")
    return _section("Cost and refusals", "", f'<div class="columns">{"".join(parts)}</div>' if parts else "")


def configuration(run: RunData) -> str:
    if not run.config:
        return ""
    text = escape(json.dumps(run.config, indent=2, sort_keys=True, ensure_ascii=False))
    return _section("Configuration", "", f"<details><summary>Resolved configuration and versions</summary><pre>{text}</pre></details>")


SECTIONS: tuple[Callable[[RunData], str], ...] = (suites, failures, planner, training, costs, films, gallery, configuration)
