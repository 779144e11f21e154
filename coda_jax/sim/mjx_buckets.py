"""The declared MJX buckets: one executable each, with a fixed shape for every geom and fixed numbers of pairs and contacts.

A scene of any bucket runs in the first declared one that takes it (docs/mjx.md: how the table was measured, how to add a row).
"""

from __future__ import annotations

import dataclasses

from coda_jax.scenes.assets import Primitive
from coda_jax.sim import mjx_surrogates
from coda_jax.sim.bucket import BASE_GEOMS, FIXTURE_GEOMS, LINK_GEOMS, Bucket
from coda_jax.sim.compile import SceneError
from coda_jax.sim.mjx_surrogates import Slot

FIXTURE_SLOT: Slot = ("box",) * FIXTURE_GEOMS
BASE_SLOT: Slot = ("box",) * BASE_GEOMS
LINK_SLOT: Slot = ("box",) * LINK_GEOMS
_SMALL: Slot = ("box", "capsule")
_WHOLE: Slot = ("box",) * 6 + ("capsule",)


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a bucket's executable holds.

    slot: shape of each geom of a free object. pairs: those tested of each kind (box and box, box and capsule, ...), the nearest
    ones. contacts: the deepest ones, kept for the solver.
    """

    slot: Slot
    pairs: int
    contacts: int


MJX_BUCKETS: dict[Bucket, Limits] = {
    Bucket(2, 2): Limits(_SMALL, pairs=16, contacts=32),
    Bucket(2, 7): Limits(_WHOLE, pairs=48, contacts=80),
    Bucket(4, 7): Limits(_WHOLE, pairs=80, contacts=112),
    Bucket(6, 7): Limits(_WHOLE, pairs=80, contacts=144),
    Bucket(2, 7, True): Limits(_WHOLE, pairs=48, contacts=80),
    Bucket(4, 7, True): Limits(_WHOLE, pairs=48, contacts=112),
    Bucket(6, 7, True): Limits(_WHOLE, pairs=80, contacts=144),
}


def declared(bucket: Bucket) -> Bucket:
    """The first MJX bucket that takes the scenes of a native one; a declared bucket is its own.

    Raises:
      SceneError: there is none; the declared ones are named.
    """
    if bucket in MJX_BUCKETS:
        return bucket
    for mine, limits in MJX_BUCKETS.items():
        enough = mine.free >= bucket.free and limits.slot.count("box") >= bucket.geoms
        if enough and mine.articulated == bucket.articulated:
            return mine
    names = ", ".join(b.name for b in MJX_BUCKETS)
    raise SceneError(
        f"bucket {bucket.name} has no MJX executable (declared: {names}): use fewer objects or geoms, or set sim.backend=native"
    )


def holds(bucket: Bucket) -> bool:
    """Whether some MJX bucket takes the scenes of a native one."""
    try:
        return declared(bucket) in MJX_BUCKETS
    except SceneError:
        return False


def slot_of(bucket: Bucket, part: str) -> Slot:
    """Shapes of a part's geoms: "object", "fixture", "base" or "link"."""
    fixed = {"fixture": FIXTURE_SLOT, "base": BASE_SLOT, "link": LINK_SLOT}
    return fixed[part] if part in fixed else MJX_BUCKETS[bucket].slot


def fit(bucket: Bucket, part: str, primitives: tuple[Primitive, ...]) -> tuple[Primitive | None, ...]:
    """What collides of an asset's primitives in a bucket's slot (sim/compile.py: Fit).

    Raises:
      SurrogateError: MJX cannot collide them, and no stand-ins come near; what to do is named.
    """
    try:
        return mjx_surrogates.fit(primitives, slot_of(bucket, part)).shapes
    except mjx_surrogates.SurrogateError as error:
        raise mjx_surrogates.SurrogateError(
            f"{error}: use an asset whose {part} is made of fewer or other shapes (python -m benchmarks.mjx_lint lists how each fits), a "
            "bucket of more geoms, or sim.backend=native"
        ) from error
