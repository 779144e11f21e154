"""What the loop asks of LIBERO's platform."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from coda_jax import config as settings
from coda_jax.loop import own_families, parts, recordings
from coda_jax.programs import expressions
from coda_jax.runtime import InputError
from coda_jax.scenes import families as known
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.fixes import fixed
from coda_jax.scenes.libero import families, importing, package, suites, tasks
from coda_jax.scenes.suites import load
from coda_jax.sim import platforms, recording
from coda_jax.sim.observe import role_tokens, scene_texts
from coda_jax.sim.render import frames
from coda_jax.sim.replay import replay
from coda_jax.sim.simulator import episode_of
from coda_jax.types import ENTITIES, TOKENS

TRAIN = Catalogue("train")


@pytest.fixture(scope="module", autouse=True)
def registered():
    families.add()
    yield
    families.remove()


@pytest.fixture
def config():
    found = settings.default()
    found.family, found.evaluate.suites = ",".join(tasks.FAMILIES), ("standard",)
    found.sim.worlds = 3
    return found


def drawn(family: str, seed: int = 0):
    return suites.seed_scene(family, seed)[1]


def test_a_run_without_the_package_says_what_to_install(config, monkeypatch):
    monkeypatch.setattr(package, "_root", lambda module: (_ for _ in ()).throw(InputError("is not installed here: pip install it")))
    package.find.cache_clear()
    with pytest.raises(InputError, match="pip install"):
        own_families.add(config)
    package.find.cache_clear()


@pytest.mark.libero
def test_tokens_words_and_roles_are_those_of_the_scene(config):
    for family in tasks.FAMILIES:
        spec = drawn(family)
        index = platforms.token_index(spec, TRAIN)
        objects = [name for name, place in index.items() if place < TOKENS]
        assert objects == list(spec.object_ids) and all(place >= ENTITIES for name, place in index.items() if name not in objects)
        words, said = scene_texts(spec, TRAIN)
        assert said == spec.task.instruction and [bool(w) for w in words] == [i < len(objects) for i in range(TOKENS)]
        target, reference = role_tokens(spec, TRAIN)
        assert objects[target] == known.read_goal(spec).target and objects[reference] == known.read_goal(spec).reference
        assert set(words) - {""} <= set(known.get(family).token_names(TRAIN)) | {
            "plate",
            "stove",
            "cabinet",
            "rack",
            "middle drawer",
            "basket",
        }


def moved(spec, place):
    """The scene with one thing at another place."""
    places = tuple(place if p.object == place.object else p for p in spec.spatial.placements)
    return dataclasses.replace(spec, spatial=dataclasses.replace(spec.spatial, placements=places))


@pytest.mark.libero
def test_scenes_as_they_are_drawn_are_fair_tasks_and_solved_ones_are_not(config):
    validity = parts.validity_of(config)
    assert [r.failures for r in platforms.check([drawn(family, 1) for family in tasks.FAMILIES], TRAIN, validity)] == [()] * 3
    spec = next(s for s in (drawn("libero_goal", seed) for seed in range(10)) if s.spatial.layout.endswith("/put_the_bowl_on_the_plate"))
    bowl, (x, y, z) = spec.placement("akita_black_bowl_1"), spec.placement("plate_1").pos_m
    solved = moved(spec, dataclasses.replace(bowl, pos_m=(x, y, z + 0.03), support="plate_1"))
    overlapping = moved(spec, dataclasses.replace(bowl, pos_m=(x + 0.07, y, bowl.pos_m[2])))
    nowhere = dataclasses.replace(spec, spatial=dataclasses.replace(spec.spatial, layout="libero_goal/fly_to_the_moon"))
    found = [{f.check for f in r.failures} for r in platforms.check([solved, overlapping, nowhere], TRAIN, validity)]
    assert "success" in found[0] and found[1] == {"penetration"} and found[2] == {"compile"}


@pytest.mark.libero
@pytest.mark.parametrize("family", tasks.FAMILIES)
def test_every_source_task_has_valid_draws(config, family):
    """Nobody would learn a task without any: bowls on the stove rest inside its burner, and one on the ramekin sinks over its rim."""
    config.sim.worlds = 20
    specs = [importing.task_scene(task, seed) for task in tasks.tasks(family) for seed in (1, 2)]
    reports = platforms.check(specs, TRAIN, parts.validity_of(config))
    refused = {s.spatial.layout.partition("@")[0]: r.failures for s, r in zip(specs, reports, strict=True) if r.failures}
    assert refused == {}


@pytest.mark.libero
def test_a_target_that_the_hand_does_not_reach_is_refused_and_brought_nearer(config):
    """There is table beyond the reach, where things may stand that nobody has to reach."""
    spec = next(s for s in (drawn("libero_goal", seed) for seed in range(10)) if s.spatial.layout.endswith("/put_the_bowl_on_the_plate"))
    bowl, workspace = spec.placement("akita_black_bowl_1"), known.family_of(spec).workspace
    far = moved(spec, dataclasses.replace(bowl, pos_m=(0.95, 0.0, bowl.pos_m[2])))
    assert workspace.takes(0.95, 0.0) and workspace.margin(0.95, 0.0) == pytest.approx(-0.11)
    (report,) = platforms.check([far], TRAIN, parts.validity_of(config))
    (failure,) = report.failures
    assert (failure.check, failure.object) == ("reach", bowl.object) and failure.amount == pytest.approx(0.11)
    (fix,) = failure.fixes
    assert workspace.reaches(*fixed(far, fix).placement(bowl.object).pos_m[:2])
    (report,) = platforms.check([fixed(far, fix)], TRAIN, parts.validity_of(config))
    assert report.failures == ()


@pytest.mark.libero
def test_a_goal_that_a_nudge_meets_is_no_task(config):
    off = next(s for s in load("libero_goal", "task", "validation") if s.task.goal.op == "libero_turned_off")
    (report,) = platforms.check([off], TRAIN, parts.validity_of(config))
    assert [f.check for f in report.failures] == ["success"] and "nudge" in report.failures[0].message


@pytest.mark.libero
def test_recorded_moments_give_the_predicates_of_the_rollout(config, tmp_path):
    specs = [drawn(family, 2) for family in tasks.FAMILIES]
    sim = parts.native_simulator(config, TRAIN, parts.training_bucket(config, TRAIN))
    actions = np.random.default_rng(0).uniform(-1, 1, (6, 7)).astype(np.float32)
    episodes = [episode_of(spec, 50, (i, 0)) for i, spec in enumerate(specs)]
    found = sorted(replay(sim, [(e, actions) for e in episodes]), key=lambda t: t.episode.key)
    path = tmp_path / "episodes" / "views.npz"
    path.parent.mkdir()
    recordings.write(path, recordings.packed([t.views for t in found]))
    views = recordings.unpacked(recordings.read(path), np.array([len(t.actions) for t in found]))
    for trajectory, read in zip(found, views, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(trajectory.views), jax.tree.leaves(read), strict=True))
        assert read.regions is not None
        spec = trajectory.episode.spec
        table = expressions.stack(
            [expressions.encode(trajectory.episode.predicates, platforms.token_index(spec, TRAIN))] * (len(actions) + 1)
        )
        again = np.asarray(expressions.evaluate(table, read))
        np.testing.assert_array_equal(again[1:], trajectory.predicates)
    again = recording.with_moving(views[0], recording.moving_of(views[0]))
    assert all(a is b for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(views[0]), strict=True))
    counted = parts.platform_of(config).physics_steps(sum(len(t.actions) for t in found), 3)
    assert counted == sim.physics_steps


@pytest.mark.libero
def test_pictures_are_of_the_states_of_each_scene(config):
    spec = drawn("libero_goal")
    platform = platforms.of(spec)
    scene = platform.drawable(spec, TRAIN, None, parts.robot_of(config))
    wide = np.zeros((2, 58))
    wide[:, : scene.model.nq] = scene.qpos
    assert np.array_equal(platforms.coordinates(scene, wide), np.stack([scene.qpos] * 2))
    seen = frames(scene.model, scene.qpos[None], platform.cameras.front, height=60, width=80, samples=1)
    assert seen.rgb.std() > 20 and (seen.depth < 3).mean() > 0.5


@pytest.mark.libero
def test_a_suite_without_its_initial_states_is_refused_before_any_work(config, tmp_path, monkeypatch):
    found = package.find()
    init = tmp_path / "init_files"
    for family in tasks.FAMILIES:
        (init / family).mkdir(parents=True)
        for task in tasks.tasks(family):
            (init / family / task.init.name).symlink_to(task.init)
    gone = tasks.tasks("libero_goal")[4]
    (init / "libero_goal" / gone.init.name).unlink()
    monkeypatch.setattr(package, "find", lambda: dataclasses.replace(found, init=init))
    with pytest.raises(InputError, match=f"1 tasks cannot be scored: {gone.key}.*leave their suites out"):
        own_families.add(config)


@pytest.mark.libero
def test_the_backend_that_is_asked_for_simulates(config, capsys):
    bucket = parts.common_bucket([drawn("libero_goal")], TRAIN)
    native = parts.simulator(config, TRAIN, bucket)
    config.sim.backend = "mjx"
    settings.validate(config)
    few, geoms = parts.simulator(config, TRAIN, bucket), []
    config.sim.mjx_worlds = 5
    assert (native.worlds, few.worlds, parts.simulator(config, TRAIN, bucket).worlds) == (3, 3, 5)
    assert "its executables take minutes to compile" in capsys.readouterr().err
    for sim in (native, few):
        geoms.append(sim.compile([episode_of(drawn("libero_goal"), 10, (0, 0))]).models[0].model.ngeom)
    assert geoms[1] < 0.6 * geoms[0]
