"""The table of articulated things: 50 instances of each mechanism, with their splits, from ranges of parameters.

Two mechanisms have no held-out category, four have one: those test (or tune) on a thing of another look that works alike. As with rigid
things, training instances fill the middle of each range and held-out ones its ends.
"""

from __future__ import annotations

import dataclasses
import functools
import math

from coda_jax.scenes.articulated import Articulated, Link
from coda_jax.scenes.assets import Grasp, Primitive
from coda_jax.scenes.shapes import mechanisms
from coda_jax.scenes.shapes.build import bounding_box, volume
from coda_jax.scenes.shapes.mechanisms import Mechanism, MechanismBuilder
from coda_jax.scenes.spec import Articulation

_ROWS = 9  # joint values between closed and open at which the box that the thing fills is measured
_TRAIN_SHARE, _EDGE = (0.2, 0.8), 0.1
_HELD_OUT = 0.25  # share of a training category's instances that are held out, half for validation and half for the test
_DENSITY = 350.0  # kg/m^3 of links
_MASS_KG = (0.04, 0.4)
_SPREAD = tuple(math.sqrt(prime) % 1.0 for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23))


@dataclasses.dataclass(frozen=True)
class ArticulatedCategory:
    """A kind of articulated thing. joint: default stiffness, damping and friction (units of Articulation). ranges: as in the catalogue."""

    name: str
    mechanism: str
    split: str
    instances: int
    builder: MechanismBuilder
    joint: tuple[float, float, float]
    ranges: tuple[tuple[str, float, float], ...]
    affordances: tuple[str, ...] = ("opens", "closes")
    kind: str = "articulated"


_SLIDE, _HINGE, _SMALL = (0.0, 6.0, 1.5), (0.0, 0.08, 0.12), (0.0, 0.008, 0.04)
_POST, _SIDE = ("post", 0.007, 0.011), ("side", 0.0, 1.0)
_BAR = (("post", 0.006, 0.008), ("bar", 0.010, 0.018))
CATEGORIES: tuple[ArticulatedCategory, ...] = (
    ArticulatedCategory(
        "dresser", "drawer", "train", 38, mechanisms.drawer, _SLIDE,
        (("width", 0.13, 0.19), ("depth", 0.11, 0.14), ("height", 0.07, 0.095), ("travel", 0.6, 0.78), _POST),
    ),
    ArticulatedCategory(
        "nightstand", "drawer", "test", 12, mechanisms.drawer, _SLIDE,
        (("width", 0.12, 0.145), ("depth", 0.11, 0.13), ("height", 0.1, 0.125), ("floor", 0.03, 0.045), ("travel", 0.6, 0.75), *_BAR),
    ),
    ArticulatedCategory(
        "cupboard", "door", "train", 38, mechanisms.door, _HINGE,
        (("width", 0.11, 0.15), ("depth", 0.07, 0.1), ("height", 0.08, 0.11), ("turn", 1.15, 1.5), _POST, _SIDE),
    ),
    ArticulatedCategory(
        "locker", "door", "validation", 12, mechanisms.door, _HINGE,
        (("width", 0.1, 0.12), ("depth", 0.08, 0.1), ("height", 0.1, 0.12), ("turn", 1.1, 1.4), ("thick", 0.01, 0.014), *_BAR, _SIDE),
    ),
    ArticulatedCategory(
        "chest", "lid", "train", 38, mechanisms.lid, _HINGE,
        (("width", 0.13, 0.18), ("depth", 0.1, 0.13), ("height", 0.05, 0.075), ("turn", 1.3, 1.7), _POST),
    ),
    ArticulatedCategory(
        "trunk", "lid", "test", 12, mechanisms.lid, _HINGE,
        (("width", 0.17, 0.2), ("depth", 0.09, 0.11), ("height", 0.06, 0.08), ("turn", 1.3, 1.6), *_BAR),
    ),
    ArticulatedCategory(
        "wardrobe", "slider", "train", 38, mechanisms.slider, _SLIDE,
        (("width", 0.18, 0.24), ("depth", 0.07, 0.09), ("height", 0.08, 0.11), ("travel", 0.36, 0.44), _POST, _SIDE),
    ),
    ArticulatedCategory(
        "hutch", "slider", "validation", 12, mechanisms.slider, _SLIDE,
        (("width", 0.17, 0.2), ("depth", 0.09, 0.1), ("height", 0.1, 0.12), ("travel", 0.36, 0.44), *_BAR, _SIDE),
    ),
    ArticulatedCategory(
        "dial", "knob", "train", 50, mechanisms.knob, _SMALL,
        (("width", 0.075, 0.1), ("height", 0.04, 0.07), ("hub", 0.022, 0.032), ("length", 0.02, 0.028), ("thick", 0.008, 0.012),
         ("turn", 1.2, 1.6), _SIDE),
    ),
    ArticulatedCategory(
        "lever", "lever", "train", 50, mechanisms.lever, _HINGE,
        (("width", 0.07, 0.1), ("height", 0.035, 0.055), ("length", 0.085, 0.115), ("turn", 1.0, 1.3), _POST),
    ),
)  # fmt: skip


def _split(category: ArticulatedCategory, index: int) -> str:
    if category.split != "train":
        return category.split
    held = round(category.instances * _HELD_OUT / 2)
    return "train" if index < category.instances - 2 * held else "validation" if index < category.instances - held else "test"


def _unit(category: ArticulatedCategory, index: int, dimension: int) -> float:
    spread = (0.5 + (index + 1) * _SPREAD[dimension]) % 1.0
    if category.ranges[dimension] == _SIDE or category.split != "train":
        return spread  # left and right belong to every split
    if _split(category, index) == "train":
        return _TRAIN_SHARE[0] + (_TRAIN_SHARE[1] - _TRAIN_SHARE[0]) * spread
    at_top = bool((index >> (dimension % 3)) & 1)
    return (1.0 - _EDGE * spread) if at_top else _EDGE * spread


def _rounded(values):
    x, y, z = (round(v, 6) + 0.0 for v in values)
    return (x, y, z)


def _shifted(p: Primitive, centre) -> Primitive:
    pos = _rounded(a - c for a, c in zip(p.pos_m, centre, strict=True))
    return dataclasses.replace(p, size_m=_rounded(p.size_m), pos_m=pos)


def _instance(category: ArticulatedCategory, index: int) -> Articulated:
    parameters = {name: round(low + (high - low) * _unit(category, index, d), 4) for d, (name, low, high) in enumerate(category.ranges)}
    built = category.builder(parameters)
    whole = _record(category, index, built, (0.0, 0.0, 0.0))
    boxes = [bounding_box(whole.posed(i / (_ROWS - 1)).primitives) for i in range(_ROWS)]
    low, high = (tuple(pick(b[end][axis] for b in boxes) for axis in range(3)) for end, pick in ((0, min), (1, max)))
    centre = tuple((a + b) / 2 for a, b in zip(low, high, strict=True))
    half = _rounded((b - a) / 2 for a, b in zip(low, high, strict=True))
    return dataclasses.replace(_record(category, index, built, centre), half_extent_m=half)


def _record(category: ArticulatedCategory, index: int, built: Mechanism, centre) -> Articulated:
    stiffness, damping, friction = category.joint
    mass = _DENSITY * sum(map(volume, built.link))
    grasp = Grasp(
        _rounded(a - c for a, c in zip(built.grasp.pos_m, centre, strict=True)), built.grasp.yaw_rad, round(built.grasp.width_m, 6)
    )
    return Articulated(
        asset_id=f"{category.name}_{index:02d}",
        category=category.name,
        kind="articulated",
        split=_split(category, index),
        primitives=tuple(_shifted(p, centre) for p in built.base),
        half_extent_m=(0.0, 0.0, 0.0),
        mass_kg=round(min(max(mass, _MASS_KG[0]), _MASS_KG[1]), 4),
        affordances=category.affordances,
        grasps=(grasp,),
        mechanism=category.mechanism,
        link=Link(
            built.joint,
            built.axis,
            _rounded(a - c for a, c in zip(built.anchor_m, centre, strict=True)),
            round(built.travel, 6),
            tuple(_shifted(p, centre) for p in built.link),
            built.handle,
        ),
        articulation=Articulation(stiffness, damping, friction, 1.0, 1.0),
    )


@functools.cache
def assets() -> tuple[Articulated, ...]:
    """Every instance, in the order of the table."""
    return tuple(_instance(category, i) for category in CATEGORIES for i in range(category.instances))
