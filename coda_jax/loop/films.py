"""Pictures of scenes and film strips of rollouts, rendered again from stored states."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from coda_jax.evaluation.failures import PHASES, phase_reached
from coda_jax.evaluation.film import film_strip, pick_events, png_of, write_strip
from coda_jax.evaluation.results import Result
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim import platforms
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.cameras import Camera
from coda_jax.sim.observe import role_tokens
from coda_jax.sim.platforms import Drawable
from coda_jax.sim.render import frames, render
from coda_jax.sim.robot import Robot

HEIGHT, WIDTH = 120, 160
_MOST_PIXELS = 40_000_000  # of a user's picture; ten times as many would take a gigabyte
_LOOK_PX = 60  # height of the pictures by which a camera is chosen


def picture(spec: SceneSpec, catalogue: Catalogue, robot: Robot, height: int = 192, width: int = 256, wrist: bool = False) -> Image.Image:
    """The scene before anything moved, from the front; ``wrist``: beside it from the wrist.

    Raises:
      SceneError: the scene cannot be compiled.
    """
    platform = platforms.of(spec)
    scene, cameras = platform.drawable(spec, catalogue, None, robot), platform.cameras.both[: 2 if wrist else 1]
    views = [render(scene.model, scene.qpos[None], camera, height=height, width=width)[0] for camera in cameras]
    return Image.fromarray(np.concatenate(views, axis=1))


def camera_for(scene: Drawable, qpos: np.ndarray, filmed: Sequence[Camera], tokens: Sequence[int], threads: int) -> Camera:
    """The camera of ``filmed`` that sees most of ``tokens`` over the states ``qpos`` [n, q]; of equal ones the first."""
    shares = []
    for camera in filmed:
        drawn = frames(scene.model, qpos, camera, height=_LOOK_PX, width=_LOOK_PX * WIDTH // HEIGHT, samples=1, threads=threads)
        seen = np.isin(drawn.segmentation, tokens).sum((1, 2))
        shares.append(float((seen / max(1, seen.max())).mean()))  # of what is seen of it when nothing stands before it
    return filmed[int(np.argmax(np.round(shares, 2)))]


def strip(
    scene: Drawable, spec: SceneSpec, catalogue: Catalogue, qpos: np.ndarray, captions: Sequence[str], success: bool, threads: int
) -> Image.Image:
    """A film strip of the states ``qpos`` [f, q], from where the task's target is seen best."""
    qpos = platforms.coordinates(scene, qpos)
    camera = camera_for(scene, qpos, platforms.of(spec).cameras.filmed, role_tokens(spec, catalogue)[::2], threads)
    pictures = render(scene.model, qpos, camera, height=HEIGHT, width=WIDTH, threads=threads)
    return film_strip(pictures, captions, title=spec.task.instruction, success=success)


def as_png(raw: bytes, most_px: int = 1024) -> bytes:
    """Any picture that Pillow reads, as PNG of at most ``most_px`` pixels along its longer side.

    Raises:
      ValueError: it is no picture, damaged, or far too large.
    """
    try:
        with Image.open(io.BytesIO(raw)) as opened:
            if opened.width * opened.height > _MOST_PIXELS:
                raise ValueError(f"it has {opened.width}x{opened.height} pixels, at most {_MOST_PIXELS:,} are drawn: give a smaller one")
            drawn = opened.convert("RGB")
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"it cannot be read as a picture ({type(error).__name__})") from error
    drawn.thumbnail((most_px, most_px))
    return png_of(drawn)


def write_film(path: Path, result: Result, catalogue: Catalogue, bucket: Bucket, robot: Robot, threads: int) -> None:
    """The film strip of one finished rollout: the moments in which it got further, the furthest phase under each frame."""
    spec, reached = result.episode.spec, phase_reached(result.predicates[:, : 1 + len(PHASES)])
    steps = pick_events(reached)
    scene = platforms.of(spec).drawable(spec, catalogue, bucket, robot)
    captions = [f"{step + 1} {reached[step]}" for step in steps]
    write_strip(path, strip(scene, spec, catalogue, result.qpos[steps], captions, result.success, threads))
