"""Hand-made scenes for the tests of the simulation."""

from __future__ import annotations

import dataclasses

from coda_jax.programs.expressions import Expr
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import AttributeFactor, ObjectAttributes, Placement, Role, SceneSpec, SpatialFactor, TaskFactor

CATALOGUE = Catalogue.all()


@dataclasses.dataclass(frozen=True)
class Thing:
    """One object: its asset, where it stands (x, y; ``bottom`` is the height of its lowest point) and what it is like."""

    name: str
    asset: str
    x: float
    y: float
    bottom: float = 0.0
    yaw: float = 0.0
    colour: str = "red"
    support: str = "table"
    friction: float = 1.0
    mass_kg: float = 0.1
    scale: float = 1.0


def scene(*things: Thing, goal: Expr | None = None, instruction: str = "put the red block on the red board") -> SceneSpec:
    """A scene whose first thing is the target and whose last one is the reference of the default goal."""
    target, reference = things[0].name, things[-1].name
    roles = [Role(target, "target")] + [Role(t.name, "reference") for t in things[1:] if t.name == reference]
    return SceneSpec(
        TaskFactor("pick_place", instruction, goal or Expr("on", (target, reference)), (), tuple(roles)),
        SpatialFactor(
            "fixtures_left",
            tuple(
                Placement(
                    t.name, (t.x, t.y, t.bottom + t.scale * CATALOGUE.get(t.asset).half_extent_m[2]), t.yaw, t.support, "middle", 0.02
                )
                for t in things
            ),
        ),
        AttributeFactor(tuple(ObjectAttributes(t.name, t.asset, t.scale, t.mass_kg, t.friction, t.colour) for t in things)),
    )


def height(asset: str) -> float:
    """Height of an asset's highest point over its lowest, m."""
    return 2 * CATALOGUE.get(asset).half_extent_m[2]


BLOCK = Thing("block_1", "block_00", 0.5, 0.1)
CAN = Thing("can_1", "can_02", 0.42, -0.08, colour="blue")
BALL = Thing("ball_1", "ball_03", 0.6, 0.02, colour="green")
BOARD = Thing("board_1", "board_00", 0.52, -0.22)
