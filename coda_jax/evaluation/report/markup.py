"""Pieces of HTML that several sections share; every text passes ``escape`` here."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from coda_jax.evaluation.metrics import Tally
from coda_jax.evaluation.report import charts
from coda_jax.evaluation.statistics import wilson


class Markup(str):
    """Text that is HTML already; whoever makes it has escaped what came from the run."""


def cell(content: str) -> str:
    return content if isinstance(content, Markup) else escape(content)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], numeric: int) -> str:
    """An HTML table of text cells (``Markup`` is taken as it is), the columns from index ``numeric`` on aligned right."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(f"<{tag}{' class=n' if i >= numeric else ''}>{cell(c)}</{tag}>" for i, c in enumerate(row))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells('th', header)}</tr></thead><tbody>{body}</tbody></table>"


def anchor(title: str) -> str:
    """Name of a section in links of the page."""
    return "".join(c if c.isalnum() else "-" for c in title.lower())


def section(title: str, note: str, body: str) -> str:
    """A section with a heading, which the page's contents link to; "" without a body. title: ours, never of a run."""
    note_html = f'<p class="note">{escape(note)}</p>' if note else ""
    return f'<section id="{anchor(title)}"><h2>{escape(title)}</h2>{note_html}{body}</section>' if body else ""


def figure(alt: str, sources: Sequence[str], caption: str) -> str:
    """Pictures (data URIs) under each other with one caption, which is HTML."""
    images = "".join(f'<img alt="{escape(alt)}" src="{source}">' for source in sources)
    return f"<figure>{images}<figcaption>{caption}</figcaption></figure>"


def key(names: Sequence[str], colours: Sequence[str]) -> str:
    """What the colours of a chart mean."""
    return (
        '<div class="key">' + "".join(f'<i style="background:{c}"></i>{escape(n)}' for n, c in zip(names, colours, strict=True)) + "</div>"
    )


def percent(tally: Tally) -> str:
    return f"{100 * tally.k / tally.n:.0f} %" if tally.n else "-"


def interval_text(tally: Tally, interval: tuple[float, float] | None = None) -> str:
    low, high = interval or wilson(tally.k, tally.n)
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def points(mean: float, low: float, high: float) -> str:
    """A change of success in points with its interval: "+12 (+2 to +22)"."""
    return f"{signed(mean)} ({signed(low)} to {signed(high)})"


def signed(share: float) -> str:
    """A share in whole points with its sign; never "-0"."""
    return f"{round(100 * share) or 0:+d}"


def bar(label: str, tally: Tally, colour: str, interval: tuple[float, float] | None = None) -> charts.Bar:
    """A bar of a success rate; without an interval it is Wilson's."""
    value = tally.k / tally.n if tally.n else 0.0
    whiskers = interval or (wilson(tally.k, tally.n) if tally.n else None)
    return charts.Bar(label, value, whiskers, f"{tally.k}/{tally.n} = {percent(tally)}", colour)
