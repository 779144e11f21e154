"""How the way to an opened or closed joint is cut into subgoals for a potential (METHOD section 2), over the role target.

A goal is an opening that differs from scene to scene, so the way of the joint is told by holding the handle and by the goal itself.
"""

from __future__ import annotations

from coda_jax.programs.expressions import Expr
from coda_jax.programs.training.program import Subgoal, TrainingProgram
from coda_jax.programs.training.vocabulary import GOAL, SUCCESS
from coda_jax.programs.verifier import CONTACT_FREE
from coda_jax.scenes.families.staging import CLOSER_M, START_M, Cut, Staging

NEAR_M = 0.045  # the reach of the phase is 0.036 to 0.044 m
CLEAR_M = 0.06  # the pads stand so far apart when they have let go

_REACH, _GRASPED = Expr("distance", ("gripper", "target")), Expr("grasped", ("target",))
_APART, _STILL = Expr("gripper_opening", ()), Expr("still", ("target",))
_HELD = Expr("at_least", (_GRASPED, 1.0))
_DONE_OR_HELD = Expr("any_of", (GOAL, _HELD))


def _near(limit: float) -> Expr:
    """Near the handle, or the goal holds."""
    return Expr("any_of", (GOAL, Expr("at_most", (_REACH, limit))))


def _coming(start: float, end: float) -> Expr:
    return Expr("ramp", (_REACH, start, end))


_FREE = Expr("all_of", (GOAL, Expr("at_most", (_GRASPED, CONTACT_FREE))))
_CLEAR = Expr("all_of", (GOAL, Expr("at_least", (_APART, CLEAR_M / 2))))
_LETTING_GO = Expr("ramp", (_APART, 0.01, 0.08))
_NEARER_AND_HELD = Expr("mean", (_coming(NEAR_M, 0.0), _GRASPED))
_HOLDING = Expr("mean", (_coming(START_M, 0.0), _GRASPED))
_TO_GOAL = Expr("mean", (GOAL, _LETTING_GO))

_NEAR = Subgoal("near", _near(NEAR_M), _coming(START_M, NEAR_M))
_HOLD = Subgoal("held", _DONE_OR_HELD, _NEARER_AND_HELD)
_HOLD_ANYHOW = Subgoal("held", _DONE_OR_HELD, _HOLDING)
_REACHED = Subgoal("goal", GOAL, _GRASPED)
_SUCCESS = Subgoal("released", SUCCESS, _TO_GOAL)

JOINT = Staging(
    {
        "approach": Cut((Subgoal("closer", _near(CLOSER_M), _coming(START_M, CLOSER_M)), _NEAR, _HOLD, _SUCCESS), (2, 0)),
        "grasp": Cut(
            (_NEAR, Subgoal("touched", Expr("any_of", (GOAL, Expr("at_least", (_GRASPED, 0.5)))), _coming(NEAR_M, 0.0)), _HOLD, _SUCCESS),
            (0, 1),
        ),
        "transport": Cut((_NEAR, _HOLD, _REACHED, _SUCCESS), (0, 1)),
        "place": Cut((_HOLD_ANYHOW, _REACHED, Subgoal("free", _FREE, _LETTING_GO), _SUCCESS), (0, 2)),
        "release": Cut(
            (
                _HOLD_ANYHOW,
                _REACHED,
                Subgoal("free", _CLEAR, _LETTING_GO),
                Subgoal("settled", SUCCESS, Expr("mean", (_LETTING_GO, _STILL))),
            ),
            (0, 1),
        ),
    },
    TrainingProgram((_NEAR, _HOLD, _REACHED, _SUCCESS)),
    Expr("mean", (_coming(START_M, 0.0), _GRASPED, GOAL, _LETTING_GO)),
)
