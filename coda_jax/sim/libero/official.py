"""A child process that makes the official environment of one task once and keeps its compiled model, without what is only seen.

Run by ``models.load`` as ``python -m coda_jax.sim.libero.official``: the job is JSON on stdin, the answer one JSON line on stdout. Nothing
else of this project runs the package's code.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from coda_jax.sim.libero import control, sensors

SEED = 0  # of the reset that places the fixtures of the kept model; a scene's own placements replace them


def stripped(full: Any, xml: str) -> Any:
    """The model of ``xml`` without geoms that collide with nothing, textures and meshes nobody touches; compared with ``full``.

    Raises:
      ValueError: a number that physics reads differs from the full model's.
    """
    import mujoco
    import numpy as np

    spec = mujoco.MjSpec.from_string(xml)
    for geom in list(spec.geoms):
        if geom.contype == 0 and geom.conaffinity == 0:
            spec.delete(geom)
        else:
            geom.material = ""
    used = {geom.meshname for geom in spec.geoms}
    for site in spec.sites:
        site.material = ""
    for thing in (*(m for m in spec.meshes if m.name not in used), *spec.materials, *spec.textures):
        spec.delete(thing)
    spec.nuserdata = control.USERDATA
    sensors.add(spec)
    model = spec.compile()
    model.body_pos[:], model.body_quat[:] = full.body_pos, full.body_quat
    kept = np.flatnonzero((full.geom_contype != 0) | (full.geom_conaffinity != 0))
    whole = (
        "body_mass",
        "body_inertia",
        "body_ipos",
        "body_iquat",
        "body_invweight0",
        "jnt_range",
        "jnt_stiffness",
        "qpos0",
        "qpos_spring",
    )
    whole += ("dof_damping", "dof_armature", "dof_frictionloss", "dof_invweight0", "actuator_ctrlrange", "actuator_gainprm", "site_pos")
    rows = ("geom_type", "geom_size", "geom_pos", "geom_quat", "geom_friction", "geom_solref", "geom_solimp", "geom_margin", "geom_condim")
    for field, picked in [(f, slice(None)) for f in whole] + [(f, kept) for f in (*rows, "geom_bodyid", "geom_contype", "geom_priority")]:
        if not np.array_equal(getattr(full, field)[picked], getattr(model, field)):
            raise ValueError(f"{field} of the stripped model differs from the official one's")
    return model


def build(bddl: str, out: str) -> dict[str, Any]:
    """Write the stripped model to ``out``; returns what the model does not say itself."""
    import mujoco
    from libero.libero.envs.env_wrapper import ControlEnv  # pyright: ignore[reportMissingImports]

    env = ControlEnv(
        bddl_file_name=bddl, has_renderer=False, has_offscreen_renderer=False, use_camera_obs=False, ignore_done=True, horizon=10**6
    )
    env.seed(SEED)
    env.reset()
    full = env.sim.model._model
    mujoco.mj_saveModel(stripped(full, env.env.model.get_xml()), out)
    return {"home": [float(v) for v in env.robots[0].init_qpos], "mujoco": mujoco.__version__, "seed": SEED}


def main() -> None:
    job = json.loads(sys.stdin.read())
    with tempfile.TemporaryDirectory() as settings, contextlib.redirect_stdout(sys.stderr):
        os.environ["LIBERO_CONFIG_PATH"] = settings  # the installed package's own folders, whatever the user's settings say
        try:
            answer = build(job["bddl"], job["out"])
        except Exception as error:  # told to the parent, which words it
            answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
    if Path(job["out"]).exists() or "error" in answer:
        os._exit(0)  # the environment's own clean-up asks for a display


if __name__ == "__main__":
    main()
