"""Which planner certifies the scenes of a family, and all of them in one batch of worlds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.libero.tasks import FAMILIES
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.joint_planner import JointPlanner
from coda_jax.sim.libero.planner.planner import LiberoPlanner
from coda_jax.sim.planner import PlannerSettings, ScriptedPlanner
from coda_jax.sim.supervision.parameters import PlanParameters
from coda_jax.types import ACTION_DIM, WorldView


class Planner(Protocol):
    """Plans and acts in ``W`` worlds; those that it was given no scene for are failed and stand still."""

    cause: list[str]
    """Why a world failed, by world."""

    @property
    def failed(self) -> np.ndarray:
        """[b] bool."""
        ...

    def restart(self, worlds: Sequence[int], specs: Sequence[SceneSpec], view: WorldView, parameters: Sequence[PlanParameters]) -> None:
        """Plan the given worlds anew, each with its parameters; one without a plan fails with its cause."""
        ...

    def act(self, view: WorldView) -> np.ndarray:
        """Clean actions [b, 7] for the measured state."""
        ...

    def tolerance(self, view: WorldView) -> np.ndarray:
        """[b] in 0..1: how much disturbance the motion takes."""
        ...

    def mode_name(self, world: int) -> str:
        """What a world is doing, for messages."""
        ...

    def attempts_of(self, world: int) -> int:
        """Grasps tried in the world's present episode."""
        ...

    def grasps_of(self, world: int) -> int:
        """The parameter ``grasp`` of the world's present episode asks for the same again after so many; 1 where it changes nothing."""
        ...


Maker = Callable[[Catalogue, int, PlannerSettings], Planner]
_MAKERS: dict[str, Maker] = {"articulated": JointPlanner, **dict.fromkeys(FAMILIES, LiberoPlanner)}


def register(family: str, maker: Maker) -> None:
    """Let another planner certify a family; without one it is ``ScriptedPlanner``, which asks the family for its places."""
    _MAKERS[family] = maker


class Planners:
    """The planners of every family that has a scene in the batch; each world follows its scene's."""

    def __init__(self, catalogue: Catalogue, worlds: int, settings: PlannerSettings):
        self._catalogue, self._worlds, self._settings = catalogue, worlds, settings
        self._made: dict[Maker, Planner] = {}
        self._numbers: dict[Maker, int] = {}
        self._owner = np.full(worlds, -1)  # number of the world's planner

    def _of(self, world: int) -> Planner:
        return list(self._made.values())[self._owner[world]]

    def restart(self, worlds: Sequence[int], specs: Sequence[SceneSpec], view: WorldView, parameters: Sequence[PlanParameters]) -> None:
        """Plan the given worlds anew, each by its family's planner."""
        chosen = [_MAKERS.get(spec.task.family, ScriptedPlanner) for spec in specs]
        for maker in dict.fromkeys(chosen):
            if maker not in self._made:
                self._numbers[maker] = len(self._made)
                self._made[maker] = maker(self._catalogue, self._worlds, self._settings)
            mine = [i for i, other in enumerate(chosen) if other is maker]
            self._owner[[worlds[i] for i in mine]] = self._numbers[maker]
            self._made[maker].restart([worlds[i] for i in mine], [specs[i] for i in mine], view, [parameters[i] for i in mine])

    def _merged(self, parts: Sequence[np.ndarray], empty: np.ndarray) -> np.ndarray:
        for number, part in enumerate(parts):
            mine = self._owner == number
            empty[mine] = part[mine]
        return empty

    @property
    def failed(self) -> np.ndarray:
        """[b] bool."""
        return self._merged([p.failed for p in self._made.values()], np.ones(self._worlds, bool))

    def act(self, view: WorldView) -> np.ndarray:
        """Clean actions [b, 7]."""
        return self._merged([p.act(view) for p in self._made.values()], np.zeros((self._worlds, ACTION_DIM)))

    def tolerance(self, view: WorldView) -> np.ndarray:
        """[b] in 0..1."""
        return self._merged([p.tolerance(view) for p in self._made.values()], np.zeros(self._worlds))

    def cause_of(self, world: int) -> str:
        """Why a world failed; empty where it did not."""
        return self._of(world).cause[world]

    def mode_name(self, world: int) -> str:
        """What a world is doing."""
        return self._of(world).mode_name(world)

    def attempts_of(self, world: int) -> int:
        """Grasps tried in the world's present episode."""
        return self._of(world).attempts_of(world)

    def grasps_of(self, world: int) -> int:
        """After how many the parameter ``grasp`` of the world's present episode asks for the same again."""
        return self._of(world).grasps_of(world)
