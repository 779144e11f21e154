"""Every moment of one episode, as a WorldView whose first axis is time: t + 1 rows for t control steps, the start included.

What moves has a row for each moment; what stays is kept once and only looks as if it were repeated. Every helper, expression and
observation that reads a batch of worlds therefore reads a recorded episode too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import jax
import numpy as np

from coda_jax.types import EPISODE_FIELDS, FIXED_FIELDS, MOVING_FIELDS, REGIONS, STEP_FIELDS, TOKENS, Array, ChunkTrace, Regions, WorldView

_OTHER_SHAPES = {
    "ee_pos": (3,),
    "ee_quat": (4,),
    "gripper_opening": (),
    "articulation": (TOKENS,),
    "articulation_range": (TOKENS, 2),
    "present": (TOKENS,),
    "finger_contact": (TOKENS, 2),
    "contact": (TOKENS, TOKENS + 1),
}
# of one world at one moment
FIELD_SHAPES: dict[str, tuple[int, ...]] = {
    name: _OTHER_SHAPES.get(name, (TOKENS, 4 if "quat" in name else 3)) for name in (*MOVING_FIELDS, *FIXED_FIELDS)
}

_REGION = "region_"  # before the names of what is recorded of regions, where a view has them
_FIXED_OF_REGIONS = ("half",)
_MOVING_OF_REGIONS = tuple(f.name for f in dataclasses.fields(Regions) if f.name not in _FIXED_OF_REGIONS)
REGION_SHAPES: dict[str, tuple[int, ...]] = {
    _REGION + name: shape
    for name, shape in (
        ("pos", (REGIONS, 3)),
        ("rotation", (REGIONS, 3, 3)),
        ("half", (REGIONS, 3)),
        ("touches", (TOKENS, REGIONS)),
        ("joint", (REGIONS,)),
        ("origin", (TOKENS, 3)),
    )
}


def moving_of(view: WorldView) -> dict[str, Array]:
    """What moves of a view: MOVING_FIELDS, and of its regions where it has them."""
    own = {name: getattr(view, name) for name in MOVING_FIELDS}
    return own if view.regions is None else own | {_REGION + name: getattr(view.regions, name) for name in _MOVING_OF_REGIONS}


def with_moving(view: WorldView, moving: Mapping[str, Array]) -> WorldView:
    """A view with what moves taken from elsewhere; the inverse of ``moving_of``."""
    own = {name: moving[name] for name in MOVING_FIELDS}
    if view.regions is None:
        return dataclasses.replace(view, **own)
    regions = dataclasses.replace(view.regions, **{name: moving[_REGION + name] for name in _MOVING_OF_REGIONS})
    return dataclasses.replace(view, **own, regions=regions)


def moments(moving: Mapping[str, np.ndarray], fixed: Mapping[str, np.ndarray]) -> WorldView:
    """A recorded episode from what moves [t + 1, ...] (``moving_of``) and what does not (``fixed_of``), without the time axis."""
    n = len(moving["pos"])

    def stays(name: str) -> np.ndarray:
        return np.broadcast_to(fixed[name], (n, *np.shape(fixed[name])))

    regions = None
    if _REGION + "pos" in moving:
        own = {name: moving[_REGION + name] for name in _MOVING_OF_REGIONS}
        regions = Regions(**own, **{name: stays(_REGION + name) for name in _FIXED_OF_REGIONS})
    return WorldView(
        **{name: moving[name] for name in MOVING_FIELDS},
        **{name: stays(name) for name in FIXED_FIELDS},
        control_step=np.arange(n, dtype=np.int32),
        regions=regions,
    )


def fixed_of(view: WorldView, world: int) -> dict[str, np.ndarray]:
    """FIXED_FIELDS of one world, and what stays of its regions, copied."""
    own = {name: np.array(getattr(view, name)[world]) for name in FIXED_FIELDS}
    if view.regions is None:
        return own
    return own | {_REGION + name: np.array(getattr(view.regions, name)[world]) for name in _FIXED_OF_REGIONS}


def chunk_of(views: Sequence[WorldView]) -> dict[str, np.ndarray]:
    """``moving_of`` of the views after each control step of a chunk, [b, e, ...] each: ``ChunkTrace.moving``."""
    each = [moving_of(view) for view in views]
    return {name: np.stack([one[name] for one in each], 1) for name in each[0]}


def of_world(views: Sequence[WorldView], world: int) -> WorldView:
    """The moments of one world of a batch, from the batch's views at its reset and after each control step."""
    each = [moving_of(view) for view in views]
    moving = {name: np.stack([one[name][world] for one in each]) for name in each[0]}
    return moments(moving, fixed_of(views[0], world))


def observed(views: WorldView) -> dict[str, np.ndarray]:
    """What was seen before each control step: STEP_FIELDS [t, ...], and EPISODE_FIELDS without the time axis."""
    seen = {name: getattr(views, name)[:-1] for name in STEP_FIELDS}
    return seen | {name: getattr(views, name)[0] for name in EPISODE_FIELDS}


class Strip:
    """The moments of one episode that runs in ``world``, from ``view`` of the batch at its start."""

    def __init__(self, view: WorldView, world: int):
        self._fixed = fixed_of(view, world)
        self._pieces = [{name: np.array(values[world])[None] for name, values in moving_of(view).items()}]

    def append(self, moving: Mapping[str, np.ndarray]) -> None:
        """What moves (``moving_of``) [n, ...] after n further control steps."""
        self._pieces.append(dict(moving))

    def moments(self) -> WorldView:
        """All of them so far."""
        return moments({name: np.concatenate([piece[name] for piece in self._pieces]) for name in self._pieces[0]}, self._fixed)


class Tape:
    """The moments of the episodes that run now in a batch of worlds whose chunks are recorded."""

    def __init__(self, worlds: int):
        self._strips: list[Strip | None] = [None] * worlds

    def begin(self, worlds: Iterable[int], view: WorldView) -> None:
        """Episodes begin in ``worlds`` at ``view`` of the batch."""
        view = jax.device_get(view)  # whole: indexing on the device would build an executable for each field
        for w in worlds:
            self._strips[w] = Strip(view, w)

    def append(self, mask: np.ndarray, trace: ChunkTrace) -> None:
        """A chunk was carried out in the worlds of ``mask``."""
        assert trace.moving is not None, "it was asked for"
        moving, steps = {name: np.asarray(values) for name, values in trace.moving.items()}, np.asarray(trace.executed)
        for w in np.flatnonzero(mask).tolist():
            self._strip(w).append({name: values[w, : steps[w]] for name, values in moving.items()})

    def cut(self, world: int) -> WorldView:
        """The moments of the world's episode, which ends here."""
        return self._strip(world).moments()

    def _strip(self, world: int) -> Strip:
        strip = self._strips[world]
        assert strip is not None, "it began"
        return strip
