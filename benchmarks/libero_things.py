"""Measure LIBERO's things again in the official environment, and say what differs from scenes/libero/things.py.

``python -m benchmarks.libero_things`` needs the package; it makes six official environments (a minute or two) and exits with 1 where a
number differs by more than EXACT.
"""

from __future__ import annotations

import argparse
import json
import math
import sys

import mujoco
import numpy as np

from coda_jax.scenes.libero import package, tasks, things
from coda_jax.scenes.libero.things import MODELS, Model

EXACT = 2e-5  # m, kg


def _points(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> np.ndarray:
    """Corners of a geom, world frame."""
    size, kind = model.geom_size[geom], model.geom_type[geom]
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = model.geom_dataid[geom]
        local = model.mesh_vert[model.mesh_vertadr[mesh] :][: model.mesh_vertnum[mesh]]
    elif kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        angle = np.linspace(0, 2 * np.pi, 64, endpoint=False)
        ring = [size[0] * np.cos(angle), size[0] * np.sin(angle)]
        local = np.concatenate([np.stack([*ring, np.full(64, side * size[1])], 1) for side in (-1, 1)])
    else:
        local = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)]) * size
    return local @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom]


def measured(model: mujoco.MjModel, name: str, up: tuple[float, ...]) -> dict[str, list[float]]:
    """Box, mass, friction and regions of one thing, joints at zero."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    root = model.body(f"{name}_main").id
    inside = {root}
    for body in range(root + 1, model.nbody):
        if model.body_parentid[body] in inside:
            inside.add(body)
    turn, origin = data.xmat[root].reshape(3, 3), data.xpos[root]
    upright = np.zeros(9)
    mujoco.mju_quat2Mat(upright, np.array(up))
    frame = turn @ upright.reshape(3, 3).T  # the thing's frame: axes along the base's at yaw 0
    solid = [g for g in range(model.ngeom) if model.geom_bodyid[g] in inside and (model.geom_contype[g] or model.geom_conaffinity[g])]
    points = np.concatenate([(_points(model, data, g) - origin) @ frame for g in solid])
    low, high = points.min(0), points.max(0)
    found = {
        "centre_m": list((low + high) / 2),
        "half_m": list((high - low) / 2),
        "mass_kg": [float(model.body_subtreemass[root])],
        "friction": sorted({float(model.geom_friction[g, 0]) for g in solid}),
    }
    for region in MODELS[_category(name)].regions:
        site = model.site(f"{name}_{region}").id
        half = abs(frame.T @ data.site_xmat[site].reshape(3, 3)) @ model.site_size[site]
        found[f"{region}.pos_m"] = list((data.site_xpos[site] - origin) @ frame)
        found[f"{region}.half_m"] = list(half)
    return found


def _category(name: str) -> str:
    return name.rsplit("_", 1)[0]


def stated(model: Model) -> dict[str, list[float]]:
    """The same of the table."""
    found = {"centre_m": list(model.centre_m), "half_m": list(model.half_m), "mass_kg": [model.mass_kg], "friction": [things.FRICTION]}
    for name, region in model.regions.items():
        found[f"{name}.pos_m"], found[f"{name}.half_m"] = list(region.pos_m), list(region.half_m)
    return found


def main(arguments: list[str]) -> int:
    argparse.ArgumentParser(
        prog="python -m benchmarks.libero_things", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args(arguments)
    from libero.libero.envs.env_wrapper import ControlEnv  # pyright: ignore[reportMissingImports]

    missing, different = set(MODELS), 0
    for family in tasks.FAMILIES:
        for task in tasks.tasks(family):
            problem = task.problem()
            new = {t.category: t.name for t in (*problem.fixtures, *problem.objects) if t.category in missing}
            if not new:
                continue
            env = ControlEnv(bddl_file_name=str(task.bddl), use_camera_obs=False, has_offscreen_renderer=False, has_renderer=False)
            env.seed(0)
            env.reset()
            for category, name in new.items():
                missing.discard(category)
                model = MODELS[category]
                now, table = measured(env.sim.model._model, name, model.up), stated(model)
                if category == "flat_stove":
                    now["friction"] = [f for f in now["friction"] if f == things.FRICTION]  # its knob has MuJoCo's own
                worst = max(abs(a - b) for key in table for a, b in zip(now[key], table[key], strict=True))
                different += not worst <= EXACT or not math.isfinite(worst)
                print(f"{category}: differs by {worst:.1e}", file=sys.stderr)
                print(json.dumps({"name": f"things_{category}", "value": worst, "unit": "m, kg", "versions": package.version()}))
            env.close()
    print(f"{different} of {len(MODELS)} things differ by more than {EXACT:g}", file=sys.stderr)
    return 1 if different or missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
