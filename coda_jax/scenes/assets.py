"""The asset record: what the catalogue holds about a kind of thing, in the object's own frame (origin at its bounding box's centre)."""

from __future__ import annotations

import dataclasses

SHAPES = ("box", "cylinder", "sphere", "capsule", "ellipsoid")


@dataclasses.dataclass(frozen=True)
class Primitive:
    """One collision geom. ``size_m`` as in MuJoCo: box half sizes; cylinder, capsule (radius, half length, 0); sphere (radius, 0, 0)."""

    shape: str
    size_m: tuple[float, float, float]
    pos_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quat_wxyz: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)


@dataclasses.dataclass(frozen=True)
class Grasp:
    """A top-down grasp: grip point, direction in which the jaws close (yaw of the line between the pads), width between the pads."""

    pos_m: tuple[float, float, float]
    yaw_rad: float
    width_m: float


@dataclasses.dataclass(frozen=True)
class Asset:
    """One parametric instance of a category.

    kind: "object" (free, graspable), "support" or "container" (fixtures), or "articulated" (a static base with one moving link: the record
      of articulated.py). 1-6 primitives.
    split: "train", "validation" or "test" (of the instance; a held-out category's instances carry the category's split).
    half_extent_m: half sizes of the bounding box about the origin. cavity_*: inner box of a container, zeros without one.
    grasps: good grasps, best first; empty for fixtures.
    """

    asset_id: str
    category: str
    kind: str
    split: str
    primitives: tuple[Primitive, ...]
    half_extent_m: tuple[float, float, float]
    mass_kg: float
    friction: float = 1.0
    colours: tuple[str, ...] = ("red", "green", "blue", "yellow", "white", "black", "orange", "purple")
    affordances: tuple[str, ...] = ()
    grasps: tuple[Grasp, ...] = ()
    cavity_pos_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    cavity_half_m: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def scaled(self, scale: float) -> Asset:
        """The same asset with every length multiplied by ``scale`` (mass is a field of the scene, not of the scaled record)."""

        def s(values):
            return tuple(float(v) * scale for v in values)

        return dataclasses.replace(
            self,
            primitives=tuple(dataclasses.replace(p, size_m=s(p.size_m), pos_m=s(p.pos_m)) for p in self.primitives),
            half_extent_m=s(self.half_extent_m),
            grasps=tuple(dataclasses.replace(g, pos_m=s(g.pos_m), width_m=g.width_m * scale) for g in self.grasps),
            cavity_pos_m=s(self.cavity_pos_m),
            cavity_half_m=s(self.cavity_half_m),
        )
