"""LIBERO as a platform: worlds of any of its tasks mixed, 20 Hz, its own predicates (who plans in them: sim/planners.py)."""

from __future__ import annotations

import colorsys
import copy
import dataclasses
import functools
from collections.abc import Sequence

import mujoco
import numpy as np

from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.libero import tasks
from coda_jax.scenes.libero.importing import model_of
from coda_jax.scenes.libero.things import ASSETS
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.cameras import WRIST, Camera
from coda_jax.sim.checks.record import ValiditySettings
from coda_jax.sim.compile import SceneError
from coda_jax.sim.libero import layout, models, scene_model, sensors, validity
from coda_jax.sim.libero.control import SUBSTEPS
from coda_jax.sim.libero.inspector import LiberoInspector
from coda_jax.sim.libero.simulator import BUCKET, LiberoSimulator
from coda_jax.sim.platforms import Cameras
from coda_jax.sim.robot import Robot
from coda_jax.sim.validity import Report
from coda_jax.types import TOKENS

BASE, HAND = "robot0_base", "robot0_right_hand"  # bodies that cameras are mounted on: the base's frame is that of our scenes
# The cabinet hides what is behind it from the other side.
FRONT = Camera((1.32, 0.46, 0.84), (0.52, 0.0, 0.04), (0.0, 0.0, 1.0), 42.0, body=BASE)
FILMED = (
    Camera((1.24, 0.52, 0.66), (0.52, 0.0, 0.05), (0.0, 0.0, 1.0), 40.0, body=BASE),
    Camera((1.24, -0.52, 0.66), (0.52, 0.0, 0.05), (0.0, 0.0, 1.0), 40.0, body=BASE),
)
_GOLDEN = (5**0.5 - 1) / 2
_ROBOT, _SURFACE = (0.93, 0.93, 0.95), (0.72, 0.62, 0.52)
_COLOURS = {
    "akita_black_bowl": (0.12, 0.12, 0.12),
    "plate": (0.9, 0.9, 0.92),
    "glazed_rim_porcelain_ramekin": (0.95, 0.9, 0.85),
    "flat_stove": (0.35, 0.35, 0.38),
    "wooden_cabinet": (0.55, 0.38, 0.2),
    "wine_rack": (0.4, 0.26, 0.16),
    "basket": (0.7, 0.55, 0.3),
    "wine_bottle": (0.1, 0.35, 0.18),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Drawn:
    """A scene to draw: its model with every thing in a colour of its own, for only the shapes that collide are kept."""

    model: mujoco.MjModel
    qpos: np.ndarray


@functools.cache
def _index(layout_id: str) -> dict[str, int]:
    return layout.of(models.load(tasks.task(layout_id))).index


def index_of(spec: SceneSpec) -> dict[str, int]:
    """Token of every object, and from ENTITIES on every region.

    Raises:
      SceneError: the scene's layout is no task of the installed package.
    """
    try:
        return _index(spec.spatial.layout.partition("@")[0])
    except InputError as error:
        raise SceneError(str(error)) from error


def _colour(asset: str) -> tuple[float, ...]:
    """One of its own for every category."""
    category = model_of(asset).category
    return _COLOURS.get(category) or colorsys.hsv_to_rgb(list(ASSETS).index(asset) * _GOLDEN % 1.0, 0.75, 0.85)


class LiberoPlatform:
    """Platform Protocol."""

    timestep_s, control_hz = 0.05 / SUBSTEPS, 20
    cameras = Cameras(FRONT, dataclasses.replace(WRIST, body=HAND), FILMED)

    def token_index(self, spec: SceneSpec, catalogue: Catalogue) -> dict[str, int]:
        return index_of(spec)

    def token_words(self, spec: SceneSpec, catalogue: Catalogue) -> list[str]:
        words = [model_of(o.asset).words for o in spec.attributes.objects]
        return words + [""] * (TOKENS - len(words))

    def bucket(self, specs: Sequence[SceneSpec], catalogue: Catalogue) -> Bucket:
        return BUCKET

    def training_bucket(self, families: Sequence[str], catalogue: Catalogue) -> Bucket:
        return BUCKET

    def simulator(self, catalogue: Catalogue, bucket: Bucket, worlds: int, threads: int, robot: Robot) -> LiberoSimulator:
        return LiberoSimulator(worlds, threads)

    def physics_steps(self, control_steps: int, scenes: int) -> int:
        return (control_steps + scenes * tasks.SETTLE_STEPS) * SUBSTEPS

    def drawable(self, spec: SceneSpec, catalogue: Catalogue, bucket: Bucket | None, robot: Robot) -> Drawn:
        try:
            scene = scene_model.build(spec)
        except InputError as error:
            raise SceneError(str(error)) from error
        model = copy.copy(scene.model)
        colours = {layout.root_name(o.object): _colour(o.asset) for o in reversed(spec.attributes.objects)}
        for geom in range(model.ngeom):
            root = model.body(model.body_rootid[model.geom_bodyid[geom]]).name
            colour = colours.get(root) or (_SURFACE if root in sensors.SURFACES else _ROBOT)
            if model.geom_rgba[geom, 3] > 0:
                model.geom_rgba[geom] = (*colour, 1.0)
        return Drawn(model, scene.start[1 : 1 + model.nq])

    def check(self, specs: Sequence[SceneSpec], catalogue: Catalogue, settings: ValiditySettings) -> list[Report]:
        return validity.check(specs, settings)

    def inspector(self, catalogue: Catalogue) -> LiberoInspector:
        return LiberoInspector()


PLATFORM = LiberoPlatform()
