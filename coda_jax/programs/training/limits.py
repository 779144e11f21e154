"""Limits of training programs: what the critic's input depends on, and the ranges of the learning tools."""

from __future__ import annotations

MAX_STAGES = 4
"""Subgoals of one training program, at most."""

CODE_DIM = 68
"""Length of a program's code: per stage one flag and one switch per helper (13), then 16 signs."""

# low, high. A quarter of each batch stays demonstrations whatever a program says, and something else is always left.
TOOL_RANGES: dict[str, tuple[float, float]] = {
    "demo_share": (0.25, 0.9),
    "replay_share": (0.0, 0.5),
    "sampling_weight": (0.25, 4.0),
    "candidate_temperature": (0.05, 5.0),
}
DENSE_WEIGHT = (0.0001, 0.01)
"""Range of a dense reward's weight: at 0.99 a control step, the largest discounted sum of a reward in 0..1 is 100 times the weight."""
