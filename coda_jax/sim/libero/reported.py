"""What another simulator reports of a LIBERO scene, the official one say, as the tokens that our policies see.

Its coordinates are put into the same task's own model, from which sizes, order of tokens and words come: so tokens are those of
LiberoSimulator. Poses are those of the coordinates, where a running simulator shows them 2 ms older.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.libero import importing, tasks
from coda_jax.sim.libero import layout, models
from coda_jax.sim.libero.layout import root_name
from coda_jax.sim.libero.view import Reader
from coda_jax.sim.libero.worlds import Worlds
from coda_jax.sim.observe import scene_texts
from coda_jax.types import TOKENS, WorldView

_KEPT = 32  # tasks whose models are held; one takes some 3 MB
_FAR = 1e3  # beyond any coordinate or velocity
_UNIT = 1e-2  # by which a quaternion may differ from unit length


class ReportError(ValueError):
    """A report fits no scene; the message names the entry and what it must be."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Kept:
    worlds: Worlds
    reader: Reader
    fixtures: frozenset[str]
    words: tuple[str, ...]


class Reports:
    """Turns reports into views, of one scene at a time."""

    def __init__(self):
        self._kept: collections.OrderedDict[str, _Kept] = collections.OrderedDict()

    def view(
        self, scene: str, qpos: np.ndarray, qvel: np.ndarray, fixtures: Mapping[str, np.ndarray]
    ) -> tuple[WorldView, tuple[str, ...]]:
        """The view [1, ...] of a moment, and the words of every token.

        Args:
          scene: "suite/task", an "@n" behind it is not read. qpos, qvel: [q] and [v] of the official model of that task.
          fixtures: name to position (m) and quaternion (wxyz) [7] of its root body, world frame.

        Raises:
          ReportError: numbers of another shape, not finite, or other fixtures than the task's. InputError: there is no such task, or the
            package is missing.
        """
        kept = self._task(scene.partition("@")[0])
        model = copy.copy(kept.worlds.tasks[0].model)
        _numbers("qpos", qpos, (model.nq,))
        _numbers("qvel", qvel, (model.nv,))
        if set(fixtures) != kept.fixtures:
            raise ReportError(f"fixtures are {_listed(fixtures)}; the task has {_listed(kept.fixtures)}")
        for name, pose in fixtures.items():
            _numbers(f"fixtures[{name}]", pose, (7,))
            if abs(float(np.linalg.norm(pose[3:])) - 1) > _UNIT:
                raise ReportError(f"fixtures[{name}] has no quaternion (w, x, y, z) of unit length behind its position")
            body = model.body(root_name(name))
            body.pos, body.quat = pose[:3], pose[3:]
        kept.worlds.set_tasks(kept.worlds.tasks, (model,))
        kept.worlds.qpos[0], kept.worlds.qvel[0] = qpos, qvel
        kept.worlds.forward()
        return kept.reader.read(np.zeros(1, np.int32)), kept.words

    def _task(self, key: str) -> _Kept:
        if key not in self._kept:
            task = tasks.task(key)
            loaded = models.load(task)
            found = layout.of(loaded)
            worlds = Worlds([loaded], threads=1, callback=False)
            words, _ = scene_texts(importing.task_scene(task, 0), Catalogue.all())
            fixtures = importing.contents(loaded.problem).fixtures
            self._kept[key] = _Kept(worlds, Reader(worlds, [found], np.ones((1, TOKENS))), frozenset(fixtures), tuple(words))
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


def _listed(names: Sequence[str] | Mapping | frozenset) -> str:
    return ", ".join(sorted(str(name)[:60] for name in names)[:8]) or "none"
