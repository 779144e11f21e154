"""What physics says of initial states: goals on MuJoCo's arrays, nudges, and how states settle."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from coda_jax.evaluation.libero import starts
from coda_jax.evaluation.libero.starts import Goal
from coda_jax.scenes.libero import states, tasks
from coda_jax.scenes.libero.bddl import Atom, Problem, Thing

SCENE = """
<mujoco>
  <worldbody>
    <body name="floor"><geom type="plane" size="1 1 0.1"/></body>
    <body name="ball_1_main" pos="0 0 0.02"><freejoint name="ball_1_joint0"/><geom type="sphere" size="0.02"/></body>
    <body name="plate_1_main" pos="0.2 0 0.005"><freejoint name="plate_1_joint0"/><geom type="box" size="0.05 0.05 0.005"/></body>
    <body name="box_1_main" pos="0 0.5 0">
      <geom type="box" size="0.1 0.1 0.05"/>
      <site name="box_1_top_side" pos="0 0 0.05" type="box" size="0.08 0.08 0.001"/>
      <body name="box_1_drawer" pos="0 0 0.2">
        <joint name="box_1_slide" type="slide" axis="0 1 0" range="-0.16 0.01"/>
        <geom type="box" size="0.05 0.05 0.01"/>
        <site name="box_1_top_region" type="box" pos="0 0 0.05" size="0.04 0.04 0.03"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
THINGS = (Thing("ball_1", "ball"), Thing("plate_1", "plate"))


def problem(*goal: Atom) -> Problem:
    return Problem("made", "up", (), (Thing("box_1", "box"),), THINGS, (), (), goal)


def judged(predicate: str, names: tuple[str, ...], ball=None, drawer: float = 0.0) -> bool:
    model = mujoco.MjModel.from_xml_string(SCENE)
    data = mujoco.MjData(model)
    if ball is not None:
        data.qpos[:3] = ball
    data.qpos[model.joint("box_1_slide").qposadr[0]] = drawer
    mujoco.mj_forward(model, data)
    return Goal(model, problem(Atom(predicate, names))).holds(data)


@pytest.mark.parametrize(
    ("predicate", "names", "ball", "drawer", "expected"),
    [
        ("on", ("ball_1", "plate_1"), (0.2, 0, 0.0295), 0.0, True),
        ("on", ("ball_1", "plate_1"), (0.24, 0, 0.0295), 0.0, False),  # further than 0.03 m
        ("on", ("ball_1", "plate_1"), (0.2, 0, 0.05), 0.0, False),  # no contact
        ("on", ("ball_1", "box_1_top_side"), (0, 0.5, 0.0695), 0.0, True),
        ("on", ("ball_1", "box_1_top_side"), (0, 0.5, 0.0895), 0.0, False),  # over it, touching nothing
        ("in", ("ball_1", "box_1_top_region"), (0, 0.5, 0.25), 0.0, True),
        ("in", ("ball_1", "box_1_top_region"), (0, 0.5, 0.25), -0.1, False),  # the drawer has left
        ("in", ("ball_1", "box_1_top_region"), (0, 0.4, 0.212), -0.1, True),  # up to 0.01 m below the box
        ("in", ("ball_1", "box_1_top_region"), (0, 0.4, 0.208), -0.1, False),
        ("open", ("box_1_top_region",), None, -0.141, True),
        ("open", ("box_1_top_region",), None, -0.139, False),
        ("close", ("box_1_top_region",), None, 0.001, True),
        ("close", ("box_1_top_region",), None, 0.0, False),
        ("turnoff", ("box_1",), None, -0.001, True),
        ("turnoff", ("box_1",), None, 0.0, False),
        ("turnon", ("box_1",), None, 0.0, False),
    ],
)
def test_goals_on_mujoco_s_arrays(predicate, names, ball, drawer, expected):
    assert judged(predicate, names, ball, drawer) is expected


def test_a_nudge_shifts_joints_within_their_range_and_the_goal_s_things():
    model = mujoco.MjModel.from_xml_string(SCENE)
    data, start = mujoco.MjData(model), mujoco.MjData(model).qpos.copy()
    off = Goal(model, problem(Atom("turnoff", ("box_1",))))
    assert len(off.nudges()) == 1 and starts._nudged(model, data, off, start)
    on = Goal(model, problem(Atom("turnon", ("box_1",))))
    assert not starts._nudged(model, data, on, start)
    near = start.copy()
    near[:3] = (0.232, 0.0, 0.0295)
    placed = Goal(model, problem(Atom("on", ("ball_1", "plate_1"))))
    assert not starts._forward(model, data, near) or not placed.holds(data)
    assert starts._nudged(model, data, placed, near) and len(placed.nudges()) == 5


def test_what_settles_and_what_does_not():
    model = mujoco.MjModel.from_xml_string(SCENE)
    first = np.tile(mujoco.MjData(model).qpos, (4, 1))
    last, speeds = first.copy(), np.zeros((4, model.nv))
    last[1, :2] += 0.05
    last[2, 10:14] = (np.cos(0.4), np.sin(0.4), 0, 0)  # the plate is tilted by 0.8 rad
    speeds[3, 2] = 0.1
    last[0, 10:14] = (np.cos(0.4), 0, 0, np.sin(0.4))  # a turn about the vertical is none
    fallen, moved, restless = starts._settled(model, first, last, speeds)
    assert fallen.tolist() == [False, False, True, False]
    assert moved.tolist() == [False, True, False, False] and restless.tolist() == [False, False, False, True]


@pytest.mark.libero
@pytest.mark.slow
def test_known_starts_of_the_package():
    physics = starts.examine(every=25)
    knob = tasks.task("libero_goal_task/turn_on_the_stove")
    found = physics(knob, knob.problem(), states.read(knob.init))
    assert (found.tried, found.solved, found.nudged, found.error) == (2, 0, 2, "")  # "turn off the stove", the knob at 0
    falls = tasks.task("libero_spatial/pick_up_the_black_bowl_on_the_ramekin_and_place_it_on_the_plate")
    assert physics(falls, falls.problem(), states.read(falls.init)).fallen == 2
    wrong = physics(falls, falls.problem(), states.read(falls.init)[:, :-1])
    assert wrong.tried == 0 and "numbers" in wrong.error


@pytest.mark.libero
@pytest.mark.slow
@pytest.mark.parametrize(
    "key", ["libero_goal/turn_on_the_stove", "libero_10/STUDY_SCENE1_pick_up_the_book_and_place_it_in_the_back_compartment_of_the_caddy"]
)
def test_fixtures_are_put_where_the_official_environment_draws_them(key):
    task = tasks.task(key)
    own = starts.models.load(task)
    placed = starts.placed_fixtures(own, task.problem())
    moved = np.abs(placed.body_pos - own.model.body_pos).max(1)
    assert 0 < moved.max() <= 0.0101  # both draw within a centimetre
    assert (np.abs((placed.body_quat * own.model.body_quat).sum(1)) > 0.9999).all()
