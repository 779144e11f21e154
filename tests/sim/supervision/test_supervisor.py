"""The rules by table, no combination twice, the bound, and a scene that is solved only after a revision."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest

from coda_jax.scenes.families import read_goals
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim.plan import _candidates, commute
from coda_jax.sim.supervision.parameters import FIRST, RANGES, PlanParameters
from coda_jax.sim.supervision.remarks import KINDS, Critique, Remark
from coda_jax.sim.supervision.supervisor import RULES, ScriptedSupervisor, Tried, changed, rules_of
from tests.sim.supervision.faulty import ALL, TRAIN, executed, scene


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
    decision = ScriptedSupervisor(3).revise(one, [Tried(FIRST, Critique((said(kind, amount),)), 8)])
    assert decision.parameters is not None
    assert decision.parameters.changes() == pytest.approx(changes)
    assert kind in decision.reason


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_rules_that_stay_in_range(one, two, kind):
    for spec in (one, two):
        for amount in (0.0, 0.02, 5.0):
            for rule in (rule for key, rules in RULES.items() if key.split(" in ")[0] == kind for rule in rules):
                parameters = FIRST
                for _ in range(6):
                    parameters = changed(spec, parameters, said(kind, amount), rule)
                assert commute(read_goals(spec)) or not parameters.reverse


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_tried_twice_and_there_is_an_end(one, kind):
    supervisor, tried, seen = ScriptedSupervisor(30), [Tried(FIRST, Critique((said(kind),)), 8)], {FIRST}
    while (decision := supervisor.revise(one, tried)).parameters is not None:
        assert decision.parameters not in seen
        seen.add(decision.parameters)
        tried.append(Tried(decision.parameters, tried[0].critique, 8))
    assert len(tried) <= 31 and f"{kind} happened" in decision.reason


def test_bound_and_order(one, two):
    failure = Critique((said("collided"), said("late")))
    assert ScriptedSupervisor(0).revise(one, [Tried(FIRST, failure, 8)]).parameters is None
    tried = [Tried(FIRST, failure, 8), Tried(PlanParameters(grasp=1), failure, 8)]
    assert "1 revisions did not help" in ScriptedSupervisor(1).revise(one, tried).reason
    weak_first = Critique((dataclasses.replace(said("late"), step=0), said("missed")))
    found = ScriptedSupervisor(3).revise(one, [Tried(FIRST, weak_first, 8)]).parameters
    assert found is not None and found.funnel == 2.0
    undone = [Tried(FIRST, Critique((said("undone"),)), 8)]
    assert ScriptedSupervisor(3).revise(two, undone).parameters == PlanParameters(reverse=1)
    other = ScriptedSupervisor(3).revise(one, undone).parameters  # one goal has no other order
    assert other is not None and not other.reverse
    with pytest.raises(ValueError, match="no failed try"):
        ScriptedSupervisor(3).revise(one, [])


def test_what_a_change_did_not_end_is_met_by_the_next_rule(one):
    swung = Critique((said("swung", 0.9),))
    first = ScriptedSupervisor(3).revise(one, [Tried(FIRST, swung, 8)]).parameters
    assert first is not None and first.grasp == 0
    second = ScriptedSupervisor(3).revise(one, [Tried(FIRST, swung, 8), Tried(first, swung, 8)]).parameters
    assert second is not None and second.grasp == 1


def test_what_is_done_about_a_block_depends_on_the_skill(one):
    for skill, named in (("lower", {"drop_m"}), ("approach", {"rise_m", "hover_m", "funnel"}), ("carry", {"rise_m", "lift_m"})):
        found = ScriptedSupervisor(3).revise(one, [Tried(FIRST, Critique((said("blocked", 0.1, skill),)), 8)]).parameters
        assert found is not None and set(found.changes()) == named
    assert {key.split(" in ")[0] for key in RULES} == set(KINDS)
    assert rules_of(said("late", skill="approach")) is RULES["late"]


def test_the_other_side_is_tried_where_the_shorter_one_did_not_help(one):
    supervisor, tried = ScriptedSupervisor(8), [Tried(FIRST, Critique((said("collided"),)), 1)]
    while (decision := supervisor.revise(one, tried)).parameters is not None:
        tried.append(Tried(decision.parameters, tried[0].critique, 1))
    assert {t.parameters.side for t in tried} == {-1, 0, 1}


def test_a_grasp_that_is_the_same_again_is_not_asked_for(one):
    missed = Critique((said("missed"),))
    for grasps, most in ((1, {0}), (2, {0, 1})):
        supervisor, tried = ScriptedSupervisor(6), [Tried(FIRST, missed, grasps)]
        while (decision := supervisor.revise(one, tried)).parameters is not None:
            tried.append(Tried(decision.parameters, missed, grasps))
        assert {t.parameters.grasp for t in tried} == most
        assert len({t.parameters for t in tried}) == len(tried) > 2


@pytest.mark.parametrize(("family", "seeds"), [("pick_place", (0, 3, 4)), ("articulated", (2000, 2001))])
def test_grasps_repeat_after_as_many_as_the_planner_says(family, seeds):
    counts = set()
    for seed in seeds:
        spec = sample_spec(TRAIN, family, "id", "train", seed)
        first = executed(spec, horizon=12)
        again = executed(spec, parameters=PlanParameters(grasp=first.grasps), horizon=12) if first.grasps < 15 else first
        np.testing.assert_array_equal(first.actions, again.actions)
        if first.grasps > 1:
            other = executed(spec, parameters=PlanParameters(grasp=1), horizon=12)
            assert np.abs(first.actions - other.actions).max() > 1e-6
        counts.add(first.grasps)
    assert len(counts) > 1


def test_no_way_to_grasp_a_round_thing_is_offered_twice():
    grasps = _candidates(ALL.get("can_00"), 0.3, 0.5, 0.1)
    lines = np.mod([g.yaw_rad for g in grasps], np.pi)
    apart = np.abs(lines[:, None] - lines[None])
    apart = np.minimum(apart, np.pi - apart) + np.eye(len(grasps))
    assert len(grasps) > 4 and apart.min() > 0.1


@pytest.mark.parametrize("drop", [0.0, 0.015, 0.03])
def test_a_thing_is_let_go_no_higher_than_asked(drop):
    from tests.sim.supervision.test_inspector import Record, upright

    trajectory = executed(scene("pick_place", upright), parameters=PlanParameters(drop_m=drop, lower_speed=0.3))
    record = Record(trajectory, ALL)
    first = next(a for skill, a, _ in record.runs() if skill == "release")
    height = record.position(record.targets[0])[first, 2] - record.rest_z(0, first)
    assert drop - 0.003 < height < drop + 2 * 0.005 + 1e-3


def test_parameters_out_of_range_are_refused():
    for name, (_, high, _) in RANGES.items():
        with pytest.raises(ValueError, match=f"plan parameter {name} is .*: use"):
            dataclasses.replace(FIRST, **{name: high + 1})
    assert FIRST.changes() == {} and PlanParameters(grasp=2).changes() == {"grasp": 2}
    assert PlanParameters.of({"grasp": 2, "lift_m": 0.01}) == PlanParameters(grasp=2, lift_m=0.01)
    for values, message in (
        ({"speed": 1.0}, "no plan parameter 'speed': use grasp, approach_speed"),
        ({"grasp": 1.5}, "grasp is 1.5: use a whole number from 0 to 15"),
        ({"carry_speed": "slow"}, "carry_speed is 'slow': use a number from 0.2 to 1.5"),
        ({"reverse": True}, "reverse is True: use a whole number"),
        ({"lift_m": float("nan")}, "lift_m is nan m: use 0 to 0.1"),
    ):
        with pytest.raises(ValueError, match=message):
            PlanParameters.of(values)


CHANGES = {
    "grasp": 1, "approach_speed": 0.5, "carry_speed": 0.5, "lower_speed": 0.5, "funnel": 3.0, "hover_m": 0.05, "lift_m": 0.05,
    "rise_m": 0.005, "drop_m": 0.03, "squeeze_steps": 4, "rest_steps": 4, "over_m": 0.06, "side": -1, "reverse": 1, "aim_share": 0.05,
}  # fmt: skip
FAMILY_OF = {"reverse": "put_inside", "aim_share": "articulated"}


@functools.cache
def actions_of(family: str, parameters: PlanParameters) -> np.ndarray:
    """Of an episode in a scene in which every parameter of the family has something to say."""
    spec = scene(family, lambda spec, goals: family != "put_inside" or commute(goals), 3 if family == "pick_place" else 1)
    return executed(spec, parameters=parameters).actions


@pytest.mark.parametrize("name", RANGES)
def test_every_parameter_changes_what_is_done(name):
    family = FAMILY_OF.get(name, "pick_place")
    base = PlanParameters(over_m=0.06) if name == "side" else FIRST
    first, other = actions_of(family, base), actions_of(family, dataclasses.replace(base, **{name: CHANGES[name]}))
    assert len(first) != len(other) or np.abs(first - other).max() > 1e-3
