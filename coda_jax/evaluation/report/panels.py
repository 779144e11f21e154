"""Small charts that stand side by side: curves over updates, and decoded values against what was earned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from coda_jax.evaluation.report.charts import CHOSEN, GRID, INK, MUTED, svg_text, ticks

_WIDTH, _HEIGHT, _SIDE = 320, 190, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 30, 26


class Curve(NamedTuple):
    """One line of a panel: finite points (x, y) in order, and its colour."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str


class Calibrated(NamedTuple):
    """Decisions of similar decoded value: their mean, what they earned on average, its standard error (None: unknown), how many."""

    decoded: float
    realised: float
    error: float | None
    count: int


def _open(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    return f'<svg class="panel" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'


def _names(curves: Sequence[Curve]) -> list[str]:
    """The names of the curves in one line, each in its colour."""
    parts, x = [], float(_LEFT)
    for curve in curves:
        parts.append(svg_text(x, 16, curve.name, size=12, fill=curve.colour, weight=500))
        x += 6.6 * len(curve.name) + 14
    return parts


def curve_panel(curves: Sequence[Curve], marks: Sequence[tuple[float, str]]) -> str:
    """Curves over updates, from 0 or their lowest value to their highest; "" without points.

    marks: (x, what ends there), as faint upright lines.
    """
    shown = [c for c in curves if c.points]
    if not shown:
        return ""
    xs, ys = ([p[i] for c in shown for p in c.points] for i in (0, 1))
    left, right, low, high = min(xs), max(xs), min(0.0, *ys), max(ys)
    right, high = (right if right > left else left + 1), (high if high > low else low + 1)

    def place(x: float, y: float) -> tuple[float, float]:
        across, up = (x - left) / (right - left), (y - low) / (high - low)
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * across, _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - up)

    parts = _names(shown)
    for tick in ticks(low, high):
        y = place(left, tick)[1]
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>')
        parts.append(svg_text(_LEFT - 6, y + 4, f"{tick:.3g}", size=11, fill=MUTED, anchor="end"))
    for x, words in marks:
        if left < x < right:
            at = place(x, low)[0]
            line = f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="{MUTED}" stroke-dasharray="2 3"/>'
            parts.append(f"<g><title>{escape(words)}</title>{line}</g>")
    parts.append(svg_text(_LEFT, _HEIGHT - 8, f"{left:,.0f}", size=11, fill=MUTED))
    parts.append(svg_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, "updates", size=11, fill=MUTED, anchor="middle"))
    parts.append(svg_text(_WIDTH - _RIGHT, _HEIGHT - 8, f"{right:,.0f}", size=11, fill=MUTED, anchor="end"))
    for curve in shown:
        placed = [place(*p) for p in curve.points]
        if len(placed) == 1:
            parts.append(f'<circle cx="{placed[0][0]:.1f}" cy="{placed[0][1]:.1f}" r="2.6" fill="{curve.colour}"/>')
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
        parts.append(f'<path d="{path}" fill="none" stroke="{curve.colour}" stroke-width="1.8" stroke-linejoin="round"/>')
    return _open(_WIDTH, _HEIGHT, " and ".join(c.name for c in shown), parts)


def calibration_panel(points: Sequence[Calibrated], low: float, high: float, name: str) -> str:
    """What decisions earned over the value that they were given, with two standard errors; a perfect critic's dots lie on the diagonal.

    low, high: of both axes, which the panels of a page share. Areas of the dots grow with the decisions behind them.
    """
    size, most = _SIDE - _LEFT - _RIGHT, max((p.count for p in points), default=1)

    def x(value: float) -> float:
        return _LEFT + size * (min(max(value, low), high) - low) / (high - low)

    def y(value: float) -> float:
        return _TOP + size * (high - min(max(value, low), high)) / (high - low)

    parts = [svg_text(_LEFT, 16, f"{name}: earned over value", size=12, weight=500)]
    for tick in ticks(low, high):
        parts.append(f'<line x1="{_LEFT}" x2="{_LEFT + size}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="{GRID}"/>')
        parts.append(svg_text(_LEFT - 6, y(tick) + 4, f"{tick:.3g}", size=11, fill=MUTED, anchor="end"))
        parts.append(svg_text(x(tick), _TOP + size + 14, f"{tick:.3g}", size=11, fill=MUTED, anchor="middle"))
    parts.append(f'<path d="M{x(low):.1f} {y(low):.1f}L{x(high):.1f} {y(high):.1f}" stroke="{MUTED}" stroke-dasharray="4 3"/>')
    for p in points:
        spread = "" if p.error is None else f" +- {p.error:.3f}"
        tip = f"<title>value {p.decoded:.3f}, earned {p.realised:.3f}{spread}, {p.count} decisions</title>"
        whisker = "" if p.error is None else f'<path d="M{x(p.decoded):.1f} {y(p.realised - 2 * p.error):.1f}V'
        whisker += "" if p.error is None else f'{y(p.realised + 2 * p.error):.1f}" stroke="{INK}" stroke-width="1.2"/>'
        radius = 2 + 4 * math.sqrt(p.count / most)
        dot = f'<circle cx="{x(p.decoded):.1f}" cy="{y(p.realised):.1f}" r="{radius:.1f}" fill="{CHOSEN}" fill-opacity="0.75"/>'
        parts.append(f"<g>{tip}{whisker}{dot}</g>")
    return _open(_SIDE, _SIDE + 8, f"calibration, {name}", parts)


def stages_panel(stages: Sequence[tuple[str, float]], title: str) -> str:
    """A bar for each stage of a program: its name and the share (0..1) of rollouts that reached it."""
    line, width, text = 15, 260, 92
    parts = []
    for i, (name, share) in enumerate(stages):
        y, long = i * line, (width - text - 44) * min(max(share, 0.0), 1.0)
        parts.append(svg_text(text - 6, y + 11, name if len(name) < 15 else name[:13] + "…", size=11, fill=INK, anchor="end"))
        parts.append(f'<rect x="{text}" y="{y + 2}" width="{width - text - 44}" height="10" rx="2" fill="#f3f4f6"/>')
        parts.append(f'<rect x="{text}" y="{y + 2}" width="{max(long, 1):.1f}" height="10" rx="2" fill="{CHOSEN}"/>')
        parts.append(svg_text(width - 38, y + 11, f"{share:.0%}", size=11, fill=MUTED))
    height = line * len(stages) + 2
    return (
        f'<svg class="stages" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )
