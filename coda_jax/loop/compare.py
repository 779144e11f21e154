"""``--mode=compare``: other runs or evaluations beside one, suite by suite and scene by scene."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from coda_jax import config as settings
from coda_jax.evaluation import diagnosers
from coda_jax.evaluation.comparison import compare_runs
from coda_jax.evaluation.metrics import SUMMARY, Summary, read_summary
from coda_jax.evaluation.terminal import duration
from coda_jax.loop import agreement
from coda_jax.loop import workdir as folders
from coda_jax.runtime import InputError

_HEADER = ("suite", "reference", "run", "difference, points", "95 % interval, paired")


def run(reference: Path, others: Sequence[Path]) -> None:
    """Print, for every other folder, what it changes in the configuration and in success against the reference.

    A folder is a run, or one that ``--mode=evaluate`` wrote: RUN/evaluations/NAME, whose name says its ``evaluate`` settings.

    Raises:
      InputError: a folder is neither, or the run is not finished.
    """
    runs = {folder: run_of(folder) for folder in (reference, *others)}
    try:
        compared = compare_runs(reference, others)
    except ValueError as error:
        raise InputError(str(error)) from None
    stored = folders.read_config(runs[reference])
    for other, rows in compared.items():
        evaluated_apart = other != runs[other] or reference != runs[reference]
        print(f"{_name(other)} against {_name(reference)}: {_wall(other)} against {_wall(reference)}")
        for line in settings.differences(stored, folders.read_config(runs[other])):
            if not (evaluated_apart and line.startswith("evaluate.")):  # the names say them
                print(f"  {line}")
        if not rows:
            print("  no suite scene was rolled out in both (of another split, other suites or other seeds?)")
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
    _print_diagnosers(runs)


def _print_diagnosers(runs: Mapping[Path, Path]) -> None:
    """The table of who diagnoses, where that differs. runs: folder to the run that it is, or is an evaluation of."""
    kinds = {folder: settings.agent_kind(folders.read_config(run), "diagnoser") for folder, run in runs.items()}
    if len(set(kinds.values())) < 2:
        return
    agreements = {folder: agreement.current(run) for folder, run in runs.items()}
    arms = [diagnosers.arm_of(_name(folder), kind, _summary(folder, runs[folder]), agreements[folder]) for folder, kind in kinds.items()]
    table = Table(*diagnosers.HEADER, box=None, pad_edge=False)
    for row in diagnosers.rows(arms):
        table.add_row(*map(Text, row))
    print("who diagnoses (success: 95 % over rollouts; agreement of factor and phase with two annotators)")
    Console(width=190, highlight=False).print(table)
    for folder, run in runs.items():
        if agreements[folder] is None and (run / agreement.NAME).exists():
            print(
                f"{_name(folder)}: {agreement.NAME} is not of its last control tests; write it anew with --mode=agreement --workdir={run}"
            )


def _summary(folder: Path, run: Path) -> Summary:
    """Of the run, with the success of the evaluation where the folder is one."""
    own = read_summary(run)
    return own if folder == run else dataclasses.replace(own, suites=read_summary(folder).suites)


def run_of(folder: Path) -> Path:
    """The run that a folder is, or whose policy was evaluated in it.

    Raises:
      InputError: it is neither; the message says what there is.
    """
    place = _place(folder)
    if place.parent.name == folders.EVALUATIONS and (folder / SUMMARY).exists():
        return place.parent.parent
    if place.name == folders.EVALUATIONS and folder.is_dir():
        found = sorted(str(path.parent) for path in folder.glob(f"*/{SUMMARY}"))
        raise InputError(f"{folder} holds evaluations; name one of them: {', '.join(found) or 'none is finished'}")
    if not (folder / folders.CONFIG_FILE).exists():
        raise InputError(
            f"{folder} is no run: --workdir and --against take folders of finished runs, such as runs/NAME, or of their evaluations, "
            f"such as runs/NAME/{folders.EVALUATIONS}/test-e4"
        )
    return folder


def _place(folder: Path) -> Path:
    """The whole path: "." and ".." have no names."""
    return Path(os.path.abspath(folder))


def _name(folder: Path) -> str:
    place, owner = _place(folder), run_of(folder)
    return place.name if owner == folder else f"{owner.name}/{folders.EVALUATIONS}/{place.name}"


def _wall(folder: Path) -> str:
    return duration(read_summary(folder).wall_s)
