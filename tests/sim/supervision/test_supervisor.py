"""The rules by table, no combination twice, the bound, and a scene that is solved only after a revision."""

from __future__ import annotations

import dataclasses

import pytest

from coda_jax.scenes.families import read_goals
from coda_jax.sim.plan import commute
from coda_jax.sim.supervision.parameters import FIRST, RANGES, PlanParameters
from coda_jax.sim.supervision.remarks import KINDS, Critique, Remark
from coda_jax.sim.supervision.supervisor import RULES, ScriptedSupervisor, Tried, changed
from tests.sim.supervision.faulty import scene


def said(kind: str, amount: float = 0.02, skill: str = "lower") -> Remark:
    return Remark(10, skill, kind, "can_1", amount, KINDS[kind][0], f"{kind} happened")


@pytest.fixture(scope="module")
def one():
    return scene("pick_place")


@pytest.fixture(scope="module")
def two():
    return scene("put_inside", lambda spec, goals: len(goals) == 2)


@pytest.mark.parametrize(
    ("kind", "amount", "changes"),
    [
        ("toppled", 0.02, {"funnel": 2.0, "approach_speed": 0.7, "hover_m": 0.02}),
        ("collided", 0.018, {"rise_m": 0.005, "lift_m": 0.028}),
        ("blocked", 0.012, {"drop_m": 0.016}),
        ("slipped", 0.14, {"carry_speed": 0.5, "squeeze_steps": 3}),
        ("slipped", 0.05, {"carry_speed": 0.75, "squeeze_steps": 3}),
        ("rolled", 0.3, {"lower_speed": 0.6, "rest_steps": 6, "drop_m": -0.002}),
        ("joint_crept", 0.02, {"aim_share": 0.025, "rest_steps": 4}),
        ("late", 0.6, {"lower_speed": 1.3}),
    ],
)
def test_what_a_remark_changes(one, kind, amount, changes):
    decision = ScriptedSupervisor(3).revise(one, [Tried(FIRST, Critique((said(kind, amount),)))])
    assert decision.parameters is not None
    assert decision.parameters.changes() == pytest.approx(changes)
    assert kind in decision.reason


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_rules_that_stay_in_range(one, two, kind):
    for spec in (one, two):
        for amount in (0.0, 0.02, 5.0):
            for rule in RULES[kind]:
                parameters = FIRST
                for _ in range(6):
                    parameters = changed(spec, parameters, said(kind, amount), rule)
                assert commute(read_goals(spec)) or not parameters.reverse


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_tried_twice_and_there_is_an_end(one, kind):
    supervisor, tried, seen = ScriptedSupervisor(30), [Tried(FIRST, Critique((said(kind),)))], {FIRST}
    while (decision := supervisor.revise(one, tried)).parameters is not None:
        assert decision.parameters not in seen
        seen.add(decision.parameters)
        tried.append(Tried(decision.parameters, tried[0].critique))
    assert len(tried) <= 31 and f"{kind} happened" in decision.reason


def test_bound_and_order(one, two):
    failure = Critique((said("collided"), said("late")))
    assert ScriptedSupervisor(0).revise(one, [Tried(FIRST, failure)]).parameters is None
    tried = [Tried(FIRST, failure), Tried(PlanParameters(grasp=1), failure)]
    assert "1 revisions did not help" in ScriptedSupervisor(1).revise(one, tried).reason
    weak_first = Critique((dataclasses.replace(said("late"), step=0), said("missed")))
    found = ScriptedSupervisor(3).revise(one, [Tried(FIRST, weak_first)]).parameters
    assert found is not None and found.funnel == 2.0
    undone = [Tried(FIRST, Critique((said("undone"),)))]
    assert ScriptedSupervisor(3).revise(two, undone).parameters == PlanParameters(reverse=1)
    other = ScriptedSupervisor(3).revise(one, undone).parameters  # one goal has no other order
    assert other is not None and not other.reverse
    with pytest.raises(ValueError, match="no failed try"):
        ScriptedSupervisor(3).revise(one, [])


def test_what_a_change_did_not_end_is_met_by_the_next_rule(one):
    swung = Critique((said("swung", 0.9),))
    first = ScriptedSupervisor(3).revise(one, [Tried(FIRST, swung)]).parameters
    assert first is not None and first.grasp == 0
    second = ScriptedSupervisor(3).revise(one, [Tried(FIRST, swung), Tried(first, swung)]).parameters
    assert second is not None and second.grasp == 1


def test_parameters_out_of_range_are_refused():
    for name, (_, high, _) in RANGES.items():
        with pytest.raises(ValueError, match=f"plan parameter {name} is .*: use"):
            dataclasses.replace(FIRST, **{name: high + 1})
    assert FIRST.changes() == {} and PlanParameters(grasp=2).changes() == {"grasp": 2}
