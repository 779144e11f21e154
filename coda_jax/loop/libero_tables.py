"""Tables of LIBERO records: ``python -m coda_jax.loop.libero_tables RECORDS.jsonl [OTHER.jsonl]``, in markdown.

One file: k/n with Wilson intervals. Two: what the second gives more, paired by episode; so also the official simulator beside the native
one under the same scripted actions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from coda_jax.evaluation.libero.pairs import Pair, other_settings, pairs
from coda_jax.evaluation.libero.records import Episode, read
from coda_jax.evaluation.libero.totals import Total, kind_of, task_of, totals
from coda_jax.foreign import shown

_SHOWN = 500  # characters of what a record says


def table_of_totals(rows: Sequence[Total], what: str) -> str:
    """Markdown: a line for each row."""
    lines = [[what, "prompt", "k/n", "success (95 %)", "steps of a success", "solved by settling", "simulator errors"]]
    for row in rows:
        steps = "" if row.steps is None else f"{row.steps:.0f}"
        rate = f"{100 * row.k / row.n:.0f} % {_range(row.interval.low, row.interval.high)}" if row.n else ""
        lines.append([row.group, row.source, f"{row.k}/{row.n}", rate, steps, str(row.settled), str(row.errors)])
    return _markdown(lines)


def table_of_pairs(rows: Sequence[Pair]) -> str:
    """Markdown: a line for each row."""
    head = ["suite", "prompt", "first", "second", "second minus first, points (95 %)", "only first, only second", "p", "same steps"]
    lines = [[*head, "end differs by", "simulator errors"]]
    for row in rows:
        d = row.difference if row.n else None
        lines.append(
            [
                row.suite,
                row.source,
                f"{row.first}/{row.n}",
                f"{row.second}/{row.n}",
                "" if d is None else f"{100 * d.mean:+.0f} ({100 * d.low:+.0f} .. {100 * d.high:+.0f})",
                f"{row.only_first}, {row.only_second}",
                f"{row.p:.2g}",
                f"{row.same_steps}/{row.n}",
                "" if row.end_m is None else f"{row.end_m:.1e}",
                str(row.errors),
            ]
        )
    return _markdown(lines)


def described(path: Path, episodes: Sequence[Episode]) -> str:
    """One line: which stack, policy and settings."""
    e = episodes[0]
    versions = shown(", ".join(f"{name} {version}" for name, version in e.versions.items()), _SHOWN)
    ended = f", ended after {e.most_steps} steps at most (for trying out, not to be reported)" if e.most_steps else ""
    return (
        f"{path}: {len(episodes)} episodes, {e.stack} simulator, policy {e.policy[:12]} ({shown(e.observes, _SHOWN)}), seed {e.seed}, "
        f"{e.settle_steps} no-ops first, {e.replan_steps} actions a decision{ended}; {versions}"
    )


def _range(low: float, high: float) -> str:
    return f"({100 * low:.0f} .. {100 * high:.0f})"


def _markdown(lines: Iterable[Sequence[str]]) -> str:
    head, *rest = lines
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in (head, ["---"] * len(head), *rest))


def main(arguments: list[str]) -> int:
    """Run one command line; the exit code is returned."""
    parser = argparse.ArgumentParser(prog="python -m coda_jax.loop.libero_tables", description="Tables of LIBERO records, in markdown.")
    parser.add_argument("records", type=Path, help="file of records")
    parser.add_argument("other", type=Path, nargs="?", help="file of a second run on the same episodes, to be compared")
    parser.add_argument("--tasks", action="store_true", help="also a line for each task")
    given = parser.parse_args(arguments)
    try:
        first = read(given.records)
        print(described(given.records, first))
        if given.other is not None:
            second = read(given.other)
            print(described(given.other, second))
            for line in other_settings(first, second):
                print(f"The runs also differ in {shown(line, _SHOWN)}.")
            print("\n" + table_of_pairs(pairs(first, second)))
            return 0
        print("\n" + table_of_totals(totals(first), "suite"))
        print("\n" + table_of_totals(totals(first, lambda e: kind_of(e.suite)), "perturbation"))
        if given.tasks:
            print("\n" + table_of_totals(totals(first, task_of), "task"))
        for e in first:
            if e.error is not None:
                print(f"simulator error in {e.suite}, {e.name}@{e.init_index}: {shown(e.error, _SHOWN)}")
    except ValueError as error:  # InputError is one
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
