"""What an inspector may say of a failed execution: remarks in a closed vocabulary, each measured."""

from __future__ import annotations

import dataclasses
import math
from typing import Protocol

from coda_jax.sim.demonstrate import Trajectory

# kind: unit of its amount, and what the amount is
KINDS: dict[str, tuple[str, str]] = {
    "no_plan": ("", "the planner saw no way; the message says why"),
    "diverged": ("", "the simulation diverged"),
    "toppled": ("m", "it came to lie before it was held, not by what is carried: horizontal distance of grip point and object"),
    "bumped": ("m", "something that is not to be moved was pushed: by how much"),
    "missed": ("m", "the jaws closed without it: distance of grip point and object"),
    "slipped": ("m/s", "it was lost on the way: speed of the hand"),
    "swung": ("rad", "it turned in the jaws: by how much"),
    "collided": ("m", "what is held touched something on the way: how far that reaches above what is held"),
    "blocked": ("m", "the hand came no further: distance that was left to where the skill leads"),
    "dropped": ("m", "it fell after the release: how deep"),
    "tipped": ("rad", "it tipped over after the release: by how much"),
    "rolled": ("m", "it went away after the release: how far"),
    "misplaced": ("m", "it rests where it was put, and the goal is not met: horizontal distance to the reference"),
    "goal_lost": ("steps", "the goal was met, and then no longer: for how long it was"),
    "undone": ("m", "what an earlier goal had placed was moved again: by how much"),
    "handle_slipped": ("share", "the handle was lost: share of the joint's range that was left"),
    "joint_stuck": ("share", "the joint no longer moved: share of its range that was left"),
    "joint_crept": ("share", "the joint moved after the release: share of its range"),
    "out_of_reach": ("m", "it ended where the hand does not come: how far beyond"),
    "late": ("share", "time ran out: share of it that went into the skill"),
    "gave_up": ("", "the planner ended the try; nothing else was seen"),
}


@dataclasses.dataclass(frozen=True)
class Remark:
    """One thing that went wrong.

    step: control step. skill: what the planner was doing. kind: one of KINDS. object: id of what it happened to, "" for none. amount: in
    ``unit``. by: what did it, an object's id, "left finger", "right finger", "both fingers", "hand", or "". message: for people.

    Raises:
      ValueError: an unknown kind, another unit than the kind's, or an amount that is none.
    """

    step: int
    skill: str
    kind: str
    object: str
    amount: float
    unit: str
    message: str
    by: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"no remark is called {self.kind!r}: use {', '.join(KINDS)}")
        if self.unit != KINDS[self.kind][0]:
            raise ValueError(f"{self.kind} is measured in {KINDS[self.kind][0] or 'nothing'}, not in {self.unit or 'nothing'}")
        if not (math.isfinite(self.amount) and self.amount >= 0):
            raise ValueError(f"the amount of {self.kind} is {self.amount}: use a finite number from 0, 0 where nothing is measured")


@dataclasses.dataclass(frozen=True)
class Critique:
    """Everything that was remarked of one execution, in the order of its control steps, or of its weight where an inspector ranks it.

    Raises:
      ValueError: nothing is remarked.
    """

    remarks: tuple[Remark, ...]

    def __post_init__(self) -> None:
        if not self.remarks:
            raise ValueError("a critique without a remark: say gave_up where nothing else was seen")

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the remarks, each once, in order."""
        return tuple(dict.fromkeys(r.kind for r in self.remarks))


class Inspector(Protocol):
    """Looks at a failed execution. A language model can take this place: all that it may say are remarks."""

    def inspect(self, trajectory: Trajectory) -> Critique:
        """The critique of a failed execution, with at least one remark."""
        ...
