"""Hand-made scenes with an articulated object for the tests of the simulation."""

from __future__ import annotations

import dataclasses

from coda_jax.scenes import openings
from coda_jax.scenes.articulated import Articulated
from coda_jax.scenes.spec import AttributeFactor, ObjectAttributes, Placement, Role, SceneSpec, SpatialFactor, TaskFactor
from tests.sim.tabletop import CATALOGUE, Thing, scene

ONE_OF_EACH = ("dresser_00", "cupboard_01", "chest_00", "wardrobe_00", "dial_00", "lever_00")


def articulated(
    asset_id: str, opening: float = 0.0, relation: str = "open", x=0.52, y=0.0, yaw=0.2, others: tuple[Thing, ...] = (), **joint
):
    """A scene with one articulated object, the target, and other things; ``joint``: fields of its Articulation."""
    asset = CATALOGUE.get(asset_id)
    assert isinstance(asset, Articulated)
    name, words = f"{asset.category}_1", {"open": "open", "close": "close"}.get(relation, "turn")
    made = ObjectAttributes(name, asset_id, 1.0, asset.mass_kg, 1.0, "red", dataclasses.replace(asset.articulation, **joint))
    place = Placement(name, (x, y, asset.half_extent_m[2]), yaw, "table", "middle", 0.02, opening)
    goal = openings.expression(relation, name)
    with_others = scene(*others, goal=goal) if others else None
    return SceneSpec(
        TaskFactor("articulated", f"{words} the red {asset.category}", goal, (), (Role(name, "target"),)),
        SpatialFactor("free", (*(with_others.spatial.placements if with_others else ()), place)),
        AttributeFactor((*(with_others.attributes.objects if with_others else ()), made)),
    )
