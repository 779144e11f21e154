"""Putting the page together."""

from __future__ import annotations

from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from coda_jax.evaluation.metrics import atomic_write
from coda_jax.evaluation.report import sections
from coda_jax.evaluation.report.data import HELD_OUT, RunData, load, pooled

REPORT = "report.html"


def write_report(run_folder: Path) -> Path:
    """Write ``report.html`` from what the run folder holds: one file, no script, no network. Returns its path.

    Sections without data are left out, so a run that stopped early still gets its page.

    Raises:
      InputError: summary.json is missing, or a file does not follow its schema; the message names file and field.
    """
    run = load(Path(run_folder))
    template = Template(resources.files("coda_jax.evaluation.report").joinpath("template.html").read_text("utf-8"))
    families = ", ".join(run.summary.suites) or "no suites evaluated"
    page = template.substitute(
        title=escape(f"{run.folder.resolve().name}: {families}"),
        subtitle=escape(_subtitle(run)),
        headline=escape(_headline(run)),
        tiles=sections.tiles(run),
        sections="\n".join(filter(None, (section(run) for section in sections.SECTIONS))),
        footer="Self-contained page; the numbers behind it are in summary.json, metrics.jsonl and episodes/ of the run folder.",
    )
    path = run.folder / REPORT
    # text of a program may hold lone surrogates, which UTF-8 cannot carry
    atomic_write(path, page.encode("utf-8", errors="replace"))
    return path


def _subtitle(run: RunData) -> str:
    splits = sorted({r.split for r in run.records})
    parts = [f"seed {run.summary.seed}"]
    if splits:
        parts.append(f"{' and '.join(splits)} split")
    return ", ".join(parts)


def _headline(run: RunData) -> str:
    """One sentence with the run's result."""
    after, before = pooled(run.summary, HELD_OUT, "after"), pooled(run.summary, HELD_OUT, "before")
    if after.n and before.n:
        return (
            f"Held-out success went from {sections.percent(before)} ({before.k}/{before.n}) to {sections.percent(after)} "
            f"({after.k}/{after.n}, 95 % interval {sections.interval_text(after)})."
        )
    total = after if after.n else before
    if total.n:
        in_distribution = pooled(run.summary, ("id",), "after" if after.n else "before")
        inside = f", against {sections.percent(in_distribution)} in distribution" if in_distribution.n else ""
        return f"The policy solves {sections.percent(total)} of the held-out scenes ({total.k}/{total.n}){inside}."
    return "No held-out suite has been evaluated yet."
