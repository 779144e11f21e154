"""What can go wrong while a joint is moved."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coda_jax.scenes import openings
from coda_jax.sim.supervision.events import remark
from coda_jax.sim.supervision.record import Record
from coda_jax.sim.supervision.remarks import Remark
from coda_jax.types import ARTICULATED_TOKEN

_CREPT_SHARE = 0.01


def joints(record: Record) -> Iterator[Remark]:
    """Handles that were missed or lost, joints that stood still, and joints that moved on when they were let go."""
    share, aim, name = _shares(record), openings.aim(record.goals[0].relation), record.targets[0]
    held = np.asarray(record.views.finger_contact[:, ARTICULATED_TOKEN].all(1))
    runs = record.runs()
    for i, (skill, first, end) in enumerate(runs):
        after = runs[i + 1][0] if i + 1 < len(runs) else ""
        left = abs(aim - float(share[end]))
        if skill == "grasp" and after in ("approach", "failed"):
            off = float(np.linalg.norm(record.ee[end] - record.position(name)[end]))
            yield remark(record, end - 1, "missed", name, off, f"the jaws closed without the handle of {name}, {off:.3f} m from its middle")
        elif skill == "move" and after in ("approach", "failed", ""):
            if held[max(end - 3, first) : end + 1].any():
                text = f"the joint of {name} stood still at {share[end]:.2f} of its range, {left:.2f} before the aim"
                yield remark(record, end - 1, "joint_stuck", name, left, text, "both fingers")
            else:
                text = f"the handle of {name} was lost at {share[end]:.2f} of its range, {left:.2f} before the aim"
                yield remark(record, end - 1, "handle_slipped", name, left, text)
        elif skill == "retreat" and after in ("approach", "failed", ""):
            start = next((a for s, a, _ in reversed(runs[:i]) if s == "release"), first)
            crept = float(share[end] - share[start])
            if abs(crept) > _CREPT_SHARE:
                text = f"the joint of {name} went from {share[start]:.2f} to {share[end]:.2f} of its range after it was let go"
                yield remark(record, first, "joint_crept", name, abs(crept), text)


def _shares(record: Record) -> np.ndarray:
    """[t + 1] of the joint's range."""
    low, high = record.views.articulation_range[0, ARTICULATED_TOKEN]
    return (np.asarray(record.views.articulation[:, ARTICULATED_TOKEN], float) - low) / max(float(high - low), 1e-9)
