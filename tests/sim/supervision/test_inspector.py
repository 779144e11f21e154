"""Every kind of remark is made of a real execution that provokes it, and a success is not inspected."""

from __future__ import annotations

import dataclasses
import gc
import weakref

import numpy as np
import pytest

from coda_jax.scenes.families import read_goals
from coda_jax.sim import planner
from coda_jax.sim.compile import token_index
from coda_jax.sim.demonstrate import DIVERGED
from coda_jax.sim.plan import commute
from coda_jax.sim.supervision.inspector import ScriptedInspector
from coda_jax.sim.supervision.parameters import PlanParameters
from coda_jax.sim.supervision.record import Record
from coda_jax.sim.supervision.remarks import KINDS, Critique, Remark
from tests.sim.supervision.faulty import (
    ALL,
    beside,
    executed,
    in_mode,
    open_jaws,
    replaced_joint,
    scene,
    stand_still,
    sweep,
    target_token,
    towards,
)

INSPECTOR = ScriptedInspector(ALL)


def of_category(*names):
    return lambda spec, goals: ALL.get(spec.attribute(goals[0].target).asset).category in names


def upright(spec, goals):
    return goals[0].relation == "on" and of_category("can", "bottle", "jar")(spec, goals)


def once(change):
    """A fault that happens one time."""
    done = []

    def first(p, view, action):
        return action if done else done.append(True) or change(p, view, action)

    return first


def crowded(spec, goals):
    return upright(spec, goals) and beside(spec) is not None


def two(spec, goals):
    return len(goals) == 2


def missed():
    return executed(scene("pick_place", upright), in_mode("grasp", open_jaws), horizon=50)


def slipped():
    return executed(scene("pick_place", upright), in_mode("carry", open_jaws), horizon=50)


def toppled():
    return executed(scene("pick_place", upright), in_mode("approach", sweep(target_token, 0.03, (1.0, 0.0))), horizon=60)


def bumped():
    spec = scene("pick_place", crowded)
    return executed(spec, in_mode("approach", sweep(lambda p: beside(spec), 0.0, (0.0, 1.0))), horizon=50)


def blocked():
    return executed(scene("pick_place", upright), in_mode("lower", stand_still), horizon=80)


def let_go_high(p, view, action):
    token = p._target[0]
    if view.pos[0, token, 2] > view.pos0[0, token, 2] + 0.05:
        p.mode[0], p._wait[0] = planner.RELEASE, 0
        action[6] = -1.0
    return action


def dropped():
    return executed(scene("pick_place", upright), in_mode("carry", let_go_high), horizon=40)


def rolled():
    """A ball is let go while it moves."""
    return executed(scene("pick_place", of_category("ball")), in_mode("carry", let_go_high), horizon=60)


def elsewhere(p, view, action):
    p._goal_offset[0] = 1.5 * p._goal_offset[0]
    return action


def misplaced():
    spec = scene("pick_place", lambda s, g: of_category("block")(s, g) and g[0].relation == "beside")
    return executed(spec, in_mode("carry", once(elsewhere)), horizon=80)


def goal_lost():
    """A ball is let go low over a support, while it moves."""
    spec = scene("pick_place", lambda s, g: of_category("ball", "lemon")(s, g) and g[0].relation == "on")

    def throw(p, view, action):
        ball, place = view.pos[0, p._target[0]], view.pos[0, p._reference[0]]
        if np.linalg.norm((ball - place)[:2]) < 0.11:
            p.mode[0], p._wait[0] = planner.RELEASE, 0
            action[6] = -1.0
        return action

    return executed(spec, in_mode("carry", throw), horizon=70)


def dragged(spec):
    def low(p, view, action):
        at = view.pos[0, beside(spec)]
        return towards((at[0], at[1], view.half_extent[0, p._target[0], 2] + p._held[0, 2] + 0.01), view, action, 0.6)

    return low


def collided():
    spec = scene("pick_place", crowded)
    return executed(spec, in_mode("carry", dragged(spec)), horizon=60)


def undone():
    spec = scene("stack_insert", two)
    first = token_index(spec, ALL)[read_goals(spec)[0].target]

    def at_first(p, view, action):
        at = view.pos[0, first]
        return towards((at[0], at[1], at[2] + p._held[0, 2]), view, action, 0.6) if p._number[0] == 1 else action

    return executed(spec, in_mode("carry", at_first), horizon=160)


def no_plan():
    return executed(scene("stack_insert", two), parameters=PlanParameters(reverse=1), horizon=20)


def late():
    return executed(scene("pick_place", upright), horizon=20)


def out_of_reach():
    def strike(p, view, action):
        at = view.pos0[0, p._target[0]]
        behind = np.add(at, (-0.12, 0.0, 0.0))
        if view.ee_pos[0, 2] > 0.06 or view.ee_pos[0, 0] < at[0] - 0.1:
            return towards((behind[0], behind[1], at[2]) if view.ee_pos[0, 0] < at[0] - 0.1 else (behind[0], behind[1], 0.25), view, action)
        return action

    def push(p, view, action):
        return sweeping(p, view, strike(p, view, action))

    state = {"down": False}

    def sweeping(p, view, action):
        at = view.pos0[0, p._target[0]]
        if abs(view.ee_pos[0, 2] - at[2]) < 0.015 and view.ee_pos[0, 0] < at[0] - 0.08:
            state["down"] = True
        return towards((at[0] + 0.25, at[1], at[2]), view, action) if state["down"] else action

    return executed(scene("pick_place", of_category("ball")), in_mode("approach", push), horizon=90)


def gave_up():
    def stop(p, view, action):
        p.mode[0], p.cause[0] = planner.FAILED, "gave up after 0 attempts"
        return action

    return executed(scene("pick_place", upright), in_mode("approach", stop), horizon=20)


def drawer():
    return scene("articulated", lambda s, g: g[0].relation == "open" and of_category("dresser")(s, g))


def handle_slipped():
    return executed(drawer(), in_mode("move", open_jaws), horizon=60)


def joint_stuck():
    return executed(scene("articulated"), in_mode("move", stand_still), horizon=60)


def joint_crept():
    """A spring that the joint's friction does not hold."""
    return executed(replaced_joint(drawer(), stiffness=20.0, friction=0.05), horizon=90)


def diverged():
    """The record of a world whose simulation was reported broken."""
    return dataclasses.replace(late(), cause=DIVERGED)


def swung():
    """What is held is pushed against a neighbour until it turns in the jaws."""
    return collided()


def tipped():
    """A can is put down on the edge of a support."""

    def edge(p, view, action):
        p._goal_offset[0] = (0.0, 1.02 * view.half_extent[0, p._reference[0], 1])
        return action

    return executed(scene("pick_place", upright), in_mode("carry", edge), horizon=60)


PROVOKED = (
    missed, slipped, toppled, bumped, blocked, dropped, rolled, misplaced, goal_lost,
    collided, undone, no_plan, late, out_of_reach,
    gave_up,
    handle_slipped, joint_stuck, joint_crept, diverged, swung, tipped,
)  # fmt: skip


def test_every_kind_is_provoked():
    assert {f.__name__ for f in PROVOKED} == set(KINDS)


@pytest.mark.parametrize("provoke", PROVOKED, ids=lambda f: f.__name__)
def test_a_remark_of_every_kind(provoke):
    trajectory = provoke()
    assert not trajectory.success
    critique = INSPECTOR.inspect(trajectory)
    kind = provoke.__name__
    assert kind in critique.kinds, [r.message for r in critique.remarks]
    remark = next(r for r in critique.remarks if r.kind == kind)
    assert 0 <= remark.step < len(trajectory.skills) and remark.message and remark.amount >= 0
    assert remark.object in ("", *trajectory.episode.spec.object_ids)
    assert [r.step for r in critique.remarks] == sorted(r.step for r in critique.remarks)


def test_what_is_measured():
    (remark,) = (r for r in INSPECTOR.inspect(bumped()).remarks if r.kind == "bumped")
    assert remark.by.endswith(("finger", "fingers")) or remark.by == "hand"
    assert remark.amount > 0.015 and remark.unit == "m" and remark.skill == "approach"


def last(trajectory, kind):
    return [r for r in INSPECTOR.inspect(trajectory).remarks if r.kind == kind][-1]


def test_amounts_are_those_of_the_record():
    trajectory = dropped()
    remark = last(trajectory, "dropped")
    target = Record(trajectory, ALL).position(remark.object)[:, 2]
    assert remark.amount == pytest.approx(target[remark.step] - target[remark.step : remark.step + 9].min(), abs=1e-4)
    assert remark.amount > 0.04  # let go 0.05 m above where it stood
    trajectory = blocked()
    remark, record = last(trajectory, "blocked"), Record(trajectory, ALL)
    above = record.position(remark.object)[-1, 2] - record.rest_z(0, record.steps)
    assert remark.amount == pytest.approx(above, abs=2e-3) and remark.skill == "lower"
    trajectory = joint_stuck()
    value, (low, high) = trajectory.views.articulation[-1, 7], trajectory.views.articulation_range[0, 7]
    assert f"stood still at {(value - low) / (high - low):.2f}" in last(trajectory, "joint_stuck").message


def test_a_shaken_hand_that_comes_no_further_is_blocked():
    """As the noise of demonstrations shakes it: further than what counts as still."""
    rng, at = np.random.default_rng(0), []

    def shaken(p, view, action):
        at.append(np.asarray(view.ee_pos[0], float))
        action[:3] = 1.6 * (at[0] - at[-1]) / 0.05 + 0.15 * rng.standard_normal(3)
        return action

    trajectory = executed(scene("pick_place", upright), in_mode("lower", shaken), horizon=80)
    remark, record = last(trajectory, "blocked"), Record(trajectory, ALL)
    assert np.linalg.norm(record.ee[-12:] - record.ee[-1], axis=1).max() > 0.004
    left = record.position(remark.object)[-1, 2] - record.rest_z(0, record.steps)
    assert left > 0.03 and remark.amount == pytest.approx(left, abs=0.01)


def test_a_goal_reached_first_in_the_other_order_is_not_misplaced():
    spec = scene("put_inside", lambda s, g: commute(g))
    reverse = PlanParameters(reverse=1)
    whole = executed(spec, parameters=reverse)
    assert whole.success
    runs = Record(whole, ALL).runs()
    cut = executed(spec, parameters=reverse, horizon=next(end for skill, _, end in runs if skill == "retreat") + 6)
    record = Record(cut, ALL)
    assert record.holds(1, record.steps) and not record.holds(0, record.steps)
    assert INSPECTOR.inspect(cut).kinds == ("late",)


def test_the_release_is_looked_at_when_the_jaws_open():
    """After a long rest, which is no part of the fall."""

    def high(p, view, action):
        if p.mode_name(0) == "carry" and view.pos[0, p._target[0], 2] > view.pos0[0, p._target[0], 2] + 0.05:
            p.mode[0], p._wait[0] = planner.RELEASE, 0
        return action

    trajectory = executed(scene("pick_place", upright), high, PlanParameters(rest_steps=12), horizon=50)
    record = Record(trajectory, ALL)
    first = next(a for skill, a, _ in record.runs() if skill == "release")
    assert last(trajectory, "dropped").step == first + 12


def test_what_is_lost_and_lies_was_not_knocked_over():
    assert toppled().cause == "knocked the target over"
    push = in_mode("approach", sweep(target_token, 0.03, (1.0, 0.0)))

    def let_go_and_push(p, view, action):
        return push(p, view, action) if p._attempt[0] else in_mode("carry", open_jaws)(p, view, action)

    lost = executed(scene("pick_place", upright), let_go_and_push, horizon=60)
    assert lost.cause == "the target lies on its side after an attempt"
    assert "slipped" in (kinds := INSPECTOR.inspect(lost).kinds) and "toppled" not in kinds


def test_a_record_ends_with_its_inspection(monkeypatch):
    seen = []
    monkeypatch.setattr(Record, "__init__", lambda self, *a, made=Record.__init__: (made(self, *a), seen.append(weakref.ref(self)))[0])
    INSPECTOR.inspect(slipped())
    gc.collect()
    assert seen and all(ref() is None for ref in seen)


def test_a_success_and_an_unknown_kind_are_refused():
    with pytest.raises(ValueError, match="inspect failures only"):
        INSPECTOR.inspect(executed(scene("articulated")))
    with pytest.raises(ValueError, match="no remark is called"):
        Remark(0, "approach", "sneezed", "", 0.0, "", "")
    with pytest.raises(ValueError, match="measured in m,"):
        Remark(0, "approach", "missed", "", 0.0, "s", "")
    for amount in (float("nan"), float("inf"), -0.1):
        with pytest.raises(ValueError, match="the amount of missed is .*: use a finite number"):
            Remark(0, "approach", "missed", "", amount, "m", "")
    with pytest.raises(ValueError, match="say gave_up"):
        Critique(())
