"""A supervisor without a language model: from what went wrong in a scene to the plan that is tried next.

After the Robotic Task Supervisor of Scene2Demo, which revises parameters and order with the rollout and the history of a scene.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from coda_jax.scenes.families import read_goals
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.plan import commute
from coda_jax.sim.supervision.parameters import FIRST, PlanParameters, within
from coda_jax.sim.supervision.remarks import Critique, Remark

Change = Callable[[PlanParameters, Remark], dict[str, float]]


@dataclasses.dataclass(frozen=True)
class Tried:
    """One failed try of a scene: what was asked of the planner, and the critique of what came of it.

    grasps: the parameter ``grasp`` asks for the same again after so many; 1 where there is no other.
    """

    parameters: PlanParameters
    critique: Critique
    grasps: int


@dataclasses.dataclass(frozen=True)
class Revision:
    """What a supervisor decides. parameters: of the next try, None to give up. reason: why, for people."""

    parameters: PlanParameters | None
    reason: str


class Supervisor(Protocol):
    """Decides after failures how a scene is tried again. A language model can take this place."""

    def revise(self, spec: SceneSpec, tried: Sequence[Tried]) -> Revision:
        """The next try of a scene. ``tried``: its failures so far, in order. The answer is a function of the arguments alone, so that a run
        that is killed and resumed tries the same."""
        ...


def _add(name: str, least: float, of_amount: float = 0.0) -> Change:
    """Add to a parameter: a constant and a multiple of what was measured."""
    return lambda p, r: {name: getattr(p, name) + least + of_amount * r.amount}


def _set(name: str, value: float) -> Change:
    return lambda p, r: {name: value}


def _times(name: str, factor: float) -> Change:
    return lambda p, r: {name: getattr(p, name) * factor}


def _to_speed(name: str, goal_m_s: float) -> Change:
    """Slow a skill down to a speed of the hand that was measured above it, at most to 0.4 of what it was."""
    return lambda p, r: {name: getattr(p, name) * min(max(goal_m_s / max(r.amount, 1e-3), 0.4), 0.75)}


def _skill_speed(factor: float) -> Change:
    """Change the speed of the skill that a remark is about."""
    names = {"approach": "approach_speed", "grasp": "approach_speed", "lower": "lower_speed"}
    return lambda p, r: {(name := names.get(r.skill, "carry_speed")): getattr(p, name) * factor}


_NEXT_GRASP = _add("grasp", 1)
_HIGHER = (_set("rise_m", 0.005), _add("hover_m", 0.03), _times("funnel", 2.0))
_AROUND = (_set("over_m", 0.06),)
_OTHER_SIDE: tuple[Change, ...] = (_set("over_m", 0.06), lambda p, r: {"side": -1 if p.side == 1 else 1})
# kind of remark, or kind and skill: what is changed, the best first; every alternative is one or more changes made together
RULES: dict[str, tuple[tuple[Change, ...], ...]] = {
    "toppled": (
        (_times("funnel", 2.0), _times("approach_speed", 0.7), _add("hover_m", 0.02)),
        (_NEXT_GRASP,),
        (_NEXT_GRASP, _times("approach_speed", 0.5)),
    ),
    "bumped": ((_set("rise_m", 0.005), _add("hover_m", 0.02), _add("lift_m", 0.02)), (_NEXT_GRASP,), _AROUND, _OTHER_SIDE),
    "missed": ((_times("funnel", 2.0), _add("squeeze_steps", 2)), (_NEXT_GRASP,), (_times("approach_speed", 0.5),)),
    "slipped": (
        (_to_speed("carry_speed", 0.07), _add("squeeze_steps", 3)),
        (_NEXT_GRASP, _times("lower_speed", 0.7)),
        (_NEXT_GRASP, _to_speed("carry_speed", 0.05)),
    ),
    "swung": (
        (_times("carry_speed", 0.6), _times("lower_speed", 0.6), _add("squeeze_steps", 2)),
        (_NEXT_GRASP,),
        (_NEXT_GRASP, _times("carry_speed", 0.6)),
    ),
    "collided": (
        (_set("rise_m", 0.005), _add("lift_m", 0.01, 1.0)),
        (_NEXT_GRASP, _add("lift_m", 0.02)),
        _AROUND,
        _OTHER_SIDE,
    ),
    "blocked": ((_add("drop_m", 0.004, 1.0),), (_NEXT_GRASP,), _HIGHER),
    "blocked in approach": (_HIGHER, (_NEXT_GRASP,), _AROUND),
    "blocked in carry": ((_set("rise_m", 0.005), _add("lift_m", 0.03)), _AROUND, _OTHER_SIDE, (_NEXT_GRASP,)),
    "dropped": ((_times("lower_speed", 0.6), _add("rest_steps", 3)), (_NEXT_GRASP,)),
    "tipped": ((_times("lower_speed", 0.6), _add("rest_steps", 4), _add("drop_m", -0.002)), (_NEXT_GRASP,)),
    "rolled": ((_times("lower_speed", 0.6), _add("rest_steps", 6), _add("drop_m", -0.002)), (_NEXT_GRASP, _add("rest_steps", 2))),
    "misplaced": ((_times("funnel", 2.0), _times("lower_speed", 0.6), _add("rest_steps", 3)), (_NEXT_GRASP,)),
    "goal_lost": ((_add("rest_steps", 5), _times("lower_speed", 0.7)), (_NEXT_GRASP,)),
    "undone": ((_set("reverse", 1),), (_set("rise_m", 0.005), _add("lift_m", 0.01, 1.0)), (_NEXT_GRASP,)),
    "handle_slipped": ((_times("carry_speed", 0.6), _add("squeeze_steps", 3)), (_NEXT_GRASP,)),
    "joint_stuck": ((_times("carry_speed", 0.6), _add("squeeze_steps", 4)), (_NEXT_GRASP,), (_add("aim_share", 0.03),)),
    "joint_crept": ((_add("aim_share", 0.005, 1.0), _add("rest_steps", 4)), (_times("carry_speed", 0.6),)),
    "out_of_reach": ((_times("approach_speed", 0.7), _times("lower_speed", 0.7), _add("rest_steps", 3)), (_NEXT_GRASP,)),
    "late": ((_skill_speed(1.3),), (_NEXT_GRASP,)),
    "no_plan": ((_set("reverse", 1),), (_NEXT_GRASP,)),
    "gave_up": ((_NEXT_GRASP,), (_times("funnel", 2.0), _times("approach_speed", 0.7))),
    "diverged": ((_times("carry_speed", 0.6), _times("approach_speed", 0.6)), (_NEXT_GRASP,)),
}
_WEAK = ("bumped", "late", "out_of_reach", "goal_lost")  # consequences, or without one: heard after the others


class ScriptedSupervisor:
    """Looks remarks up in a table of rules; what is changed once in a scene stays changed.

    revisions: changed plans of a scene at most.
    """

    def __init__(self, revisions: int):
        self.revisions = revisions

    def revise(self, spec: SceneSpec, tried: Sequence[Tried]) -> Revision:
        """The next try, or the reason to give up.

        Raises:
          ValueError: nothing has failed.
        """
        if not tried:
            raise ValueError(f"scene {spec.scene_id} has no failed try to revise: ask after a failure")
        critique = tried[-1].critique
        period = math.lcm(*(t.grasps for t in tried))
        before = {distinct(t.parameters, period) for t in tried}
        done = len({t.parameters for t in tried}) - 1
        said = "; ".join(r.message for r in critique.remarks)
        if done >= self.revisions:
            return Revision(None, f"{done} revisions did not help: {said}")
        for offered, remark in _offers(spec, tried):
            if (parameters := distinct(offered, period)) not in before:
                changes = ", ".join(f"{n} {v:g}" for n, v in parameters.changes().items())
                return Revision(parameters, f"{remark.kind} ({remark.message}): {changes or 'the first choice again'}")
        return Revision(None, f"no rule is left for {', '.join(critique.kinds)}: {said}")


def _offers(spec: SceneSpec, tried: Sequence[Tried]) -> Iterator[tuple[PlanParameters, Remark]]:
    """Changed plans, beginning with the remark that weighs most: the first alternative for what was not remarked before, the next one for
    what the last change did not end."""
    last = tried[-1]
    ordered = sorted(last.critique.remarks, key=lambda r: (r.kind in _WEAK, r.step))
    again = {r.kind: sum(r.kind in t.critique.kinds for t in tried[:-1]) for r in ordered}
    for n in range(max(len(rules_of(r)) for r in ordered)):
        for remark in ordered:
            rules = rules_of(remark)
            if n < len(rules):
                yield changed(spec, last.parameters, remark, rules[(again[remark.kind] + n) % len(rules)]), remark


def rules_of(remark: Remark) -> tuple[tuple[Change, ...], ...]:
    """The alternatives for a remark, those for its skill where there are any."""
    return RULES.get(f"{remark.kind} in {remark.skill}", RULES[remark.kind])


def distinct(parameters: PlanParameters, period: int) -> PlanParameters:
    """The smallest parameters that ask for the same grasp, so that the same plan is known again."""
    return dataclasses.replace(parameters, grasp=parameters.grasp % period)


def changed(spec: SceneSpec, last: PlanParameters, remark: Remark, changes: Sequence[Change]) -> PlanParameters:
    """``last`` with the changes made, held inside the parameters' ranges; goals that build on each other keep their order."""
    values: dict[str, float] = {}
    for change in changes:
        for name, value in change(last, remark).items():
            kind = type(getattr(FIRST, name))
            values[name] = kind(within(name, round(value, 4)))
    if values.get("reverse") and not commute(read_goals(spec)):
        values["reverse"] = 0
    return dataclasses.replace(last, **values)
