"""Putting the page together."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from coda_jax.evaluation.comparison import pooled_change
from coda_jax.evaluation.metrics import atomic_write
from coda_jax.evaluation.report import markup, sections
from coda_jax.evaluation.report.cost import costs
from coda_jax.evaluation.report.critic import critic
from coda_jax.evaluation.report.data import HELD_OUT, IN_DISTRIBUTION, RunData, load, pooled
from coda_jax.evaluation.report.environments import environments
from coda_jax.evaluation.report.gallery import gallery
from coda_jax.evaluation.report.language import language_model
from coda_jax.evaluation.report.libero import libero
from coda_jax.evaluation.report.modes import modes
from coda_jax.evaluation.report.potentials import potentials
from coda_jax.evaluation.report.rounds import diagnoses, rounds
from coda_jax.evaluation.report.scales import scales

REPORT = "report.html"
_HEADING = re.compile(r'<section id="([^"]*)"><h2>([^<]*)</h2>')
# the answer first, then how it came about, then what it cost
SECTIONS: tuple[Callable[[RunData], str], ...] = (
    sections.suites,
    libero,
    rounds,
    modes,
    diagnoses,
    environments,
    potentials,
    critic,
    scales,
    sections.failures,
    sections.films,
    gallery,
    language_model,
    costs,
    sections.planner,
    sections.training,
    sections.configuration,
)


def write_report(run_folder: Path) -> Path:
    """Write ``report.html`` from what the run folder holds: one file, no script, no network. Returns its path.

    Sections without data are left out, so a run that stopped early still gets its page.

    Raises:
      InputError: summary.json is missing, or a file does not follow its schema; the message names file and field.
    """
    run = load(Path(run_folder))
    template = Template(resources.files("coda_jax.evaluation.report").joinpath("template.html").read_text("utf-8"))
    families = ", ".join(run.summary.suites) or "no suites evaluated"
    body = [text for text in (section(run) for section in SECTIONS) if text]
    page = template.substitute(
        title=escape(f"{run.folder.resolve().name}: {families}"),
        subtitle=escape(_subtitle(run)),
        headline=escape(_headline(run)),
        tiles=sections.tiles(run),
        contents=_contents(body),
        sections="\n".join(body),
        footer="Self-contained page; the numbers behind it are in summary.json, metrics.jsonl and episodes/ of the run folder.",
    )
    path = run.folder / REPORT
    # text of a program may hold lone surrogates, which UTF-8 cannot carry
    atomic_write(path, page.encode("utf-8", errors="replace"))
    return path


def _contents(body: Sequence[str]) -> str:
    """Links to the sections, whose headings are ours."""
    found = [(match[1], match[2]) for text in body if (match := _HEADING.match(text))]
    return "<nav>" + " ".join(f'<a href="#{name}">{title}</a>' for name, title in found) + "</nav>" if len(found) > 3 else ""


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
            f"Held-out success went from {markup.percent(before)} ({before.k}/{before.n}) to {markup.percent(after)} "
            f"({after.k}/{after.n}, 95 % interval {markup.interval_text(after)})." + _paired(run)
        )
    total = after if after.n else before
    if total.n:
        in_distribution = pooled(run.summary, IN_DISTRIBUTION, "after" if after.n else "before")
        inside = f", against {markup.percent(in_distribution)} in distribution" if in_distribution.n else ""
        return f"The policy solves {markup.percent(total)} of the held-out scenes ({total.k}/{total.n}){inside}."
    return "No held-out suite has been evaluated yet."


def _paired(run: RunData) -> str:
    found = pooled_change(run.records, run.split, HELD_OUT) if run.split is not None else None
    if found is None:
        return ""
    sure = "" if found.low <= 0 <= found.high else ", more than chance in scenes and rollouts explains"
    return (
        f" Scene by scene that is {100 * found.mean:+.0f} points (95 % interval {100 * found.low:+.0f} to {100 * found.high:+.0f}){sure}."
    )
