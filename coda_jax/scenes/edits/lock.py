"""The factor lock: which factors an edit changed, and taking single factors back.

Sizes are attributes and heights are places, yet a larger thing on the same table has a higher centre. So the lock compares how far each
thing is above the face it rests on, not the height of its centre: a thing that grows on its support has not been moved, a thing that is
lifted has. All else of the three factors is compared as it is.
"""

from __future__ import annotations

import dataclasses

from coda_jax.scenes.edits.record import FactorLockError
from coda_jax.scenes.spec import FACTORS, Placement, SceneSpec, changed_factors
from coda_jax.scenes.tabletop import Tabletop, rested

RISE_TOLERANCE_M = 2e-6  # heights are rounded to 1e-6


def edited_factors(before: SceneSpec, after: SceneSpec) -> tuple[str, ...]:
    """Names of the factors in which two specs differ, heights of resting things counted as what they are derived from."""
    changed = changed_factors(before, after)
    if "spatial" in changed and "attributes" in changed and _same_places(before, after):
        return tuple(f for f in changed if f != "spatial")
    return changed


def _same_places(before: SceneSpec, after: SceneSpec) -> bool:
    def flat(p: Placement) -> tuple:
        return (
            p.object,
            round(p.pos_m[0], 6),
            round(p.pos_m[1], 6),
            round(p.yaw_rad, 6),
            p.support,
            p.region,
            round(p.clearance_m, 6),
            p.opening,
        )

    a, b = before.spatial, after.spatial
    if a.layout != b.layout or [flat(p) for p in a.placements] != [flat(p) for p in b.placements]:
        return False
    if before.object_ids != after.object_ids:
        return False
    tops = Tabletop(before), Tabletop(after)
    return all(abs(tops[0].rise(n) - tops[1].rise(n)) < RISE_TOLERANCE_M for n in before.object_ids)


def require_lock(before: SceneSpec, after: SceneSpec, factor: str, who: str) -> None:
    """Refuse an edit that went beyond its factor.

    Raises:
      FactorLockError: names the edit and the factors that it changed against its word.
    """
    if beyond := [f for f in edited_factors(before, after) if f != factor]:
        raise FactorLockError(f"{who} declares the factor {factor} and changed {' and '.join(beyond)} too")


def reverted(spec: SceneSpec, base: SceneSpec, factor: str) -> SceneSpec:
    """``spec`` with one factor of ``base``, everything resting as before; both have the same objects.

    Raises:
      ValueError: unknown factor, or other objects.
    """
    if factor not in FACTORS:
        raise ValueError(f"unknown factor {factor!r}: use one of {', '.join(FACTORS)}")
    if spec.object_ids != base.object_ids:
        raise ValueError(
            f"the scenes hold other objects ({', '.join(spec.object_ids)}; {', '.join(base.object_ids)}): revert to its own base"
        )
    mixed = dataclasses.replace(spec, **{factor: getattr(base, factor)})
    if factor == "task":
        return mixed
    return rested(mixed, base if factor == "spatial" else spec)
