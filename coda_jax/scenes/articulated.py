"""Articulated things: a static base of primitives and one moving link on a slide or hinge, with a handle to hold it by.

Everything is given in the object's own frame with the joint at 0 (closed). The origin is the centre of the box that the thing fills on
its whole way from closed to open, so that a gap to that box leaves room for the motion.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

from coda_jax.scenes.assets import Asset, Grasp, Primitive
from coda_jax.scenes.spec import Articulation, ObjectAttributes

KINDS = ("drawer", "door", "lid", "slider", "knob", "lever")
JOINTS = ("slide", "hinge")
# Lowest and highest stiffness (N/m), damping (N s/m) and friction (N), felt at the handle, that a hand whose pads press it with about 7 N
# each moves well.
FAIR_AT_HANDLE = {"stiffness": (0.0, 25.0), "damping": (0.0, 50.0), "friction": (0.2, 5.0)}
LEAST_HANDLE_M = 0.008
_LEAST_LEVER_M = 0.02  # of a handle on the axis: the pads' own half width turns it
HOLDS = 0.8  # share of the joint friction that the spring may use up: with more of it the link creeps or springs back

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


@dataclasses.dataclass(frozen=True)
class Link:
    """The moving part.

    joint: "slide" or "hinge". axis: unit vector of the motion that opens (hinge: right-handed). anchor_m: a point on a hinge's axis.
    travel: joint value when fully open, m or rad; closed is 0. primitives: of the link; ``handle``: numbers of those that are the handle.
    """

    joint: str
    axis: Vector
    anchor_m: Vector
    travel: float
    primitives: tuple[Primitive, ...]
    handle: tuple[int, ...]


_NO_LINK, _AS_MADE = Link("slide", (1.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0, (), ()), Articulation(0.0, 0.0, 0.0, 1.0, 1.0)


@dataclasses.dataclass(frozen=True)
class Articulated(Asset):
    """An asset with a joint. mechanism: one of KINDS. mass_kg: of the link. primitives: of the base. grasps: of the closed handle.

    articulation: what a scene has that says nothing else: stiffness (N/m or N m/rad, a spring that closes), damping (N s/m or N m s/rad)
    and friction (N or N m) of the joint, share of the handle's thickness, share of the travel.
    """

    mechanism: str = ""
    link: Link = _NO_LINK
    articulation: Articulation = _AS_MADE

    @property
    def lever_m(self) -> float:
        """Distance of the grip point from a hinge's axis, m, at least that of the pads; 1 for a slide: it turns forces into torques."""
        if self.link.joint == "slide":
            return 1.0
        away = _vector(p - a for p, a in zip(self.grasps[0].pos_m, self.link.anchor_m, strict=True))
        along = sum(a * x for a, x in zip(away, self.link.axis, strict=True))
        return max(math.sqrt(max(sum(a * a for a in away) - along * along, 0.0)), _LEAST_LEVER_M)

    def scaled(self, scale: float) -> Articulated:
        """The same thing with every length multiplied by ``scale``."""
        link = self.link
        size = dataclasses.replace(
            link,
            anchor_m=_times(link.anchor_m, scale),
            travel=link.travel * scale if link.joint == "slide" else link.travel,
            primitives=tuple(dataclasses.replace(p, size_m=_times(p.size_m, scale), pos_m=_times(p.pos_m, scale)) for p in link.primitives),
        )
        whole = super().scaled(scale)
        assert isinstance(whole, Articulated)
        return dataclasses.replace(whole, link=size)

    def made(self, articulation: Articulation) -> Articulated:
        """The thing with its handle's thickness and its travel as a scene states them."""
        share = articulation.handle_scale
        primitives = tuple(_thickened(p, share) if i in self.link.handle else p for i, p in enumerate(self.link.primitives))
        link = dataclasses.replace(self.link, primitives=primitives, travel=self.link.travel * articulation.range_share)
        grasps = tuple(dataclasses.replace(g, width_m=g.width_m * share) for g in self.grasps)
        return dataclasses.replace(self, link=link, grasps=grasps, articulation=articulation)

    def posed(self, opening: float) -> Asset:
        """A rigid asset that stands as this one does at a share of its travel: base and link, the grasps where the handle is then."""
        value = opening * self.link.travel
        turn = self.link_turn(value)
        moved = tuple(
            dataclasses.replace(p, pos_m=self.link_point(p.pos_m, value), quat_wxyz=_product(turn, p.quat_wxyz))
            for p in self.link.primitives
        )
        yaw = value * self.link.axis[2] if self.link.joint == "hinge" else 0.0
        grasps = tuple(Grasp(self.link_point(g.pos_m, value), g.yaw_rad + yaw, g.width_m) for g in self.grasps)
        whole = {f.name: getattr(self, f.name) for f in dataclasses.fields(Asset)}
        return Asset(**(whole | {"primitives": (*self.primitives, *moved), "grasps": grasps}))

    def link_turn(self, value: float) -> Quaternion:
        """Quaternion of the link in the object's frame at a joint value."""
        if self.link.joint == "slide":
            return (1.0, 0.0, 0.0, 0.0)
        s = math.sin(value / 2)
        x, y, z = self.link.axis
        return (math.cos(value / 2), s * x, s * y, s * z)

    def link_point(self, point_m: Vector, value: float) -> Vector:
        """Where a point of the closed link is at a joint value, in the object's frame."""
        if self.link.joint == "slide":
            return _vector(p + value * a for p, a in zip(point_m, self.link.axis, strict=True))
        away = _vector(p - a for p, a in zip(point_m, self.link.anchor_m, strict=True))
        return _vector(a + r for a, r in zip(self.link.anchor_m, _rotated(self.link_turn(value), away), strict=True))


@functools.lru_cache(maxsize=4096)  # a scene is looked at from many places that its things are not changed by
def made(asset: Asset, attributes: ObjectAttributes) -> Asset:
    """An asset as a scene makes it: scaled, and an articulated one with the handle and travel that the scene states."""
    asset = asset.scaled(attributes.scale)
    if isinstance(asset, Articulated) and attributes.articulation is not None:
        return asset.made(attributes.articulation)
    return asset


def held_open(articulation: Articulation, travel: float) -> bool:
    """Whether joint friction holds the open link against its spring."""
    return articulation.stiffness * travel <= HOLDS * articulation.friction


def _vector(values) -> Vector:
    x, y, z = values
    return (float(x), float(y), float(z))


def _times(values: Sequence[float], scale: float) -> Vector:
    return _vector(v * scale for v in values)


def _thickened(p: Primitive, share: float) -> Primitive:
    a, b, c = p.size_m
    size = (a * share, b * share, c) if p.shape == "box" else (a * share, b, c)
    return dataclasses.replace(p, size_m=size)


def _product(p: Quaternion, q: Quaternion) -> Quaternion:
    a, b, c, d = p
    w, x, y, z = q
    return (
        a * w - b * x - c * y - d * z,
        a * x + b * w + c * z - d * y,
        a * y - b * z + c * w + d * x,
        a * z + b * y - c * x + d * w,
    )


def _rotated(q: Quaternion, v: Vector) -> Vector:
    w, x, y, z = q
    _, a, b, c = _product(_product(q, (0.0, *v)), (w, -x, -y, -z))
    return (a, b, c)
