"""A training program in one scene: roles become objects, goal() and success() the scene's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from coda_jax.programs.expressions import Expr
from coda_jax.programs.training.program import DenseProgram, TrainingProgram
from coda_jax.programs.training.vocabulary import ROLES, substituted
from coda_jax.programs.verifier import goal_of


@dataclasses.dataclass(frozen=True)
class Scene:
    """What a program needs to know of a scene.

    roles: role to object id, for every role of the vocabulary. nu: the success predicate. index: object id to token.
    """

    roles: Mapping[str, str]
    nu: Expr
    index: Mapping[str, int]


def resolved(expr: Expr, roles: Mapping[str, str], nu: Expr) -> Expr:
    """An expression over roles as one over a scene's objects.

    Raises:
      ValueError: a role is not filled, or ``nu`` is no success predicate.
    """
    if missing := [role for role in ROLES if role not in roles]:
        raise ValueError(f"no object has the role {missing[0]}: give one for each of {', '.join(ROLES)}")
    return substituted(expr, {"success": nu, "goal": goal_of(nu)}, {role: roles[role] for role in ROLES})


def bind(program: TrainingProgram, roles: Mapping[str, str], nu_expression: Expr) -> tuple[Expr, ...]:
    """The 2 m expressions of a program in a scene: done_1..m, then progress_1..m.

    Raises:
      ValueError: see ``resolved``.
    """
    measured = (*(s.done for s in program.subgoals), *(s.progress for s in program.subgoals))
    return tuple(resolved(expr, roles, nu_expression) for expr in measured)


def bind_reward(program: DenseProgram, roles: Mapping[str, str], nu_expression: Expr) -> Expr:
    """The expression in 0..1 whose multiple by ``weight`` is the reward of a control step.

    Raises:
      ValueError: see ``resolved``.
    """
    return resolved(program.reward, roles, nu_expression)
