"""``--mode=view``: one scene as a picture, with what it asks for and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from coda_jax import config as settings
from coda_jax.loop import parts
from coda_jax.loop.check import read_program
from coda_jax.loop.evaluate import suite_scenes
from coda_jax.programs.errors import ProgramError
from coda_jax.programs.sandbox import Sandbox
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.program import evaluate_scene
from coda_jax.sim import render
from coda_jax.sim.compile import bucket_of, compile_scene
from coda_jax.sim.validity import check


def run(config: settings.Config, program: Path | None, suite: str, index: int, output: Path | None) -> Path:
    """Draw the scene of a program, or number ``index`` of a suite, from the front and from the wrist.

    Raises:
      InputError: the program is refused, or the suite or the number does not exist.
    """
    catalogue = Catalogue.all()
    if program is not None:
        try:
            with Sandbox(parts.limits_of(config)) as sandbox:
                spec = evaluate_scene(read_program(program, config.sandbox.text_bytes), sandbox, catalogue)
        except ProgramError as error:
            raise InputError(f"{program}: {error}") from None
    else:
        if suite not in settings.SUITES:
            raise InputError(f"--suite={suite} does not exist; use one of: {', '.join(settings.SUITES)}")
        scenes = suite_scenes(config, suite)
        if index >= len(scenes):
            raise InputError(f"--index={index}: suite {suite} has scenes 0 to {len(scenes) - 1}")
        spec = scenes[index]
    scene = compile_scene(spec, catalogue, bucket_of(spec, catalogue))
    views = [render.render(scene.model, scene.qpos[None], camera, height=360, width=480)[0] for camera in (render.FRONT, render.WRIST)]
    path = output or Path(f"scene_{spec.scene_id}.png")
    Image.fromarray(np.concatenate(views, axis=1)).save(path)
    print(f"{spec.scene_id}: {spec.task.instruction}")
    for attribute in spec.attributes.objects:
        place = spec.placement(attribute.object)
        position = ", ".join(f"{v:.3f}" for v in place.pos_m)
        where = f"({position}) m, yaw {place.yaw_rad:.2f} rad, on {place.support}"
        print(f"  {attribute.object:<14} {attribute.colour} {attribute.asset} at {where}")
    for failure in check([spec], catalogue, parts.validity_of(config))[0].failures:
        print(f"  invalid ({failure.check}): {failure.message}")
    print(f"picture: {path}")
    return path
