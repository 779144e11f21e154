"""Every moment of one episode, as a WorldView whose first axis is time: t + 1 rows for t control steps, the start included.

What moves has a row for each moment; what stays is kept once and only looks as if it were repeated. Every helper, expression and
observation that reads a batch of worlds therefore reads a recorded episode too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import jax
import numpy as np

from coda_jax.types import EPISODE_FIELDS, FIXED_FIELDS, MOVING_FIELDS, STEP_FIELDS, TOKENS, ChunkTrace, WorldView

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


def moments(moving: Mapping[str, np.ndarray], fixed: Mapping[str, np.ndarray]) -> WorldView:
    """A recorded episode from MOVING_FIELDS [t + 1, ...] and FIXED_FIELDS without the time axis."""
    n = len(moving["pos"])
    return WorldView(
        **{name: moving[name] for name in MOVING_FIELDS},
        **{name: np.broadcast_to(fixed[name], (n, *np.shape(fixed[name]))) for name in FIXED_FIELDS},
        control_step=np.arange(n, dtype=np.int32),
    )


def fixed_of(view: WorldView, world: int) -> dict[str, np.ndarray]:
    """FIXED_FIELDS of one world, copied."""
    return {name: np.array(getattr(view, name)[world]) for name in FIXED_FIELDS}


def of_world(views: Sequence[WorldView], world: int) -> WorldView:
    """The moments of one world of a batch, from the batch's views at its reset and after each control step."""
    moving = {name: np.stack([getattr(view, name)[world] for view in views]) for name in MOVING_FIELDS}
    return moments(moving, fixed_of(views[0], world))


def observed(views: WorldView) -> dict[str, np.ndarray]:
    """What was seen before each control step: STEP_FIELDS [t, ...], and EPISODE_FIELDS without the time axis."""
    seen = {name: getattr(views, name)[:-1] for name in STEP_FIELDS}
    return seen | {name: getattr(views, name)[0] for name in EPISODE_FIELDS}


class Strip:
    """The moments of one episode that runs in ``world``, from ``view`` of the batch at its start."""

    def __init__(self, view: WorldView, world: int):
        self._fixed = fixed_of(view, world)
        self._pieces = [{name: np.array(getattr(view, name)[world])[None] for name in MOVING_FIELDS}]

    def append(self, moving: Mapping[str, np.ndarray]) -> None:
        """MOVING_FIELDS [n, ...] after n further control steps."""
        self._pieces.append({name: moving[name] for name in MOVING_FIELDS})

    def moments(self) -> WorldView:
        """All of them so far."""
        return moments({name: np.concatenate([piece[name] for piece in self._pieces]) for name in MOVING_FIELDS}, self._fixed)


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
        moving, steps = {name: np.asarray(trace.moving[name]) for name in MOVING_FIELDS}, np.asarray(trace.executed)
        for w in np.flatnonzero(mask).tolist():
            self._strip(w).append({name: values[w, : steps[w]] for name, values in moving.items()})

    def cut(self, world: int) -> WorldView:
        """The moments of the world's episode, which ends here."""
        return self._strip(world).moments()

    def _strip(self, world: int) -> Strip:
        strip = self._strips[world]
        assert strip is not None, "it began"
        return strip
