"""The planner certifies seed scenes of every family, and goes round what is too tall to be carried over."""

from __future__ import annotations

import math

import pytest

from coda_jax import config as settings
from coda_jax.loop import parts
from coda_jax.scenes import families
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.scenes.placement import Footprint, gap
from coda_jax.sim.compile import token_index
from coda_jax.sim.demonstrate import demonstrate, success_by_category
from coda_jax.sim.detour import way
from coda_jax.sim.plan import CLEARANCE_M, HIGHEST_TRAVEL_M, plan_step
from coda_jax.sim.simulator import episode_of
from coda_jax.sim.supervision.parameters import PlanParameters
from coda_jax.sim.validity import check

TRAIN, ALL = Catalogue("train"), Catalogue.all()


def demonstrated(specs, worlds=16, parameters=None):
    config = settings.default()
    config.sim.worlds = worlds
    sim = parts.native_simulator(config, ALL, parts.common_bucket(list(specs), ALL))
    jobs = [episode_of(s, settings.horizon(config, s.task.family), (i, 0)) for i, s in enumerate(specs)]
    return sorted(demonstrate(sim, ALL, jobs, parts.planner_of(config), None, 0, parameters), key=lambda t: t.episode.key)


@pytest.mark.parametrize("name", families.names())
def test_most_seed_scenes_are_certified(name):
    config = settings.default()
    config.sim.worlds = 16
    specs = [sample_spec(TRAIN, name, "id", "train", seed) for seed in range(16)]
    reports = check(specs, ALL, parts.validity_of(config))
    assert all(r.valid for r in reports), [f.message for r in reports for f in r.failures]
    assert sum(t.success for t in demonstrated(specs)) >= 0.8 * len(specs)


def test_families_share_a_batch_and_end_as_alone():
    specs = [sample_spec(TRAIN, name, "id", "train", 1) for name in families.names()]
    together = demonstrated(specs, 4)
    assert all(t.success for t in together)
    for spec, trajectory in zip(specs, together, strict=True):
        (alone,) = demonstrated([spec], 4)
        assert len(alone.actions) == len(trajectory.actions) and alone.success
    counted = success_by_category(together, ALL, by_family=True)
    assert {name.split()[0] for name in counted} == set(families.names())


def test_ways_keep_their_distance():
    wall = Footprint(0.5, 0.0, 0.02, 0.1, 0.3)
    for start, goal in (((0.4, 0.0), (0.6, 0.02)), ((0.42, -0.1), (0.6, 0.1)), ((0.4, 0.2), (0.6, 0.2))):
        points = way(start, goal, [wall], 0.05)
        assert points[-1] == goal
        ends = [start, *points]
        least = min(
            gap(Footprint(a[0] + t / 50 * (b[0] - a[0]), a[1] + t / 50 * (b[1] - a[1]), 1e-6, 1e-6, 0.0), wall)
            for a, b in zip(ends, points, strict=False)
            for t in range(51)
        )
        assert least > 0.045
        straight = math.dist(start, goal)
        length = sum(math.dist(a, b) for a, b in zip(ends, points, strict=False))
        assert (length > straight + 1e-6) == (start[1] < 0.15)  # the last one passes beside the wall
    near = way((0.47, 0.0), (0.6, 0.0), [wall], 0.2)  # nearer than the room asked for: it keeps what it has
    assert len(near) > 1
    assert way((0.4, 0.0), (0.6, 0.0), [], 0.1) == [(0.6, 0.0)]


def test_a_side_can_be_asked_for():
    wall = Footprint(0.5, 0.02, 0.02, 0.1, 0.3)  # the shorter way leads past its right end
    start, goal = (0.4, 0.0), (0.6, 0.0)
    shorter, with_it_right, with_it_left = (way(start, goal, [wall], 0.05, side) for side in (0, 1, -1))
    assert shorter == with_it_left and all(y < 0 for _, y in with_it_left[:-1])
    assert len(with_it_right) > 1 and all(y > 0 for _, y in with_it_right[:-1])
    assert way((0.4, 0.3), (0.6, 0.3), [wall], 0.05, 1) == way((0.4, 0.3), (0.6, 0.3), [wall], 0.05, -1) == [(0.6, 0.3)]


def test_a_tall_pile_is_passed_at_its_side():
    """A stool with a carton and a can on it stands between target and reference."""
    from coda_jax.programs.sandbox import Sandbox
    from coda_jax.scenes.program import evaluate_scene
    from tests.scenes.test_program import LIMITS

    text = """
result = scene(
    instruction="stow the red block in the white bin",
    family="put_inside",
    objects=[
        thing("block_1", asset="block_00", at=(0.42, -0.20), on="table", role="target", colour="red"),
        thing("carton_1", asset="carton_03", at=(0.50, -0.02), on="stand_1", role="obstacle", colour="blue"),
        thing("can_1", asset="can_02", at=(0.50, -0.02), on="carton_1", role="obstacle", colour="green"),
        thing("bin_1", asset="bin_00", at=(0.46, 0.20), on="table", role="reference", colour="white"),
        thing("stand_1", asset="stand_02", at=(0.50, -0.02), on="table", role="support", colour="black"),
    ],
    goal=inside("block_1", "bin_1"),
)
"""
    with Sandbox(LIMITS) as sandbox:
        spec = evaluate_scene(text, sandbox, TRAIN)
    (trajectory,) = demonstrated([spec], 1)
    start, index = trajectory.views, token_index(spec, ALL)
    plan = plan_step(spec, ALL, start.pos[0], start.quat[0], 0)
    assert max(f.top for f in plan.tall) + CLEARANCE_M > HIGHEST_TRAVEL_M >= plan.travel_z
    assert trajectory.success, trajectory.cause
    moved = [float(abs(start.pos[:, index[n]] - start.pos[0, index[n]]).max()) for n in ("carton_1", "can_1")]
    assert max(moved) < 0.005  # nothing was touched
    straight = way((0.42, -0.20), (0.46, 0.20), (), 0.0)
    assert len(way((0.42, -0.20), (0.46, 0.20), plan.tall, plan.room_m)) > len(straight)


@pytest.mark.parametrize("name", families.names())
def test_scenes_of_every_family_are_solved_round_what_stands_in_the_way(name):
    """Everything taller than 0.06 m is passed at its side, the handle's neighbours too."""
    specs = [sample_spec(TRAIN, name, "id", "train", seed) for seed in (1, 3)]
    found = demonstrated(specs, 2, lambda episode: PlanParameters(over_m=0.06))
    assert all(t.success for t in found), [t.cause for t in found]


def test_the_hand_goes_round_a_pile_to_a_handle():
    """A stool with a carton and a can on it stands between the hand and a drawer's handle."""
    from coda_jax.programs.sandbox import Sandbox
    from coda_jax.scenes.program import evaluate_scene
    from coda_jax.sim.joint_planner import plan_joint
    from tests.scenes.test_program import LIMITS

    text = """
result = scene(
    instruction="open the red dresser",
    family="articulated",
    objects=[
        thing("dresser_1", asset="dresser_00", at=(0.60, 0.22), on="table", role="target", colour="red", opening=0.0),
        thing("carton_1", asset="carton_03", at=(0.46, -0.10), on="stand_1", role="obstacle", colour="blue"),
        thing("can_1", asset="can_02", at=(0.46, -0.10), on="carton_1", role="obstacle", colour="green"),
        thing("stand_1", asset="stand_02", at=(0.46, -0.10), on="table", role="support", colour="black"),
    ],
    goal=at_least(opening("dresser_1"), 0.85),
)
"""
    with Sandbox(LIMITS) as sandbox:
        spec = evaluate_scene(text, sandbox, TRAIN)
    (trajectory,) = demonstrated([spec], 1)
    plan = plan_joint(spec, ALL, trajectory.views, 0)
    assert plan.tall and max(f.top for f in plan.tall) > plan.travel_z
    assert trajectory.success, trajectory.cause
    assert float(abs(trajectory.views.pos[:, :2] - trajectory.views.pos[0, :2]).max()) < 0.005  # nothing was touched
