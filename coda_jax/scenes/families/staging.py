"""How the way to success of a family is cut into subgoals for a potential (METHOD section 2), over the roles target and reference.

The thresholds are the phases' own (scenes/families/base.py) where they are the same in every scene. Those that differ from scene to scene
are replaced by constants over roles, chosen from the training scenes so that a subgoal of a phase is met inside the phase in most of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from coda_jax.programs.expressions import Expr
from coda_jax.programs.training.program import Subgoal, TrainingProgram
from coda_jax.programs.training.rewrite import HELD_NEAR, PLACING_M
from coda_jax.programs.training.vocabulary import GOAL, SUCCESS
from coda_jax.programs.verifier import CONTACT_FREE

LIFTED_M = 0.02  # what the phase of the grasp asks for
NEAR_M = 0.06  # the reach of the phase lies between 0.03 and 0.066 m, with the grasps of the target; in 3 of 4 scenes it is smaller
CLOSER_M = 0.15  # half-way: the grip point begins 0.2 to 0.31 m away
START_M = 0.30
APART_M = 0.35  # target and reference begin 0.16 to 0.37 m apart
RAISED_M = 0.04  # twice what ends the phase of the grasp, and less than the planner's clearance over the lowest fixture
OVER_M = 0.06  # half the width of the narrowest training support or container is 0.057 m
LOW_M = 0.01  # over the reference: objects are carried 0.02 m above everything
BESIDE_M, LOW_BESIDE_M = 0.13, 0.02  # over the table beside it; nearer than any target begins
CARRIED_M = 0.12  # height above the table at which the lowering begins


def _compare(op: str, value: Expr, limit: float) -> Expr:
    return Expr(op, (value, limit))


def _ramp(value: Expr, low: float, high: float) -> Expr:
    return Expr("ramp", (value, low, high))


_REACH = Expr("distance", ("gripper", "target"))
_APART = Expr("horizontal_distance", ("target", "reference"))
_LIFTED, _GRASPED = Expr("lifted", ("target",)), Expr("grasped", ("target",))
_OVER, _HEIGHT = Expr("height_above", ("target", "reference")), Expr("height_above", ("target", "table"))
_OPENING, _STILL = Expr("gripper_opening", ()), Expr("still", ("target",))
_HELD = _compare("at_least", _GRASPED, 1.0)
_DOWN = _ramp(_HEIGHT, CARRIED_M, 0.0)
_LETTING_GO = _ramp(_OPENING, 0.02, 0.08)
_NEARER_AND_HELD = Expr("mean", (_ramp(_REACH, NEAR_M, 0.0), _GRASPED))
_TO_GOAL = Expr("mean", (_ramp(_APART, APART_M, 0.0), GOAL))
_CARRIED = Expr("mean", (_ramp(_REACH, START_M, NEAR_M), _GRASPED, _ramp(_APART, APART_M, PLACING_M)))

_LOW_OVER_IT = Expr("all_of", (_compare("at_most", _APART, OVER_M), _compare("at_most", _OVER, LOW_M)))
_LOW_BESIDE_IT = Expr("all_of", (_compare("at_most", _APART, BESIDE_M), _compare("at_most", _HEIGHT, LOW_BESIDE_M)))
_LOW = Expr("all_of", (*HELD_NEAR.args, Expr("any_of", (_LOW_OVER_IT, _LOW_BESIDE_IT))))

_CLOSE = Subgoal("close", HELD_NEAR, _CARRIED)
_HELD_ANYHOW = Subgoal("held", _HELD, Expr("mean", (_ramp(_REACH, START_M, 0.0), _GRASPED)))
_NEAR = Subgoal("near", _compare("at_most", _REACH, NEAR_M), _ramp(_REACH, START_M, NEAR_M))
_LIFTED_UP = Subgoal("lifted", Expr("all_of", (_HELD, _compare("at_least", _LIFTED, LIFTED_M))), _ramp(_LIFTED, 0.0, LIFTED_M))


@dataclasses.dataclass(frozen=True)
class Cut:
    """Four subgoals for one phase. spare: their places, in the order in which they go when fewer are wanted."""

    subgoals: tuple[Subgoal, Subgoal, Subgoal, Subgoal]
    spare: tuple[int, int]


CUTS: dict[str, Cut] = {
    "approach": Cut(
        (
            Subgoal("closer", _compare("at_most", _REACH, CLOSER_M), _ramp(_REACH, START_M, CLOSER_M)),
            Subgoal("near", _compare("at_most", _REACH, NEAR_M), _ramp(_REACH, CLOSER_M, NEAR_M)),
            Subgoal("held", _HELD, _NEARER_AND_HELD),
            Subgoal("placed", SUCCESS, _TO_GOAL),
        ),
        (2, 0),
    ),
    "grasp": Cut((_NEAR, Subgoal("held", _HELD, _NEARER_AND_HELD), _LIFTED_UP, Subgoal("placed", SUCCESS, _TO_GOAL)), (0, 1)),
    "transport": Cut(
        (
            _HELD_ANYHOW,
            Subgoal("raised", Expr("all_of", (_HELD, _compare("at_least", _LIFTED, RAISED_M))), _ramp(_LIFTED, 0.0, RAISED_M)),
            Subgoal("close", HELD_NEAR, _ramp(_APART, APART_M, PLACING_M)),
            Subgoal("placed", SUCCESS, Expr("mean", (_DOWN, GOAL))),
        ),
        (0, 1),
    ),
    "place": Cut(
        (
            _CLOSE,
            Subgoal("low", _LOW, _ramp(_OVER, 0.08, 0.0)),
            Subgoal("goal", GOAL, _DOWN),
            Subgoal("released", SUCCESS, _LETTING_GO),
        ),
        (0, 1),
    ),
    "release": Cut(
        (
            _CLOSE,
            Subgoal("goal", GOAL, _DOWN),
            Subgoal("free", Expr("all_of", (GOAL, _compare("at_most", _GRASPED, CONTACT_FREE))), _LETTING_GO),
            Subgoal("settled", SUCCESS, Expr("mean", (_LETTING_GO, _STILL))),
        ),
        (0, 1),
    ),
}
# One subgoal for each phase; placing and release share the last stage.
_CLOSE_BY_CARRYING = Subgoal("close", HELD_NEAR, _ramp(_APART, APART_M, PLACING_M))
TASK_TEXT = TrainingProgram((_NEAR, _LIFTED_UP, _CLOSE_BY_CARRYING, Subgoal("placed", SUCCESS, _TO_GOAL)))
_DENSE = Expr("mean", (_ramp(_REACH, START_M, 0.0), _GRASPED, _ramp(_LIFTED, 0.0, RAISED_M), _ramp(_APART, APART_M, 0.0), GOAL))


@dataclasses.dataclass(frozen=True)
class Staging:
    """Subgoals of a family. cuts: phase to its four subgoals, for every phase. task_text: one subgoal for each phase, the last two as one.
    dense: a value in 0..1 that grows along the way, for a dense reward."""

    cuts: Mapping[str, Cut]
    task_text: TrainingProgram
    dense: Expr


MOVING = Staging(CUTS, TASK_TEXT, _DENSE)
"""Of families that grasp a thing and put it down somewhere; of several things the roles are those of the first."""
