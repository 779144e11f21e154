"""Structure buckets: scenes of one bucket share the layout of MuJoCo's arrays, hence one batch and one executable."""

from __future__ import annotations

import dataclasses

FREE_SLOT_SIZES = (2, 4, 6)
GEOM_SLOT_SIZES = (1, 3, 6)
FIXTURE_GEOMS = 6
BASE_GEOMS, LINK_GEOMS = 8, 8  # of the articulated slot


@dataclasses.dataclass(frozen=True, order=True)
class Bucket:
    """``free`` free-object slots of ``geoms`` geoms each, plus two fixture slots of 6 geoms.

    articulated: one more slot, a static base and a link on one joint; worlds of a native batch may mix slides and hinges.
    """

    free: int
    geoms: int
    articulated: bool = False

    @property
    def name(self) -> str:
        return f"f{self.free}g{self.geoms}{'a' if self.articulated else ''}"


def smallest(objects: int, geoms: int, articulated: bool = False) -> Bucket:
    """The smallest bucket that takes ``objects`` free objects of at most ``geoms`` geoms, and an articulated one if asked for.

    Raises:
      ValueError: no bucket is large enough; the message names the limit.
    """
    free = next((n for n in FREE_SLOT_SIZES if n >= objects), None)
    per_slot = next((n for n in GEOM_SLOT_SIZES if n >= geoms), None)
    if free is None:
        raise ValueError(f"the scene has {objects} free objects; at most {FREE_SLOT_SIZES[-1]} fit: remove {objects - FREE_SLOT_SIZES[-1]}")
    if per_slot is None:
        raise ValueError(f"an object has {geoms} geoms; at most {GEOM_SLOT_SIZES[-1]} fit a slot: use a simpler asset")
    return Bucket(free, per_slot, articulated)
