"""Where the scenes of a family are simulated: on our own table, or in the world of another benchmark.

Everything in the loop that depends on how scenes are built asks the platform; episodes, policies, critics and agents are the same on
every one. A family names its platform, and a run has one.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import mujoco
import numpy as np

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families import TABLETOP, family_of
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.cameras import Camera
from coda_jax.sim.robot import Robot
from coda_jax.sim.simulator import Simulator

if TYPE_CHECKING:  # platforms import what they are made of when they are asked for
    from coda_jax.sim.supervision.remarks import Inspector
    from coda_jax.sim.validity import Report, ValiditySettings

_MODULES = {TABLETOP: "coda_jax.sim.tabletop", "libero": "coda_jax.sim.libero.platform"}  # each with its PLATFORM


@dataclasses.dataclass(frozen=True)
class Cameras:
    """front, wrist: of pictures. filmed: for people; a film takes the one that sees most of what the task is about."""

    front: Camera
    wrist: Camera
    filmed: tuple[Camera, ...]

    @property
    def both(self) -> tuple[Camera, Camera]:
        return self.front, self.wrist


class Counted(Simulator, Protocol):
    """A native simulator. physics_steps: of all worlds over its life."""

    physics_steps: int


class Drawable(Protocol):
    """A scene that can be drawn. qpos: [q] before anything moves."""

    @property
    def model(self) -> mujoco.MjModel: ...

    @property
    def qpos(self) -> np.ndarray: ...


class Platform(Protocol):
    """What a platform offers. timestep_s: of physics. control_hz: control steps per second."""

    timestep_s: float
    control_hz: int
    cameras: Cameras

    def token_index(self, spec: SceneSpec, catalogue: Catalogue) -> dict[str, int]:
        """Token of everything that goals and roles of a scene may name. Raises SceneError where it holds more than there are tokens."""
        ...

    def token_words(self, spec: SceneSpec, catalogue: Catalogue) -> list[str]:
        """Words of every token, e.g. "red mug", "" where it is absent. Raises SceneError as ``token_index``."""
        ...

    def bucket(self, specs: Sequence[SceneSpec], catalogue: Catalogue) -> Bucket:
        """The smallest bucket that takes all of the scenes. Raises SceneError where one fits none."""
        ...

    def training_bucket(self, families: Sequence[str], catalogue: Catalogue) -> Bucket:
        """The smallest bucket that takes every training scene of the families."""
        ...

    def simulator(self, catalogue: Catalogue, bucket: Bucket, worlds: int, threads: int, robot: Robot) -> Counted:
        """A native simulator of so many worlds; threads: 0 for one per core."""
        ...

    def physics_steps(self, control_steps: int, scenes: int) -> int:
        """What such a simulator counts for ``control_steps`` over all worlds in so many different scenes."""
        ...

    def drawable(self, spec: SceneSpec, catalogue: Catalogue, bucket: Bucket | None, robot: Robot) -> Drawable:
        """A scene to draw, with the coordinates of ``bucket``; None for the smallest that takes it. Raises SceneError."""
        ...

    def check(self, specs: Sequence[SceneSpec], catalogue: Catalogue, settings: ValiditySettings) -> list[Report]:
        """Is each scene a fair task? One report per scene, in their order."""
        ...

    def inspector(self, catalogue: Catalogue) -> Inspector:
        """Who says from measurements what went wrong in a failed demonstration."""
        ...


def get(name: str) -> Platform:
    """The platform of a name; its module is imported when it is first asked for.

    Raises:
      ValueError: there is none; the known ones are listed.
    """
    if name not in _MODULES:
        raise ValueError(f"there is no platform {name!r}: use {' or '.join(_MODULES)}")
    return importlib.import_module(_MODULES[name]).PLATFORM


def of(spec: SceneSpec) -> Platform:
    """The platform of a scene's family. Raises ValueError where the family is not registered."""
    return get(family_of(spec).platform)


def token_index(spec: SceneSpec, catalogue: Catalogue) -> Mapping[str, int]:
    """Token of each id of a scene, as its platform numbers them."""
    return of(spec).token_index(spec, catalogue)


def coordinates(scene: Drawable, qpos: np.ndarray) -> np.ndarray:
    """Stored coordinates [..., q] as those of the scene's model: worlds of several structures are stored as wide as the largest."""
    return qpos[..., : scene.model.nq]


def check(specs: Sequence[SceneSpec], catalogue: Catalogue, settings: ValiditySettings) -> list[Report]:
    """Is each of the scenes, all of one platform, a fair task? One report per scene, in their order."""
    return of(specs[0]).check(specs, catalogue, settings) if specs else []
