"""The official package itself loads what we write: the same places, goal and words."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from coda_jax.scenes.libero import bddl, exporting, importing, placing, tasks, things

OFFICIAL = """
import json, sys
from libero.libero.envs.env_wrapper import ControlEnv
env = ControlEnv(bddl_file_name=sys.argv[1], use_camera_obs=False, has_offscreen_renderer=False, has_renderer=False)
env.seed(1)
env.reset()
model, data = env.sim.model._model, env.sim.data._data
poses = {}
for name in (*env.env.objects_dict, *env.env.fixtures_dict):
    if name in env.env.objects_dict:
        at = model.joint(name + "_joint0").qposadr[0]
        poses[name] = data.qpos[at : at + 7].tolist()
    else:
        body = model.body(name + "_main")
        poses[name] = [*body.pos.tolist(), *body.quat.tolist()]
parsed = env.env.parsed_problem
print("ANSWER" + json.dumps([poses, parsed["goal_state"], parsed["language_instruction"], parsed["obj_of_interest"]]))
"""


@pytest.mark.libero
@pytest.mark.slow
@pytest.mark.parametrize(
    "key",
    [
        "libero_object/pick_up_the_milk_and_place_it_in_the_basket",
        "libero_goal/turn_on_the_stove",
        "libero_spatial/pick_up_the_black_bowl_in_the_top_drawer_of_the_wooden_cabinet_and_place_it_on_the_plate",
    ],
)
def test_the_official_environment_stands_as_the_scene_says(key, tmp_path):
    spec = importing.task_scene(tasks.task(key), 11)
    path, _ = exporting.write_files(spec, tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", OFFICIAL, str(path)], capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWER")]
    assert lines, done.stderr[-2000:]
    poses, goal, language, interest = json.loads(lines[-1].removeprefix("ANSWER"))
    problem = bddl.read(path)
    assert [(g[0], tuple(g[1:])) for g in goal] == [(a.predicate, a.names) for a in problem.goal]
    assert " ".join(language) == spec.task.instruction and interest == list(problem.of_interest)
    origin = placing.contents(problem).arena.origin_m
    for place in spec.spatial.placements:
        model = importing.model_of(spec.attribute(place.object).asset)
        if place.support != "table":
            continue
        root, quat = things.root_of(model, place.pos_m, place.yaw_rad)
        axes = 2 if model.free else 3  # free things are dropped from where the official sampler puts them
        assert np.allclose(poses[place.object][:axes], np.add(root, origin)[:axes], atol=2e-6)
        assert abs(np.dot(poses[place.object][3:], quat)) == pytest.approx(1, abs=1e-6)
