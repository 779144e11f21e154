"""The physical fingerprint of frozen scenes: which assets stand where, whatever the names, words, colours and order.

A changed scene id proves nothing: a hundredth of a millimetre changes it. So a scene is compared by what a policy would meet.
"""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Iterable
from importlib.resources.abc import Traversable

from coda_jax.scenes import suites
from coda_jax.scenes.spec import SceneSpec
from coda_jax.scenes.suites import FrozenScene

SAME_PLACE_M = 0.02  # the same asset with its centre this close stands where it stood
MOVED_THINGS = 1  # so many things of a frozen scene may be elsewhere, or gone, and it still is that scene


class FrozenIndex:
    """Frozen scenes by the assets that stand in them; a look-up reads only the places of the scene's own assets.

    Two scenes count as one if all things but MOVED_THINGS, and at least two, are the same asset within SAME_PLACE_M. Turns, heights,
    colours, scales, masses and the task do not count: scenes that are drawn on their own never agree in so much.
    """

    def __init__(self, scenes: Iterable[tuple[str, SceneSpec]]) -> None:
        """``scenes``: pairs of file name and scene."""
        self._found: list[tuple[FrozenScene, int]] = []
        self._places: dict[str, list[tuple[int, int, float, float]]] = collections.defaultdict(list)
        for number, (file, spec) in enumerate(scenes):
            places = {p.object: p.pos_m for p in spec.spatial.placements}
            self._found.append((FrozenScene(spec.scene_id, file), len(spec.attributes.objects)))
            for i, thing in enumerate(spec.attributes.objects):
                self._places[thing.asset].append((number, i, *places[thing.object][:2]))

    def same(self, spec: SceneSpec) -> FrozenScene | None:
        """The frozen scene that ``spec`` is, or None."""
        frozen: dict[int, set[int]] = collections.defaultdict(set)
        own: dict[int, set[str]] = collections.defaultdict(set)
        places = {p.object: p.pos_m for p in spec.spatial.placements}
        for thing in spec.attributes.objects:
            x, y, _ = places[thing.object]
            for number, i, frozen_x, frozen_y in self._places.get(thing.asset, ()):
                if math.hypot(x - frozen_x, y - frozen_y) <= SAME_PLACE_M:
                    frozen[number].add(i)
                    own[number].add(thing.object)
        for number, things in frozen.items():
            scene, count = self._found[number]
            if min(len(things), len(own[number])) >= max(count - MOVED_THINGS, min(2, count)):
                return scene
        return None


@functools.cache
def _package_index() -> FrozenIndex:
    return FrozenIndex(suites.frozen_specs())


def frozen_index(folder: Traversable | None = None) -> FrozenIndex:
    """Index of every frozen suite of a folder; the package's own (None) is read once a process. Raises SuiteError as suites does."""
    return _package_index() if folder is None else FrozenIndex(suites.frozen_specs(folder))
