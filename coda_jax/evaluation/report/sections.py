"""The sections of the report: each takes a run and returns HTML, or "" where the run has nothing to show.

All text of a run (names, instructions, reasons) is hostile until escaped: everything passes ``escape`` here or in charts.py.
"""

from __future__ import annotations

import json
from html import escape

from coda_jax.evaluation.failures import PHASES
from coda_jax.evaluation.metrics import Moment, Tally
from coda_jax.evaluation.mode_history import number, tally
from coda_jax.evaluation.records import EvalRecord
from coda_jax.evaluation.report import charts, markup
from coda_jax.evaluation.report.data import HELD_OUT, IN_DISTRIBUTION, RunData, pooled, thinned
from coda_jax.evaluation.terminal import duration

COLOURS: dict[Moment, str] = {"before": "#9ca3af", "after": "#2563eb"}
MOMENTS: tuple[Moment, ...] = ("before", "after")
_TEAL = "#0f766e"
_SUCCESS = "#bbf7d0"
_PHASE_COLOURS = ("#fde68a", "#fdba74", "#f97316", "#c2410c", "#7c2d12")
_SERIES = ("#2563eb", "#c2410c", "#0f766e", "#7c3aed")
_FILMS = 2  # of each outcome and suite


def tiles(run: RunData) -> str:
    """The page's key numbers."""
    s = run.summary
    moment: Moment = "after" if any("after" in m for f in s.suites.values() for m in f.values()) else "before"
    shown = []
    for label, suites in (("in distribution", IN_DISTRIBUTION), ("held out", HELD_OUT)):
        total = pooled(s, suites, moment)
        if total.n:
            shown.append((markup.percent(total), f"{label}: {total.k}/{total.n}, {markup.interval_text(total)}"))
    rejected = sum(s.rejected.values())
    shown.append((f"{s.accepted:,}", f"scenes accepted, {rejected:,} refused"))
    tests = sum(s.diagnoses.values())
    if s.rounds:
        practised = sum(m.get("new", 0) for m in s.modes)
        shown.append((str(s.rounds), f"round{'s' if s.rounds != 1 else ''}, {practised} difficulty modes found"))
    if tests:
        shown.append((f"{s.diagnoses.get('confirmed', 0)} of {tests}", "diagnoses confirmed by a control test"))
    planner = _planner(run)
    if planner:
        total = Tally(sum(t.k for t in planner.values()), sum(t.n for t in planner.values()))
        revised = _revised(run)
        after = "" if revised is None else f", after revision {revised.k:,}/{revised.n:,}"
        shown.append((markup.percent(total), f"planner success at the first try, {total.k:,}/{total.n:,}{after}"))
    shown.append((duration(s.wall_s), f"wall time, {s.sim_steps / 1e6:.1f} M physics steps"))
    shown.append((str(sum(s.compiles_per_round)), "compilations after the start"))
    return "".join(f'<div class="tile"><b>{escape(a)}</b><span>{escape(b)}</span></div>' for a, b in shown)


def suites(run: RunData) -> str:
    body = []
    for family, by_suite in run.summary.suites.items():
        groups = [
            [markup.bar(name, m[moment], COLOURS[moment], run.interval(family, name, moment)) for moment in MOMENTS if moment in m]
            for name, m in by_suite.items()
            if m
        ]
        if not groups:
            continue
        present: list[Moment] = [moment for moment in MOMENTS if any(moment in by_moment for by_moment in by_suite.values())]
        key = markup.key([f"{m} the rounds" for m in present], [COLOURS[m] for m in present]) if len(present) > 1 else ""
        rows = [(name, *(_rate(run, family, name, moment) for moment in present), _change(run, family, name)) for name in by_suite]
        header = ["suite", *present, "change, points"]
        if not any(row[-1] for row in rows):
            header, rows = header[:-1], [row[:-1] for row in rows]
        body.append(f"<h3>{escape(family)}</h3>" + key)
        body.append(charts.bar_chart(groups, f"success by suite, {family}") + markup.table(header, rows, 1))
    note = "One rollout for each suite scene and seed. Ranges are 95 %: Wilson's or, where a scene has several rollouts, over scenes."
    if reach := [t for by_suite in run.summary.within_reach.values() for t in by_suite.values()]:
        within, of = sum(t.k for t in reach), sum(t.n for t in reach)
        note += f" The suites were certified with another robot: {run.summary.robot} reaches {within} of their {of} scenes, and all count."
    if run.changes:
        note += " The change is paired scene by scene; where its interval holds 0, nothing is shown to have changed."
    return markup.section("Success by suite", note, "".join(body))


def _rate(run: RunData, family: str, suite: str, moment: Moment) -> str:
    found = run.summary.suites[family][suite].get(moment)
    if found is None:
        return ""
    return f"{found.k}/{found.n} = {markup.percent(found)} ({markup.interval_text(found, run.interval(family, suite, moment))})"


def _change(run: RunData, family: str, suite: str) -> str:
    """Mean change over the scenes that were measured at both moments, with its paired interval."""
    found = next((r.difference for r in run.changes if (r.family, r.suite) == (family, suite)), None)
    return markup.points(found.mean, found.low, found.high) if found else ""


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
    return markup.section("Where rollouts fail", note, charts.stacked_chart(list(rows.items()), names, colours, "failures by phase"))


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
    return markup.section("Film strips", note, "".join(body))


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
        found = tally(row.get("k"), row.get("n"))
        if found is not None:
            out[str(row.get("category"))] = found
    return out


def _revised(run: RunData) -> Tally | None:
    """Scenes of the demonstrations that the planner solved at last, where a supervisor had its plans revised."""
    found = [tally(row.get("solved"), row.get("scenes")) for row in run.of_kind("supervised") if row.get("stage") == "demonstrations"]
    return found[-1] if found else None


def planner(run: RunData) -> str:
    tallies = _planner(run)
    if not tallies:
        return ""
    groups = [
        [markup.bar(name, t, _TEAL)] for name, t in sorted(tallies.items(), key=lambda item: (-item[1].k / max(item[1].n, 1), item[0]))
    ]
    note = (
        "Share of scenes that the scripted planner solves at the first try, by the category of the target; demonstrations are its "
        "certified successes, those after a revision of its plan too."
    )
    return markup.section("Planner by category", note, charts.bar_chart(groups, "planner success at the first try by category"))


def training(run: RunData) -> str:
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in run.of_kind("train"):
        step = number(row.get("step"))
        if row.get("name") == "critic":
            continue  # it has a section of its own
        for field in ("loss", "validation_loss"):
            value = number(row.get(field))
            if step is not None and value is not None:
                name = field.replace("_", " ") if "name" not in row else f"{row['name']} {field.replace('_', ' ')}"
                curves.setdefault(name, []).append((step, value))
    series = [(name, thinned(points), colour) for (name, points), colour in zip(curves.items(), _SERIES, strict=False)]
    if not series:
        return ""
    return markup.section("Training loss", "", charts.line_chart(series, "training step", "training loss"))


def configuration(run: RunData) -> str:
    if not run.config:
        return ""
    text = escape(json.dumps(run.config, indent=2, sort_keys=True, ensure_ascii=False))
    return markup.section(
        "Configuration", "", f"<details><summary>Resolved configuration and versions</summary><pre>{text}</pre></details>"
    )
