"""What can go wrong while a joint is moved."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from coda_jax.scenes import openings
from coda_jax.sim.supervision.record import Record, runs_of
from coda_jax.sim.supervision.remarks import KINDS, Remark
from coda_jax.types import ARTICULATED_TOKEN

_CREPT_SHARE = 0.01


@dataclasses.dataclass(frozen=True)
class Motion:
    """How a joint was moved in ``t`` control steps.

    name: of its thing. aim: share of the range that it was to be brought to. skills: [t] str. share: [t + 1] of the range. held: [t + 1]
    bool, both fingers touch it. off_m: [t + 1] distance of the grip point from its middle.
    """

    name: str
    aim: float
    skills: np.ndarray
    share: np.ndarray
    held: np.ndarray
    off_m: np.ndarray

    def remark(self, step: int, kind: str, amount: float, message: str, by: str = "") -> Remark:
        """A remark about the thing at a control step, with the skill of that step."""
        step = min(max(step, 0), len(self.skills) - 1)
        return Remark(step, str(self.skills[step]), kind, self.name, round(float(amount), 4), KINDS[kind][0], message, by)


def joints(record: Record) -> Iterator[Remark]:
    """What went wrong with the joint of a record."""
    name = record.targets[0]
    held = np.asarray(record.views.finger_contact[:, ARTICULATED_TOKEN].all(1))
    off = np.linalg.norm(record.ee - record.position(name), axis=1)
    yield from moved(Motion(name, openings.aim(record.goals[0].relation), record.skills, _shares(record), held, off))


def moved(motion: Motion) -> Iterator[Remark]:
    """Handles that were missed or lost, joints that stood still, and joints that moved on when they were let go."""
    share, aim, name, held = motion.share, motion.aim, motion.name, motion.held
    runs = runs_of(motion.skills)
    for i, (skill, first, end) in enumerate(runs):
        after = runs[i + 1][0] if i + 1 < len(runs) else ""
        left = abs(aim - float(share[end]))
        if skill == "grasp" and after in ("approach", "failed"):
            off = float(motion.off_m[end])
            yield motion.remark(end - 1, "missed", off, f"the jaws closed without the handle of {name}, {off:.3f} m from its middle")
        elif skill == "move" and after in ("approach", "failed", ""):
            if held[max(end - 3, first) : end + 1].any():
                text = f"the joint of {name} stood still at {share[end]:.2f} of its range, {left:.2f} before the aim"
                yield motion.remark(end - 1, "joint_stuck", left, text, "both fingers")
            else:
                text = f"the handle of {name} was lost at {share[end]:.2f} of its range, {left:.2f} before the aim"
                yield motion.remark(end - 1, "handle_slipped", left, text)
        elif skill == "retreat" and after in ("approach", "failed", ""):
            start = next((a for s, a, _ in reversed(runs[:i]) if s == "release"), first)
            crept = float(share[end] - share[start])
            if abs(crept) > _CREPT_SHARE:
                text = f"the joint of {name} went from {share[start]:.2f} to {share[end]:.2f} of its range after it was let go"
                yield motion.remark(first, "joint_crept", abs(crept), text)


def _shares(record: Record) -> np.ndarray:
    """[t + 1] of the joint's range."""
    low, high = record.views.articulation_range[0, ARTICULATED_TOKEN]
    return (np.asarray(record.views.articulation[:, ARTICULATED_TOKEN], float) - low) / max(float(high - low), 1e-9)
