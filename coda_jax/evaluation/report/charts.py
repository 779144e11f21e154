"""Charts as inline SVG text: no script, no font and no library to fetch. Every label is escaped here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH = 760
_LABEL = 150  # px, left column for row names
_RIGHT = 118  # px, right column for values
_GOLDEN = 0.618034
CHOSEN = "#2563eb"
_LEGEND = 30  # px, the line of names above a chart
INK, MUTED, GRID = "#1f2937", "#6b7280", "#e5e7eb"


class Bar(NamedTuple):
    """One horizontal bar: ``value`` in 0..1, an optional interval, the text at its right end, its colour."""

    label: str
    value: float
    interval: tuple[float, float] | None
    text: str
    colour: str


def svg_text(x: float, y: float, content: str, *, size: int = 12, fill: str = INK, anchor: str = "start", weight: int = 400) -> str:
    style = f'font-size="{size}" fill="{fill}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(content)}</text>'


def shorten(text: str, length: int) -> str:
    """The text, cut to ``length`` characters with an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"


def _svg(height: float, parts: Sequence[str], title: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'


def _percent_axis(height: float) -> list[str]:
    parts = []
    for i in range(5):
        x = _LABEL + (WIDTH - _LABEL - _RIGHT) * i / 4
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{height - 20:.1f}" stroke="{GRID}"/>')
        parts.append(svg_text(x, height - 6, f"{25 * i} %", size=11, fill=MUTED, anchor="middle"))
    return parts


def bar_chart(groups: Sequence[Sequence[Bar]], title: str) -> str:
    """Horizontal bars from 0 to 100 % with interval whiskers; bars of one group stand together under one label."""
    bar, gap = 16, 12
    height = 8 + sum(len(g) * (bar + 2) + gap for g in groups) + 22
    span = WIDTH - _LABEL - _RIGHT
    parts, y = _percent_axis(height), 8.0
    for group in groups:
        middle = y + len(group) * (bar + 2) / 2
        parts.append(svg_text(_LABEL - 10, middle + 3, shorten(group[0].label, 22), anchor="end", weight=500))
        for b in group:
            width = span * min(max(b.value, 0.0), 1.0)
            interval = "" if b.interval is None else f", 95 % interval {100 * b.interval[0]:.0f} to {100 * b.interval[1]:.0f} %"
            tip = f"<title>{escape(b.label)}: {escape(b.text)}{interval}</title>"
            parts.append(f'<g>{tip}<rect x="{_LABEL}" y="{y:.1f}" width="{max(width, 1.5):.1f}" height="{bar}" rx="2" fill="{b.colour}"/>')
            if b.interval is not None:
                low, high = (_LABEL + span * v for v in b.interval)
                mid = y + bar / 2
                parts.append(
                    f'<path d="M{low:.1f} {mid:.1f}H{high:.1f}M{low:.1f} {mid - 4:.1f}v8M{high:.1f} {mid - 4:.1f}v8" class="whisker"/>'
                )
            parts.append(svg_text(WIDTH - _RIGHT + 12, y + bar / 2 + 4, b.text, fill=INK))
            parts.append("</g>")
            y += bar + 2
        y += gap
    return _svg(height, parts, title)


def _legend(names: Sequence[str], colours: Sequence[str]) -> list[str]:
    """Coloured names in one line above a chart, on white so that grid lines do not cross them."""
    parts, x = [f'<rect x="0" y="0" width="{WIDTH}" height="{_LEGEND - 6}" fill="#fff"/>'], float(_LABEL)
    for name, colour in zip(names, colours, strict=True):
        parts.append(f'<rect x="{x:.1f}" y="5" width="11" height="11" rx="2" fill="{colour}"/>')
        parts.append(svg_text(x + 16, 15, name, fill=MUTED))
        x += 16 + 7 * len(name) + 14
    return parts


def stacked_chart(
    rows: Sequence[tuple[str, Sequence[int]]], names: Sequence[str], colours: Sequence[str], title: str, unit: str = "rollouts"
) -> str:
    """Rows of counts as shares of the row's total, with the counts inside the pieces and a legend above."""
    bar, gap, top = 22, 10, _LEGEND
    height = top + len(rows) * (bar + gap) + 22
    span = WIDTH - _LABEL - _RIGHT
    parts = _percent_axis(height)
    parts += _legend(names, colours)
    for i, (label, counts) in enumerate(rows):
        y, total, left = top + i * (bar + gap), sum(counts), float(_LABEL)
        parts.append(svg_text(_LABEL - 10, y + bar / 2 + 4, shorten(label, 22), anchor="end", weight=500))
        for name, colour, count in zip(names, colours, counts, strict=True):
            if not count:
                continue
            width = span * count / total
            parts.append(f"<g><title>{escape(label)}, {escape(name)}: {count} of {total}</title>")
            parts.append(f'<rect x="{left:.1f}" y="{y}" width="{max(width - 2, 1):.1f}" height="{bar}" rx="2" fill="{colour}"/>')
            if width > 20:
                parts.append(svg_text(left + width / 2 - 1, y + bar / 2 + 4, str(count), fill=_on(colour), anchor="middle", size=11))
            parts.append("</g>")
            left += width
        parts.append(svg_text(WIDTH - _RIGHT + 12, y + bar / 2 + 4, f"{total} {unit}", fill=MUTED))
    return _svg(height, parts, title)


def _on(colour: str) -> str:
    """Ink that is readable on the colour ("#rrggbb")."""
    r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#ffffff" if 0.299 * r + 0.587 * g + 0.114 * b < 150 else INK


def strip_chart(rows: Sequence[tuple[str, Sequence[tuple[float, int]]]], names: Sequence[str], colours: Sequence[str], title: str) -> str:
    """A line of dots for each row: (value in 0..1, number of its name), spread a little in height so that equal values show apart."""
    line, top = 24, _LEGEND
    height = top + len(rows) * line + 30
    span = WIDTH - _LABEL - _RIGHT
    parts = []
    for i in range(5):
        x = _LABEL + span * i / 4
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{height - 20:.1f}" stroke="{GRID}"/>')
        parts.append(svg_text(x, height - 6, f"{i / 4:g}", size=11, fill=MUTED, anchor="middle"))
    parts += _legend(names, colours)
    for i, (label, dots) in enumerate(rows):
        y = top + (i + 0.5) * line
        parts.append(svg_text(_LABEL - 10, y + 4, shorten(label, 22), anchor="end", weight=500))
        for j, (value, name) in enumerate(dots):
            shift = (j * _GOLDEN % 1 - 0.5) * (line - 10)
            x = _LABEL + span * min(max(value, 0.0), 1.0)
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y + shift:.1f}" r="4" fill="{colours[name]}" fill-opacity="0.7">'
                f"<title>{escape(label)} {value:.2f}, {escape(names[name])}</title></circle>"
            )
        parts.append(svg_text(WIDTH - _RIGHT + 12, y + 4, f"{len(dots)} scene{'s' if len(dots) != 1 else ''}", fill=MUTED))
    return _svg(height, parts, title)


def level_chart(levels: Sequence[tuple[float, float, str]], band: tuple[float, float], chosen: float | None, title: str) -> str:
    """A small curve of success (0..1) over level (0..1) with the wanted band shaded and the chosen level ringed.

    levels: (level, success, text of the point).
    """
    width, height, edge = 132, 58, 8

    def place(level: float, value: float) -> tuple[float, float]:
        return edge + (width - 2 * edge) * level, edge + (height - 2 * edge) * (1 - value)

    low, high = place(0, band[0])[1], place(0, band[1])[1]
    parts = [f'<rect x="0" y="{high:.1f}" width="{width}" height="{low - high:.1f}" fill="#ecfdf5"/>']
    parts.append(f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="3" fill="none" stroke="{GRID}"/>')
    points = [(*place(level, value), level, text) for level, value, text in levels]
    if len(points) > 1:
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _, _ in points)
        parts.append(f'<path d="{path}" fill="none" stroke="{MUTED}" stroke-width="1.3"/>')
    for x, y, level, text in points:
        if chosen is not None and abs(level - chosen) < 1e-9:
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" fill="none" stroke="{CHOSEN}" stroke-width="1.6"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{INK}"><title>{escape(text)}</title></circle>')
    return (
        f'<svg class="mini" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def line_chart(series: Sequence[tuple[str, Sequence[tuple[float, float]], str]], x_label: str, title: str) -> str:
    """Curves (name, points, colour) over a shared x axis; the y axis is logarithmic when all values are positive and span a decade."""
    points = [p for _, pts, _ in series for p in pts if math.isfinite(p[0]) and math.isfinite(p[1])]
    if not points:
        return ""
    x_low, x_high = min(p[0] for p in points), max(p[0] for p in points)
    y_low, y_high = min(p[1] for p in points), max(p[1] for p in points)
    log = y_low > 0 and y_high / y_low > 10
    scale = math.log10 if log else float
    bottom, top = (scale(y_low), scale(y_high)) if log else (min(0.0, y_low), y_high)
    top = top if top > bottom else bottom + 1
    left, right, height = 58, 110, 240

    def place(x: float, y: float) -> tuple[float, float]:
        px = left + (WIDTH - left - right) * ((x - x_low) / (x_high - x_low) if x_high > x_low else 0.5)
        return px, 14 + (height - 56) * (1 - (scale(y) - bottom) / (top - bottom))

    parts = []
    for tick in _log_ticks(bottom, top) if log else ticks(bottom, top):
        y = 14 + (height - 56) * (1 - ((math.log10(tick) if log else tick) - bottom) / (top - bottom))
        parts.append(f'<line x1="{left}" x2="{WIDTH - right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>')
        parts.append(svg_text(left - 8, y + 4, f"{tick:.3g}", size=11, fill=MUTED, anchor="end"))
    for tick in ticks(x_low, x_high):
        x = place(tick, y_high)[0]
        parts.append(svg_text(x, height - 24, f"{tick:,.0f}", size=11, fill=MUTED, anchor="middle"))
    parts.append(svg_text(left + (WIDTH - left - right) / 2, height - 6, x_label, size=11, fill=MUTED, anchor="middle"))
    for name, pts, colour in series:
        finite = [place(*p) for p in pts if math.isfinite(p[0]) and math.isfinite(p[1])]
        if not finite:
            continue
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in finite)
        parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"/>')
        parts.append(svg_text(finite[-1][0] + 8, finite[-1][1] + 4, shorten(name, 15), fill=colour, weight=500))
    return _svg(height, parts, title)


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers between the two."""
    if high <= low:
        return [low]
    raw = (high - low) / 4
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
    return [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between 10^low and 10^high; powers alone where there are many."""
    multiples = (1, 2, 5) if high - low < 2 else (1,)
    values = [m * 10.0**e for e in range(math.floor(low), math.ceil(high) + 1) for m in multiples]
    return [v for v in values if low - 1e-9 <= math.log10(v) <= high + 1e-9]
