"""Verbs of tasks with parts or tolerances: one thing more to move, another order, a tighter fit in words or in wood."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from coda_jax.programs.expressions import Expr
from coda_jax.scenes import families
from coda_jax.scenes.edits.attributes import changed
from coda_jax.scenes.edits.path import follow
from coda_jax.scenes.edits.record import EditError, Request
from coda_jax.scenes.edits.room import trouble
from coda_jax.scenes.edits.task import asked, named_alone, pick
from coda_jax.scenes.families import Goal
from coda_jax.scenes.families.stack_insert import LEAST_TOLERANCE_M, inserted, tolerance_of
from coda_jax.scenes.spec import SceneSpec
from coda_jax.scenes.tabletop import Tabletop

LEAST_SCALE = 0.6  # of a container
LEAST_RATIO = 1.05


def _fair(spec: SceneSpec, tasks: Iterable[Sequence[Goal]]) -> list[tuple[tuple[Goal, ...], SceneSpec]]:
    found = []
    for goals in tasks:
        if named_alone(spec, *families.named(goals)) and trouble(after := asked(spec, goals)) is None:
            found.append((tuple(goals), after))
    return found


def subgoal(request: Request) -> SceneSpec:
    """Ask for one thing more after what is asked already; things that stand further from the reference come last."""
    top, family = Tabletop(request.spec), families.family_of(request.spec)
    now = top.goals
    longer = [t for t in family.other_tasks(now, top.assets) if len(t) > len(now) and t[: len(now)] == now]
    options = _fair(request.spec, longer)
    if not options:
        raise EditError(f"nothing can be asked for after {now[-1].target}: use a scene with more free objects that fit, or goal_swap")
    options.sort(key=lambda o: (round(top.distance(o[0][-1].target, now[0].reference), 6), o[0][-1].target))
    return pick(options, request.magnitude)[1]


def order(request: Request) -> SceneSpec:
    """Ask for the same things in another order; orders that begin with a thing further from the reference come last."""
    top, family = Tabletop(request.spec), families.family_of(request.spec)
    now = top.goals

    def things(goals: Sequence[Goal]) -> frozenset[str]:
        return frozenset(n for g in goals for n in (g.target, g.reference))

    if len(now) < 2:
        raise EditError("only one thing is moved here, so there is no order to change: use a task of two, or verb subgoal")
    options = _fair(request.spec, (t for t in family.other_tasks(now, top.assets) if len(t) == len(now) and things(t) == things(now)))
    if not options:
        raise EditError(f"no other order of {', '.join(sorted(things(now)))} can be asked for here: use another scene")
    options.sort(key=lambda o: (round(top.distance(o[0][0].target, o[0][0].reference), 6), families.named(o[0])))
    return pick(options, request.magnitude)[1]


def tolerance(request: Request) -> SceneSpec:
    """Ask for the peg nearer to the socket's axis, down to LEAST_TOLERANCE_M."""
    spec, now = request.spec, tolerance_of(request.spec.task.goal)
    if now is None or now < LEAST_TOLERANCE_M * LEAST_RATIO:
        raise EditError("the goal states no distance that could be smaller: use the task of an insertion, or verb opening")
    goal = families.read_goal(spec)
    tight = round(now + request.magnitude * (LEAST_TOLERANCE_M - now), 4)
    expr: Expr = inserted(goal.target, goal.reference, tight)
    return dataclasses.replace(spec, task=dataclasses.replace(spec.task, goal=expr))


def opening(request: Request) -> SceneSpec:
    """Shrink the container or socket until what belongs into it hardly fits."""
    top, reference = Tabletop(request.spec), request.binding["reference"]
    if top.assets[reference].kind != "container":
        raise EditError(f"{reference} is no container and has no opening: bind a container or socket as the reference")
    now = request.spec.attribute(reference).scale
    if now < LEAST_SCALE * LEAST_RATIO:
        raise EditError(f"{reference} has scale {now:g}, the least is {LEAST_SCALE:g}: use another container")

    def path(share: float) -> SceneSpec:
        return changed(request.spec, reference, scale=round(now + share * (_least(top, now) - now), 6))

    return follow(path, request.magnitude, "use a scene whose container leaves more room")


def _least(top: Tabletop, now: float) -> float:
    """The smallest scale at which the goals can still hold, to a hundredth of the way down."""
    family, reference = families.family_of(top.spec), top.goal.reference
    expr, low = top.spec.task.goal, now
    for i in range(1, 101):
        scale = now + i / 100 * (LEAST_SCALE - now)
        assets = {**top.assets, reference: top.assets[reference].scaled(scale / now)}
        held = all(family.holds(g, assets[g.target], assets[g.reference]) for g in top.goals)
        if not held or family.goal_trouble(expr, assets) is not None:
            break
        low = scale
    return low
