"""What families measure of things: footprints' radii, what holds what, and the assets of a scene at its scale."""

from __future__ import annotations

import math

from coda_jax.scenes.articulated import made
from coda_jax.scenes.assets import Asset
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.placement import Footprint
from coda_jax.scenes.spec import SceneSpec

INSIDE_MARGIN_M = 0.004


def reference_kind(asset: Asset) -> str:
    """ "support", "container", or "landmark" for a free object."""
    return "landmark" if asset.kind == "object" else asset.kind


def radius(asset: Asset) -> float:
    """Radius of the circle round the asset's footprint, m; for round things (equal sides) half the width."""
    hx, hy, _ = asset.half_extent_m
    if abs(hx - hy) < 1e-9 and all(p.shape in ("cylinder", "sphere") for p in asset.primitives):
        return hx
    return math.hypot(hx, hy)


def can_hold(relation: str, target: Asset, reference: Asset) -> bool:
    """Whether the target can be in the relation: its centre must come to rest within a container's inner box, or over a support's face."""
    if relation == "inside":
        hx, hy, hz = target.half_extent_m
        cx, cy, cz = reference.cavity_half_m
        return max(hx, hy) + 2 * INSIDE_MARGIN_M <= min(cx, cy) and hz + INSIDE_MARGIN_M <= 2 * cz
    if relation == "on":
        return max(target.half_extent_m[:2]) <= 1.4 * min(reference.half_extent_m[:2])
    return True


def floor_above_centre(asset: Asset) -> float:
    """Height of a container's inner floor over the centre of its bounding box, m."""
    return asset.cavity_pos_m[2] - asset.cavity_half_m[2]


def middle(asset: Asset, shape: Footprint) -> tuple[float, float]:
    """Where things on or in a reference are meant to stand, base frame: a container's cavity (a handle moves it from the box's centre)."""
    c, s = math.cos(shape.yaw), math.sin(shape.yaw)
    x, y, _ = asset.cavity_pos_m
    return shape.x + c * x - s * y, shape.y + s * x + c * y


def scaled_assets(spec: SceneSpec) -> dict[str, Asset]:
    """Object id to asset at the scene's scale, of any split.

    Raises:
      UnknownAsset: the scene names an asset that no split holds.
    """
    catalogue = Catalogue.all()
    return {o.object: made(catalogue.get(o.asset), o) for o in spec.attributes.objects}
