"""``--mode=compare``: other runs beside one, suite by suite and scene by scene."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from coda_jax import config as settings
from coda_jax.evaluation.comparison import compare_runs
from coda_jax.evaluation.metrics import read_summary
from coda_jax.evaluation.terminal import duration
from coda_jax.loop import workdir as folders
from coda_jax.runtime import InputError

_HEADER = ("suite", "reference", "run", "difference, points", "95 % interval, paired")


def run(reference: Path, others: Sequence[Path]) -> None:
    """Print, for every other run, what it changes in the configuration and in success against the reference.

    Raises:
      InputError: a folder is no finished run.
    """
    try:
        compared = compare_runs(reference, others)
    except ValueError as error:
        raise InputError(str(error)) from None
    stored = folders.read_config(reference)
    for other, rows in compared.items():
        print(f"{other.name} against {reference.name}: {_wall(other)} against {_wall(reference)}")
        for line in settings.differences(stored, folders.read_config(other)):
            print(f"  {line}")
        if not rows:
            print("  no suite scene was rolled out in both runs")
            continue
        table = Table(*_HEADER, box=None, pad_edge=False)
        for row in rows:
            d = row.difference
            cells = (
                row.suite,
                f"{row.first.k}/{row.first.n}",
                f"{row.second.k}/{row.second.n}",
                f"{100 * d.mean:+.0f}",
                f"{100 * d.low:+.0f} .. {100 * d.high:+.0f}",
            )
            table.add_row(*map(Text, cells))
        Console(width=100, highlight=False).print(table)


def _wall(folder: Path) -> str:
    return duration(read_summary(folder).wall_s)
