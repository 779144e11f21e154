"""The page of a sweep: success over checkpoints, a curve for each temperature, and the table behind it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from coda_jax.evaluation.metrics import Tally, atomic_write
from coda_jax.evaluation.report import charts, markup
from coda_jax.evaluation.report.charts import GRID, MUTED, WIDTH, svg_text
from coda_jax.evaluation.sweep_results import CellResult, interval
from coda_jax.evaluation.terminal import CHOSEN_ON_VALIDATION

PAGE = "sweep.html"
COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")
_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 52, 16, 34, 40, 260
_DASH = 8  # px


def curves(cells: Sequence[CellResult], title: str) -> str:
    """Success with 95 % intervals over the policies of ``cells``, in order; curves of each temperature, broken between runs."""
    policies = list(dict.fromkeys((c.run, c.step, c.sha256) for c in cells))
    temperatures = sorted({c.temperature for c in cells})
    span, rise = WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    place = {policy: _LEFT + span * (i + 0.5) / len(policies) for i, policy in enumerate(policies)}
    apart = min(5.0, 0.6 * span / len(policies) / len(temperatures))  # px between the whiskers of one policy

    def height(value: float) -> float:
        return _TOP + rise * (1 - value)

    rates = {t: {(c.run, c.step, c.sha256): c.k / c.n for c in cells if c.temperature == t} for t in temperatures}
    parts, x = [], float(_LEFT)
    for i in range(5):
        y = height(i / 4)
        parts.append(f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>')
        parts.append(svg_text(_LEFT - 8, y + 4, f"{25 * i} %", size=11, fill=MUTED, anchor="end"))
    every = -(-len(policies) // 14)
    for i, policy in enumerate(policies):
        if i % every == 0:
            parts.append(svg_text(place[policy], _HEIGHT - 24, f"{policy[1]:,}", size=11, fill=MUTED, anchor="middle"))
    for run, own in itertools.groupby(policies, lambda policy: policy[0]):
        middle = [place[p] for p in own]
        parts.append(svg_text(sum(middle) / len(middle), _HEIGHT - 8, charts.shorten(run, 40), size=11, fill=MUTED, anchor="middle"))
    for number, temperature in enumerate(temperatures):
        colour, shift = COLOURS[number % len(COLOURS)], apart * (number - (len(temperatures) - 1) / 2)
        name = f"temperature {temperature:g}"
        parts.append(f'<rect x="{x:.1f}" y="6" width="11" height="11" rx="2" fill="{colour}"/>')
        parts.append(svg_text(x + 16, 16, name, fill=MUTED))
        x += 34 + 7 * len(name)
        shown = {(c.run, c.step, c.sha256): c for c in cells if c.temperature == temperature}
        for _, own in itertools.groupby(policies, lambda policy: policy[0]):
            for a, b in itertools.pairwise(p for p in own if p in shown):
                ends = [f"{place[p] + shift:.1f} {height(rates[temperature][p]):.1f}" for p in (a, b)]
                alike = [t for t in temperatures if all(rates[t].get(p) == rates[temperature][p] for p in (a, b))]
                dashes = ""
                if len(alike) > 1:  # lines that lie on each other: their dashes take turns
                    offset = shift - _DASH * alike.index(temperature)
                    dashes = f' stroke-dasharray="{_DASH} {_DASH * (len(alike) - 1)}" stroke-dashoffset="{offset:.1f}"'
                parts.append(f'<path d="M{"L".join(ends)}" fill="none" stroke="{colour}" stroke-width="1.6"{dashes}/>')
        for policy, cell in shown.items():
            px, (low, high) = place[policy] + shift, interval([cell])
            tip = f"{cell.policy}, {name}: {cell.k}/{cell.n}, 95 % interval {100 * low:.0f} to {100 * high:.0f} %"
            parts.append(
                f"<g><title>{escape(tip)}</title>"
                f'<path d="M{px:.1f} {height(low):.1f}V{height(high):.1f}" stroke="{colour}" stroke-opacity="0.45"/>'
                f'<circle cx="{px:.1f}" cy="{height(cell.k / cell.n):.1f}" r="3.4" fill="{colour}"/></g>'
            )
    return f'<svg viewBox="0 0 {WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'


def _rows(cells: Sequence[CellResult], best: CellResult | None) -> list[tuple[str, ...]]:
    ordered = sorted(cells, key=lambda c: -c.k / c.n)
    return [
        (c.policy, f"{c.temperature:g}", f"{c.k}/{c.n}", markup.percent(tally), markup.interval_text(tally, interval([c])), mark)
        for c in ordered
        for tally, mark in [(Tally(c.k, c.n), "best" if c == best else "")]
    ]


def write_sweep(
    folder: Path, name: str, suites: Mapping[str, Sequence[CellResult]], best: Mapping[str, CellResult | None], page_name: str = PAGE
) -> Path:
    """Write ``page_name``, one file without script or network; suites: cells of each. best: of each, None where all are equal. Returns
    its path."""
    header = ("policy", "temperature", "k/n", "success", "95 % interval", "")
    body = [
        markup.section(
            suite,
            "Success over updates of the checkpoint; whiskers are 95 % intervals.",
            curves(cells, suite) + f"<details><summary>every cell</summary>{markup.table(header, _rows(cells, best[suite]), 1)}</details>",
        )
        for suite, cells in suites.items()
    ]
    chosen = "; ".join(
        f"{suite}: no best one, all {suites[suite][0].k}/{suites[suite][0].n}"
        if c is None
        else f"{suite}: {c.policy} at temperature {c.temperature:g}, {c.k}/{c.n}"
        for suite, c in best.items()
    )
    cells = list({c.key: c for own in suites.values() for c in own}.values())  # checkpoints that hold the same were measured once
    template = Template(resources.files("coda_jax.evaluation.report").joinpath("template.html").read_text("utf-8"))
    page = template.substitute(
        title=escape(f"{name}: sweep"),
        subtitle=escape(
            f"{len(cells)} cells, {sum(c.n for c in cells):,} rollouts, {' and '.join(sorted({c.split for c in cells}))} split"
        ),
        headline=escape(f"Best of each suite: {chosen}. {CHOSEN_ON_VALIDATION if any(best.values()) else ''}".strip()),
        tiles="",
        contents="",
        sections="\n".join(body),
        footer="Self-contained page; the numbers behind it are in cells.jsonl beside it.",
    )
    atomic_write(folder / page_name, page.encode("utf-8", errors="replace"))
    return folder / page_name
