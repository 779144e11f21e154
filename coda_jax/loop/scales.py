"""What the scale doctor finds in a stage: into the log for the report, and before the eyes of whoever watches."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from coda_jax.evaluation.metrics import METRICS, read_metrics
from coda_jax.evaluation.terminal import warning_line
from coda_jax.learning.scale_doctor import Measured, examine, gradient_scales, joined
from coda_jax.loop.run import Run


def report(run: Run, part: str, round_number: int, measured: Measured) -> None:
    """Write a ``doctor`` row of what ``part`` of a round measured, and print its warnings; nothing where nothing was measured."""
    numbers = measured.numbers()
    if not numbers:
        return
    warnings = examine(measured)
    for warning in warnings:
        run.say(warning_line(f"round {round_number}, {part}", warning))
    run.metrics.write(
        "doctor", round=round_number, part=part, measured=numbers, warnings=[dataclasses.asdict(warning) for warning in warnings]
    )


def updates(run: Run, name: str, first: int, until: int) -> list[dict[str, float]]:
    """Numbers of the committed ``train`` rows of a network's updates in (first, until], those of a process that was killed too."""
    rows = [r for r in read_metrics(run.folder / METRICS) if r["kind"] == "train" and r.get("name") == name and first < r["step"] <= until]
    return [{k: math.nan if v is None else v for k, v in r.items() if k not in ("kind", "name")} for r in rows]


def of_critic(rows: Sequence[dict[str, float]], clip_norm: float) -> Measured:
    """Targets over all of a round's updates, probabilities after the last ones, gradients."""
    if not rows:
        return Measured()
    clipped, at_ends = (sum(r[name] for r in rows) / len(rows) for name in ("clip_share", "at_ends"))
    gradients = gradient_scales("critic", [r["gradient_norm"] for r in rows], clip_norm)
    return joined([Measured(clipped=clipped, at_ends=at_ends, edge_mass=rows[-1]["edge_mass"]), gradients])


def of_policy(rows: Sequence[dict[str, float]], clip_norm: float) -> Measured:
    """Gradients of a block of updates, and how far it has gone from the clone."""
    if not rows:
        return Measured()
    return joined([gradient_scales("policy", [r["gradient_norm"] for r in rows], clip_norm), Measured(drift=rows[-1]["drift"] ** 0.5)])
