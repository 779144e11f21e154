"""What another simulator reports of a LIBERO scene, the official one say, as the tokens that our policies see.

Its coordinates are put into the same task's own model, from which sizes, order of tokens and words come. Poses of gripper and free things
are those it reports: a running simulator shows them 2 ms older than its coordinates. So tokens are those of LiberoSimulator.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import mujoco
import numpy as np

from coda_jax.scenes.libero import importing, tasks
from coda_jax.sim.libero import layout, models
from coda_jax.sim.libero.layout import HAND, root_name
from coda_jax.sim.libero.models import TaskModel
from coda_jax.sim.libero.view import Reader
from coda_jax.sim.libero.worlds import GRIP_SITE, Worlds
from coda_jax.types import TOKENS, WorldView

_KEPT = 32  # tasks whose models are held; one takes some 3 MB
_FAR = 1e3  # beyond any coordinate or velocity
_UNIT = 1e-2  # by which a quaternion may differ from unit length


class ReportError(ValueError):
    """A report fits no scene; the message names the entry and what it must be."""


class _Reported:
    """One world as a Reader asks for it (Worlds), whose moments come from elsewhere."""

    def __init__(self, task: TaskModel):
        self.tasks, self.models = (task,), (copy.copy(task.model),)
        self._data = mujoco.MjData(self.models[0])
        self._site = self.models[0].site(GRIP_SITE).id
        self._hand = self.models[0].body(HAND).id

    def put(self, qpos: np.ndarray, qvel: np.ndarray, objects: Mapping[str, np.ndarray], grip: np.ndarray) -> None:
        """Take up a moment; fixtures stand where the model has them."""
        model, data = self.models[0], self._data
        mujoco.mj_resetData(model, data)  # nothing of the moment before
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_forward(model, data)
        self.qpos, self.qvel, self.sensordata = (np.array(x)[None] for x in (data.qpos, data.qvel, data.sensordata))
        self.xpos, self.xquat = np.array(data.xpos)[None], np.array(data.xquat)[None]
        self.site_xpos, self.site_xmat = np.array(data.site_xpos)[None], np.array(data.site_xmat)[None]
        for name, pose in objects.items():
            self._set(model.body(root_name(name)).id, pose)
        self._set(self._hand, np.concatenate([data.xpos[self._hand], grip[3:]]))
        self.site_xpos[0, self._site] = grip[:3]

    def _set(self, body: int, pose: np.ndarray) -> None:
        self.xpos[0, body], self.xquat[0, body] = pose[:3], pose[3:]

    @property
    def grip_pos(self) -> np.ndarray:
        return self.site_xpos[:, self._site]


@dataclasses.dataclass(frozen=True, eq=False)
class _Kept:
    world: _Reported
    reader: Reader
    fixtures: frozenset[str]
    free: frozenset[str]
    words: tuple[str, ...]


class Reports:
    """Turns reports into views, of one scene at a time."""

    def __init__(self):
        self._kept: collections.OrderedDict[str, _Kept] = collections.OrderedDict()

    def view(
        self,
        scene: str,
        qpos: np.ndarray,
        qvel: np.ndarray,
        fixtures: Mapping[str, np.ndarray],
        objects: Mapping[str, np.ndarray],
        grip: np.ndarray,
    ) -> tuple[WorldView, tuple[str, ...]]:
        """The view [1, ...] of a moment, and the words of every token. Poses: position (m) and quaternion (wxyz) [7], world frame.

        Args:
          scene: "suite/task", an "@n" behind it is not read. qpos, qvel: [q] and [v] of the official model of that task.
          fixtures, objects: name to pose of the root body, of all that the task has. grip: position of the grip site, quaternion of the
            hand.

        Raises:
          ReportError: numbers of another shape, not finite, or other things than the task's. InputError: there is no such task, or the
            package is missing.
        """
        kept = self._task(scene.partition("@")[0])
        model = kept.world.models[0]
        _numbers("qpos", qpos, (model.nq,))
        _numbers("qvel", qvel, (model.nv,))
        for kind, poses, names in (("fixtures", fixtures, kept.fixtures), ("objects", objects, kept.free)):
            if not isinstance(poses, Mapping) or set(poses) != names:
                raise ReportError(f"{kind} are {_listed(poses)}; the task has {_listed(names)}")
            for name, pose in poses.items():
                _pose(f"{kind}[{name}]", pose)
        _pose("grip", grip)
        for name, pose in fixtures.items():
            body = model.body(root_name(name))
            body.pos, body.quat = pose[:3], pose[3:]
        kept.world.put(qpos, qvel, objects, grip)
        return kept.reader.read(np.zeros(1, np.int32)), kept.words

    def _task(self, key: str) -> _Kept:
        if key not in self._kept:
            task = tasks.task(key)
            loaded = models.load(task)
            found = layout.of(loaded)
            world = _Reported(loaded)
            words = [thing.words for thing in found.things] + [""] * (TOKENS - len(found.things))
            things = importing.contents(loaded.problem)
            reader = Reader([(cast(Worlds, world), np.zeros(1, np.int64))], [found], np.ones((1, TOKENS)))
            self._kept[key] = _Kept(world, reader, frozenset(things.fixtures), frozenset(things.free), tuple(words))
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


def _numbers(name: str, values: np.ndarray, shape: tuple[int, ...]) -> None:
    if not isinstance(values, np.ndarray) or values.shape != shape or values.dtype.kind not in "if":
        found = f"{values.dtype} of shape {values.shape}" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"
        raise ReportError(f"{name} is {found}; it must be numbers of shape {shape}")
    if not (np.abs(values) <= _FAR).all():  # also refuses NaN
        raise ReportError(f"{name} holds numbers that are not finite or beyond {_FAR:g}")


def _pose(name: str, pose: np.ndarray) -> None:
    _numbers(name, pose, (7,))
    if abs(float(np.linalg.norm(pose[3:])) - 1) > _UNIT:
        raise ReportError(f"{name} has no quaternion (w, x, y, z) of unit length behind its position")


def _listed(names: Any) -> str:
    if not isinstance(names, (Mapping, frozenset)):
        return f"a {type(names).__name__}"
    return ", ".join(sorted(str(name)[:60] for name in names)[:8]) or "none"
