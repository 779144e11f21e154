"""What the scale doctor finds in a stage: into the log for the report, and before the eyes of whoever watches."""

from __future__ import annotations

import dataclasses

from coda_jax.evaluation.terminal import warning_line
from coda_jax.learning.scale_doctor import Measured, examine
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
