"""What the experiment is made of: arms, and how much of everything."""

from __future__ import annotations

import dataclasses
import sys

# settings that differ from the default
ARMS: dict[str, dict[str, str]] = {
    "full": {},
    "sparse": {"potential.signal": "sparse"},
    "task_text": {"potential.signal": "task_text", "potential.refine": "false"},
    "frozen": {"awr.improve": "frozen"},
    "filtered": {"awr.improve": "filtered", "potential.signal": "sparse"},
    "demonstrations": {"awr.improve": "filtered", "potential.signal": "sparse", "awr.shares": "1.0,0.0,0.0,0.0"},
    "trajectory": {"awr.advantage": "trajectory"},
    "sparse_trajectory": {"awr.advantage": "trajectory", "potential.signal": "sparse"},
    "no_refinement": {"potential.refine": "false"},
    "free_form": {"potential.signal": "free_form"},
}
MAIN = ("full", "sparse", "trajectory", "task_text", "frozen", "filtered", "demonstrations")
MIDWAY = 25  # scenes of each suite that are rolled out between iterations
EVALUATED = 4  # fresh rollouts of each scene of the set
WANTED = 0.05  # gain of success on validation to which updates are counted


@dataclasses.dataclass(frozen=True)
class Plan:
    """rollouts: of each scene in each of the ``iterations``, each of which ends with ``updates`` of the policy."""

    scenes: int
    rollouts: int
    iterations: int
    updates: int


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
