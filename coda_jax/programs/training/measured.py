"""How far rollouts come under a potential: the share that reaches each stage, and the quantity on which the others stop."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from coda_jax.programs import expressions
from coda_jax.programs.expressions import Expr
from coda_jax.programs.training.binding import Scene, resolved
from coda_jax.programs.training.program import TrainingProgram
from coda_jax.programs.training.values import blocks, placed_table, staged, tables, values
from coda_jax.types import WorldView

QUANTILES = (0.1, 0.5, 0.9)


@dataclasses.dataclass(frozen=True)
class MeasuredProgress:
    """reached: share of rollouts that came to each of the m stages. stalled: number from 0 of the subgoal at which most stopped, None where
    all succeeded. entry: median of its quantity where they entered the stage. best: QUANTILES, the worst first, of the best value that each
    of them reached in it; both None where the subgoal's progress holds no ramp."""

    rollouts: int
    reached: tuple[float, ...]
    stalled: int | None
    entry: float | None
    best: tuple[float, float, float] | None

    @property
    def stopped(self) -> float:
        """Share of all rollouts that stopped at the stalled subgoal."""
        if self.stalled is None:
            return 0.0
        before = self.reached[self.stalled - 1] if self.stalled else 1.0
        return before - self.reached[self.stalled]


def first_ramp(expr: Expr) -> Expr | None:
    """The first ramp of an expression in reading order."""
    if expr.op == "ramp":
        return expr
    return next((found for a in expr.args if isinstance(a, Expr) and (found := first_ramp(a)) is not None), None)


def rising(ramp: Expr) -> bool:
    """Whether larger values are more progress."""
    low, high = (float(a) for a in ramp.args[1:] if isinstance(a, (int, float)))
    return high > low


def measure(program: TrainingProgram, rollouts: Sequence[tuple[Scene, WorldView]]) -> MeasuredProgress:
    """Progress of rollouts, each with its scene and its recorded moments [t + 1, ...].

    Raises:
      ValueError: there are no rollouts, or the program cannot be bound to a scene.
    """
    if not rollouts:
        raise ValueError("no rollouts: progress is measured on at least one")
    scenes = [scene for scene, _ in rollouts]
    episode = np.repeat(np.arange(len(rollouts)), [len(view.control_step) for _, view in rollouts])
    views = jax.tree.map(lambda *leaves: np.concatenate(leaves), *[view for _, view in rollouts])
    programs = tables([program] * len(rollouts), scenes)
    stage = staged(programs, episode, values(programs, episode, views)).stage
    best_stage = np.array([stage[episode == i].max() for i in range(len(rollouts))])
    m = program.stages
    reached = tuple(float((best_stage >= i).mean()) for i in range(1, m + 1))
    stops = np.array([(best_stage == i).sum() for i in range(m)])
    if not stops.any():
        return MeasuredProgress(len(rollouts), reached, None, None, None)
    stalled = int(stops.argmax())  # ties: the earlier subgoal
    ramp = first_ramp(program.subgoals[stalled].progress)
    if ramp is None:
        return MeasuredProgress(len(rollouts), reached, stalled, None, None)
    quantity, sign = _quantity(ramp, scenes, episode, views), 1.0 if rising(ramp) else -1.0
    chosen = np.flatnonzero(best_stage == stalled)
    inside = [quantity[(episode == i) & (stage == stalled)] for i in chosen]
    worst_first = np.quantile([(sign * q).max() for q in inside], QUANTILES) * sign
    low, middle, high = (float(v) for v in worst_first)
    return MeasuredProgress(len(rollouts), reached, stalled, float(np.median([q[0] for q in inside])), (low, middle, high))


def _quantity(ramp: Expr, scenes: Sequence[Scene], episode: np.ndarray, views: WorldView) -> np.ndarray:
    """Values [n] of what a ramp over roles measures."""
    operand = next(a for a in ramp.args if isinstance(a, Expr))
    table = expressions.stack([placed_table((resolved(operand, s.roles, s.nu),), (0,), s.index) for s in scenes])
    return blocks(table, episode, views)[:, 0]
