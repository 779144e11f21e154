"""What a person watching a run sees: progress lines and the final table."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from coda_jax.evaluation.metrics import Moment, Summary, Tally
from coda_jax.evaluation.mode_history import ModeHistory, Value
from coda_jax.evaluation.statistics import wilson
from coda_jax.evaluation.wording import cause_in_words
from coda_jax.learning.scale_doctor import ScaleWarning

_MOMENTS: tuple[Moment, ...] = ("before", "after")
CHOSEN_ON_VALIDATION = (
    "The best of many cells looks better than it is: its figure is chosen on these scenes. Fix the choice, then evaluate it once on test."
)


def duration(seconds: float) -> str:
    """``8s``, ``2m05s``, ``1h02m``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def rate_text(per_second: float, unit: str) -> str:
    """A rate in the unit of time that gives a readable number: ``128 steps/s``, ``14.2 demos/min``."""
    value, per = (per_second, "s") if per_second >= 1 else (per_second * 60, "min")
    return f"{value:.0f} {unit}/{per}" if value >= 100 else f"{value:.3g} {unit}/{per}"


class Progress:
    """Progress of one long stage: label, done of total, rate, time left, and the latest notes.

    On a terminal one line is redrawn; elsewhere a plain line is printed at most every ``interval_s`` seconds, and one at the end.
    Use as a context manager; a stage that raises leaves its last state on the screen, one of no units leaves nothing.

    Args:
      label: the stage. total: number of units, or None where it is unknown. unit: plural, e.g. "demos".
      even: whether units take about the same time; where they do not, what is done tells neither a rate nor the time left.
      stream: default stderr. interval_s: between plain lines. clock: seconds, monotonic.
    """

    def __init__(
        self,
        label: str,
        total: int | None,
        unit: str = "items",
        *,
        even: bool = True,
        stream: TextIO | None = None,
        interval_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.label, self.total, self.unit, self._even = label, total, unit, even
        self.done = self._skipped = 0
        self._stream = stream or sys.stderr
        self._clock = clock
        self._live = self._stream.isatty()
        self._interval_s = 0.1 if self._live else interval_s
        self._notes: dict[str, Any] = {}
        self._start = self._last = clock()

    def advance(self, amount: int = 1, **notes: Any) -> None:
        """``amount`` more units are done; ``notes`` (e.g. loss=0.12) are shown until they change."""
        self.update(self.done + amount, **notes)

    def update(self, done: int, **notes: Any) -> None:
        """Set the number of finished units."""
        self.done = done
        self._notes.update(notes)
        now = self._clock()
        finished = done == self.total and not self._live  # the last line says it
        if now - self._last >= self._interval_s and not finished:
            self._last = now
            self._print(self.line(), last=False)

    def skip(self, done: int) -> None:
        """Set the number of finished units; those that this adds were finished by an earlier process and do not count for the rate."""
        self._skipped += done - self.done
        self.done = done

    def line(self) -> str:
        """The current line, without a newline."""
        elapsed = self._clock() - self._start
        parts = [f"{self.label}: {self.done:,}" + (f"/{self.total:,} {self.unit}" if self.total is not None else f" {self.unit}")]
        if self.total:
            parts[0] += f" ({100 * self.done / self.total:.0f}%)"
        if self._even and self.done > self._skipped and elapsed > 0:
            rate = (self.done - self._skipped) / elapsed
            parts.append(rate_text(rate, self.unit))
            if self.total is not None and self.done < self.total:
                parts.append(f"{duration((self.total - self.done) / rate)} left")
        parts += [f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in self._notes.items()]
        return ", ".join(parts)

    def __enter__(self) -> Progress:
        self._start = self._last = self._clock()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.total == 0 and not self.done:
            return
        state = "" if kind is None else " [stopped]"
        self._print(f"{self.line()}, {duration(self._clock() - self._start)} in all{state}", last=True)

    def _print(self, text: str, last: bool) -> None:
        if self._live:
            # a line longer than the window would wrap and could not be redrawn
            width = Console(file=self._stream).width - 1
            self._stream.write("\r\x1b[K" + text[:width] + ("\n" if last else ""))
        else:
            self._stream.write(text + "\n")
        self._stream.flush()


def interject(text: str, stream: TextIO | None = None) -> None:
    """Print a line while a Progress is open: on a terminal it takes the place of the line that is redrawn, which comes again below."""
    out = stream or sys.stderr
    out.write(("\r\x1b[K" if out.isatty() else "") + text + "\n")
    out.flush()


def suite_rows(suites: Mapping[str, Mapping[str, Mapping[Moment, Tally]]]) -> list[tuple[str, str, str, str, str, str]]:
    """Rows (family, suite, moment, k/n, percent, 95 % Wilson interval) of the final table."""
    rows = []
    for family, by_suite in suites.items():
        for suite, moments in by_suite.items():
            for moment in _MOMENTS:
                t = moments.get(moment)
                if t is None:
                    continue
                low, high = wilson(t.k, t.n)
                percent = f"{100 * t.k / t.n:.0f} %" if t.n else "-"
                rows.append((family, suite, moment, f"{t.k}/{t.n}", percent, f"{100 * low:.0f} .. {100 * high:.0f} %"))
    return rows


def print_suites(
    suites: Mapping[str, Mapping[str, Mapping[Moment, Tally]]], *, title: str = "Success by suite", stream: TextIO | None = None
) -> None:
    """Print the final table: boxed on a terminal, aligned plain lines elsewhere."""
    header = ("family", "suite", "moment", "k/n", "success", "95 % interval")
    print_table(header, suite_rows(suites), title, texts=3, stream=stream)


def mode_rows(modes: Sequence[ModeHistory], most: int = 12) -> list[tuple[str, str, str, str, str]]:
    """Rows (factor, phase, cause, verdict, Learning Values of its rounds in points) of modes that were tested or practised."""

    def points(value: Value) -> str:
        low_high = "" if value.interval is None else " ({:+.0f}..{:+.0f})".format(*(100 * limit for limit in value.interval))
        return f"{100 * value.gain:+.0f}{low_high}"

    studied = [m for m in modes if m.tests or m.values][:most]
    return [
        (m.factor, m.phase, cause_in_words(m.factor, m.cause), m.verdict or "-", ", ".join(map(points, m.values)) or "-") for m in studied
    ]


def print_modes(modes: Sequence[ModeHistory], *, stream: TextIO | None = None) -> None:
    """Print what the rounds found out about difficulty modes; nothing where none was tested."""
    rows = mode_rows(modes)
    if not rows:
        return
    header = ("factor", "phase", "cause", "verdict", "Learning Value")
    title = f"Difficulty modes that were tested, of {len(modes)} known; Learning Value of each round in points of success (95 %)"
    print_table(header, rows, title, texts=4, stream=stream)


def round_rows(summary: Summary) -> list[tuple[str, str, str, str, str]]:
    """Rows (round, targeting, coverage in bits, valid as proposed, valid after repairs) of the finished rounds."""

    def share(k: int, n: int) -> str:
        return f"{k}/{n} {100 * k / n:.0f} %" if n else "-"

    rows = []
    for i, (t, c, v) in enumerate(zip(summary.targeting, summary.coverage, summary.verification, strict=True), 1):
        targeting = "-" if t.share is None else f"{100 * t.share:.0f} %"
        rows.append((str(i), targeting, "-" if c.bits is None else f"{c.bits:.2f}", share(v.first, v.proposed), share(v.valid, v.proposed)))
    return rows


def print_rounds(summary: Summary, *, stream: TextIO | None = None) -> None:
    """Print how the scenes of each round were chosen and built; nothing without a round."""
    rows = round_rows(summary)
    if not rows:
        return
    header = ("round", "targeting", "coverage, bits", "valid as proposed", "after repairs")
    whole = summary.run_coverage
    shown = f"; coverage of all rounds {whole.bits:.2f} bits" if whole is not None and whole.bits is not None else ""
    print_table(header, rows, f"Scenes of the rounds{shown}", texts=1, stream=stream)


def warning_line(where: str, warning: ScaleWarning) -> str:
    """ "round 2, policy: scale warning: ESS is 0.998 of n: ..."."""
    return f"{where}: scale warning: {warning.text}"


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], title: str, *, texts: int, stream: TextIO | None = None, most: int = 60
) -> None:
    """A table, boxed on a terminal, aligned plain lines elsewhere; the first ``texts`` columns are text, the others numbers.

    most: characters of a cell. Cells may be hostile: control characters are blanks, and nothing is read as markup.
    """
    out = stream or sys.stdout
    rows = [["".join(c if c.isprintable() else " " for c in cell[:most]) for cell in row] for row in rows]
    if out.isatty():
        table = Table(title=Text(title), title_justify="left")
        for i, name in enumerate(header):
            table.add_column(name, justify="left" if i < texts else "right")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))  # Text: names are data, never markup
        Console(file=out).print(table)
        return
    widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]
    out.write(title + "\n")
    for line in [header, *rows]:
        cells = [cell.ljust(w) if i < texts else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))]
        out.write("  ".join(cells).rstrip() + "\n")
    out.flush()
