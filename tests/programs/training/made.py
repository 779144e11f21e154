"""Programs, demonstrations and small values for tests of training programs."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from coda_jax import config as settings
from coda_jax.loop.check_training import TrainingCheck
from coda_jax.programs.expressions import Expr
from coda_jax.programs.limits import Limits
from coda_jax.programs.training.gates import Demonstrated
from coda_jax.programs.training.program import Subgoal, TrainingProgram
from coda_jax.programs.training.vocabulary import SUCCESS
from coda_jax.types import WorldView

LIMITS = Limits(text_bytes=32768, time_s=1.0, grace_s=1.0, memory_bytes=32 << 20, recursion=100, output_chars=1000, reply_chars=65536)

# What a textbook writes: every stage but the last is lost by the time that the target is put down and let go.
TEXTBOOK = """
held = at_least(grasped("target"), 1)
up = at_least(lifted("target"), 0.04)
apart = horizontal_distance("target", "reference")
result = training(
    subgoal("grasped", done=held, progress=ramp(distance("gripper", "target"), 0.3, 0.02)),
    subgoal("lifted", done=all_of(held, up), progress=ramp(lifted("target"), 0, 0.04)),
    subgoal("over", done=all_of(held, up, at_most(apart, 0.16)), progress=ramp(apart, 0.35, 0.16)),
    subgoal("placed", done=success(), progress=ramp(gripper_opening(), 0.02, 0.08)),
    tools(demo_share=0.4, start_states=True),
)
"""


def e(op: str, *args: Any) -> Expr:
    return Expr(op, args)


def simple(*dones: Expr) -> TrainingProgram:
    """Subgoals with the given conditions, then success; progress is the gripper's opening."""
    opening = e("ramp", e("gripper_opening"), 0.0, 0.08)
    return TrainingProgram(tuple(Subgoal(f"stage_{i}", done, opening) for i, done in enumerate((*dones, SUCCESS))))


@functools.cache
def demonstrations() -> tuple[Demonstrated, ...]:
    """Eight certified demonstrations of training scenes by the planner, of goals on, inside and beside."""
    config = settings.default()
    config.potential.gate_demos = 8
    return tuple(TrainingCheck(config).demonstrations)


def cut(views: WorldView, rows: np.ndarray) -> WorldView:
    """Other moments of an episode."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], views)
