"""How the way to success is cut where one family asks for things to be carried and for drawers and knobs to be moved alike.

A drawer is its own reference, so the subgoals are about the target alone. LIBERO's goals ask for no release: every subgoal short of
success is met too where the goal holds.
"""

from __future__ import annotations

from coda_jax.programs.expressions import Expr
from coda_jax.programs.training.program import Subgoal, TrainingProgram
from coda_jax.programs.training.vocabulary import GOAL, SUCCESS
from coda_jax.scenes.families.staging import LIFTED_M, RAISED_M, START_M, Cut, Staging

CLOSER_M = 0.2  # what the phase of the approach asks for at drawers and the stove; carried things are grasped from 0.03 to 0.09 m

_REACH, _TOUCHED = Expr("distance", ("gripper", "target")), Expr("grasped", ("target",))
_LIFTED, _OPENING = Expr("lifted", ("target",)), Expr("opening", ("target",))
_COMING, _RISING = Expr("ramp", (_REACH, START_M, 0.0)), Expr("ramp", (_LIFTED, 0.0, RAISED_M))


def _or_done(condition: Expr) -> Expr:
    return Expr("any_of", (GOAL, condition))


_NEAR = Subgoal("near", _or_done(Expr("at_most", (_REACH, CLOSER_M))), _COMING)
_TOUCH = Subgoal("touched", _or_done(Expr("at_least", (_TOUCHED, 0.5))), _COMING)
_HOLD = Subgoal("held", _or_done(Expr("at_least", (_TOUCHED, 1.0))), Expr("mean", (_COMING, _TOUCHED)))
_MOVING = Expr("mean", (_TOUCHED, _RISING, _OPENING))
_DONE = Subgoal("done", SUCCESS, _MOVING)
_ON_ITS_WAY = Expr("any_of", (Expr("at_least", (_LIFTED, LIFTED_M)), Expr("at_least", (_OPENING, 0.1))))
_MOVED = Subgoal("moved", _or_done(Expr("all_of", (Expr("at_least", (_TOUCHED, 0.5)), _ON_ITS_WAY))), _MOVING)

_REACHING = Cut((_NEAR, _TOUCH, _HOLD, _DONE), (2, 0))
_CARRYING = Cut((_NEAR, _HOLD, _MOVED, _DONE), (0, 1))

ANY_GOAL = Staging(
    {"approach": _REACHING, "grasp": _REACHING, "transport": _CARRYING, "place": _CARRYING, "release": _CARRYING},
    TrainingProgram((_NEAR, _HOLD, _MOVED, _DONE)),
    Expr("mean", (_COMING, _TOUCHED, _RISING, _OPENING, GOAL)),
)
