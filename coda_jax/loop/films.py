"""Pictures of scenes and film strips of rollouts, rendered again from stored states."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from coda_jax.evaluation.failures import PHASES, phase_reached
from coda_jax.evaluation.film import film_strip, pick_steps, write_strip
from coda_jax.evaluation.results import Result
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.cameras import FRONT, Camera
from coda_jax.sim.compile import bucket_of, compile_scene
from coda_jax.sim.render import render
from coda_jax.sim.robot import Robot

HEIGHT, WIDTH = 96, 128


def picture(
    spec: SceneSpec, catalogue: Catalogue, robot: Robot, height: int = 192, width: int = 256, cameras: tuple[Camera, ...] = (FRONT,)
) -> Image.Image:
    """The scene before anything moved, one picture per camera side by side.

    Raises:
      SceneError: the scene cannot be compiled.
    """
    scene = compile_scene(spec, catalogue, bucket_of(spec, catalogue), robot)
    frames = [render(scene.model, scene.qpos[None], camera, height=height, width=width)[0] for camera in cameras]
    return Image.fromarray(np.concatenate(frames, axis=1))


def as_png(raw: bytes, most_px: int = 1024) -> bytes:
    """Any picture that Pillow reads, as PNG of at most ``most_px`` pixels along its longer side.

    Raises:
      ValueError: it is no picture, damaged, or far too large.
    """
    try:
        with Image.open(io.BytesIO(raw)) as opened:
            drawn = opened.convert("RGB")
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"it cannot be read as a picture ({type(error).__name__})") from error
    drawn.thumbnail((most_px, most_px))
    buffer = io.BytesIO()
    drawn.save(buffer, "PNG")
    return buffer.getvalue()


def write_film(path: Path, result: Result, catalogue: Catalogue, bucket: Bucket, robot: Robot, threads: int) -> None:
    """The film strip of one finished rollout, with the furthest phase under each frame."""
    steps = pick_steps(result.steps)
    reached = phase_reached(result.predicates[:, : 1 + len(PHASES)])
    scene = compile_scene(result.episode.spec, catalogue, bucket, robot)
    frames = render(scene.model, result.qpos[steps], FRONT, height=HEIGHT, width=WIDTH, threads=threads)
    captions = [f"{step + 1} {reached[step]}" for step in steps]
    write_strip(path, film_strip(frames, captions, title=result.episode.spec.task.instruction, success=result.success))
