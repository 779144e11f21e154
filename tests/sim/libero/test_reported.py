"""A report of a scene's coordinates gives the tokens that the native simulator shows of the same moment."""

import numpy as np
import pytest

from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.libero import families, importing, tasks
from coda_jax.sim import platforms
from coda_jax.sim.libero.layout import HAND, root_name
from coda_jax.sim.libero.reported import ReportError, Reports
from coda_jax.sim.libero.simulator import LiberoSimulator
from coda_jax.sim.simulator import episode_of
from coda_jax.types import EPISODE_FIELDS, STEP_FIELDS

pytestmark = pytest.mark.libero
SUITES = ("libero_goal_swap", "libero_object", "libero_spatial")


class Moving:
    """Worlds in motion, and what the official runner would report of each."""

    def __init__(self):
        self.specs = [importing.initial_scene(tasks.tasks(suite)[3], 4, 5) for suite in SUITES]
        self.sim = LiberoSimulator(len(SUITES))
        batch = self.sim.compile([episode_of(spec, 20, (0, 0)) for spec in self.specs])
        chunk = np.random.default_rng(0).uniform(-1, 1, (len(SUITES), 6, 7))
        self.state, _ = self.sim.step_chunk(batch, self.sim.reset(batch), chunk)
        self.models = [scene.model for scene in batch.models]
        self.problems = [scene.task.problem for scene in batch.models]

    def report(self, world):
        model, things = self.models[world], importing.contents(self.problems[world])
        group = next(g for g in self.sim._groups if world in g.rows)
        place, worlds = list(group.rows).index(world), group.worlds

        def pose(name):
            body = model.body(root_name(name)).id
            return np.concatenate([worlds.xpos[place, body], worlds.xquat[place, body]])

        physics = self.state.physics
        return {
            "scene": self.specs[world].spatial.layout,
            "qpos": physics["qpos"][world, : model.nq],
            "qvel": physics["qvel"][world, : model.nv],
            "fixtures": {name: pose(name) for name in things.fixtures},
            "objects": {name: pose(name) for name in things.free},
            "grip": np.concatenate([worlds.grip_pos[place], worlds.xquat[place, model.body(HAND).id]]),
        }


@pytest.fixture(scope="module")
def moving():
    families.add()
    yield Moving()
    families.remove()


def test_reported_tokens_are_the_simulators(moving):
    reports = Reports()
    for world in (0, 1, 2, 0):
        view, words = reports.view(**moving.report(world))
        for name in (*STEP_FIELDS, *EPISODE_FIELDS):
            wanted = np.asarray(getattr(moving.state.view, name)[world], float)
            np.testing.assert_allclose(np.asarray(getattr(view, name)[0], float), wanted, atol=1e-7, err_msg=f"{name} of world {world}")
        assert np.abs(moving.state.view.ee_pos[world]).max() > 0.1 and len([w for w in words if w]) == view.present.sum()


NAN = np.full(7, np.nan)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"qpos": np.zeros(3)}, r"qpos is float64 of shape \(3,\); it must be numbers of shape \(41,\)"),
        ({"qvel": [0.0] * 37}, "qvel is a list"),
        ({"qvel": np.full(37, 1e9)}, "qvel holds numbers"),
        ({"fixtures": {}}, "fixtures are none; the task has flat_stove_1, "),
        ({"objects": 3}, "objects are a int"),
        ({"grip": NAN}, "grip holds numbers that are not finite"),
        ({"grip": np.zeros(7)}, "grip has no quaternion"),
    ],
)
def test_reports_that_fit_no_scene_are_refused(moving, changed, said):
    with pytest.raises(ReportError, match=said):
        Reports().view(**(moving.report(0) | changed))


def test_a_scene_that_is_no_task_is_refused(moving):
    for scene in ("libero_goal/no_such_task", "../../etc/passwd", "", "libero_goal"):
        with pytest.raises(InputError):
            Reports().view(**(moving.report(0) | {"scene": scene}))


def test_tasks_whose_regions_leave_no_draw_are_known_too():
    """The stove of this one lies under its bowl and plate: only the suite's own states are apart."""
    task = next(t for t in tasks.tasks("libero_goal_swap") if t.name == "turn_on_the_stove")
    spec = importing.initial_scene(task, 0, 0)
    words = Reports()._task(task.key).words
    assert list(words) == platforms.of(spec).token_words(spec, Catalogue.all()) and words[0]
