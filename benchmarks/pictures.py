"""Pictures per second of the renderers, and a sheet of what they draw: ``python -m benchmarks.pictures --sheet=docs/pictures.webp``.

Every figure is of one process: pictures (one camera, one state) per second of CPU time and of the clock, at 64x64 and 224x224, from the
front and the wrist, of a mixed batch of training scenes; compilation apart; warp's where it is installed. Whether they agree is tested in
tests/sim/test_raycast.py and test_warp_render.py.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from coda_jax import runtime
from coda_jax.scenes import families
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim import raycast, render, warp_extra, warp_render
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.cameras import OBSERVED, Camera
from coda_jax.sim.compile import CompiledScene, compile_scene
from coda_jax.sim.frames import BACKGROUND, Frames
from coda_jax.sim.shading import FAR_M

FAMILIES = ("pick_place", "articulated", "put_inside", "stack_insert")
_PALETTE = np.array(
    [(230, 60, 60), (60, 160, 230), (70, 190, 90), (240, 180, 40), (160, 90, 200), (240, 120, 180), (120, 90, 60), (0, 140, 140),
     (205, 195, 180), (90, 90, 100), (245, 247, 250)], np.uint8
)  # fmt: skip  # of a segmentation: tokens 0..7, table, robot, background


def scenes_of(count: int) -> tuple[list[CompiledScene], np.ndarray]:
    """Training scenes of all families in one bucket, and a state of each with the arm moved."""
    catalogue, bucket, rng = Catalogue("train"), Bucket(6, 6, True), np.random.default_rng(0)
    assert set(FAMILIES) <= set(families.names())
    made = [compile_scene(sample_spec(catalogue, FAMILIES[i % 4], "id", "train", i), catalogue, bucket) for i in range(count)]
    qpos = np.stack([s.qpos for s in made])
    qpos[:, :7] += rng.uniform(-0.15, 0.15, (count, 7))
    return made, qpos


def rates(draw: Callable[[], object], pictures: int) -> tuple[float, float, float]:
    """Seconds of the first call, then pictures per second of CPU time and of the clock."""
    began = time.perf_counter()
    draw()
    first = time.perf_counter() - began
    cpu, clock = time.process_time(), time.perf_counter()
    draw()
    return first, pictures / (time.process_time() - cpu), pictures / (time.perf_counter() - clock)


def measure(states: int) -> None:
    """Print one line for each renderer, camera and size."""
    made, qpos = scenes_of(states)
    models = [s.model for s in made]
    print(f"{runtime.device_summary()}; {states} states of different scenes in one batch, {models[0].ngeom} geoms in the bucket")
    for size in (64, 224):
        for name, camera in zip(("front", "wrist"), OBSERVED, strict=True):

            def native(camera: Camera = camera, size: int = size) -> Frames:
                return render.frames(models, qpos, camera, height=size, width=size, samples=1)

            def ours(camera: Camera = camera, size: int = size) -> Frames:
                return raycast.frames(models, qpos, camera, height=size, width=size)

            def warp(camera: Camera = camera, size: int = size) -> Frames:
                return warp_render.frames(models, qpos, camera, height=size, width=size)

            chosen = [("native", native), ("jax", ours)] + [("warp", warp)] * warp_extra.installed()
            for renderer, draw in chosen:
                first, cpu, clock = rates(draw, states)
                print(f"{renderer:7} {name} {size}x{size}: {cpu:7.0f} per CPU-s, {clock:7.0f} per s; first call {first:.1f} s", flush=True)


def sheet(path: Path, size: int = 224) -> None:
    """Draw four scenes, one of each family: colours, depth and segmentation of both cameras, by the jax renderer."""
    made, qpos = scenes_of(4)
    columns = []
    for camera in OBSERVED:
        found = raycast.frames([s.model for s in made], qpos, camera, height=size, width=size)
        near = found.depth[found.depth < FAR_M]
        grey = np.clip((np.quantile(near, 0.99) - found.depth) / np.ptp(np.quantile(near, (0.01, 0.99))), 0, 1)
        depth = np.repeat((255 * np.where(found.segmentation == BACKGROUND, 1, grey))[..., None], 3, -1).astype(np.uint8)
        columns += [found.rgb, depth, _PALETTE[found.segmentation]]
    rows = [np.concatenate([column[i] for column in columns], axis=1) for i in range(len(made))]
    Image.fromarray(np.concatenate(rows)).save(path, quality=80)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=16)
    parser.add_argument("--sheet", type=Path)
    chosen = parser.parse_args()
    runtime.setup()
    if chosen.sheet:
        sheet(chosen.sheet)
    else:
        measure(chosen.states)
