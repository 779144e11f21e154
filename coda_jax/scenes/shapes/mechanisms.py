"""Builders of articulated things. z = 0 is the table, the front faces -x; lengths in metres, joints as at opening 0.

Every handle is held from above with the jaws closing along y: on both sides of a post that stands proud of its panel by more than the
half width of a finger, near the top, so that the palm passes over what is behind it. A post that tips (lid, lever) turns between the pads.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

from coda_jax.scenes.articulated import Vector
from coda_jax.scenes.assets import Grasp, Primitive
from coda_jax.scenes.shapes.build import about, box, upright_cylinder

WALL_M = 0.006
PANEL_M = 0.008
GAP_M = 0.003
STAND_OFF_M = 0.014  # of a post from its panel: a finger is 0.01 m to either side of its middle
POST_M = 0.04  # length of a post
BELOW_TOP_M = 0.010  # the grip point under the post's top
JAW_RAD = math.pi / 2


@dataclasses.dataclass(frozen=True)
class Mechanism:
    """What a builder returns, in a frame of its own; ``handle`` numbers the link's primitives that form the handle."""

    base: tuple[Primitive, ...]
    link: tuple[Primitive, ...]
    handle: tuple[int, ...]
    grasp: Grasp
    joint: str
    axis: Vector
    anchor_m: Vector
    travel: float


MechanismBuilder = Callable[[Mapping[str, float]], Mechanism]


def _case(width: float, depth: float, height: float, floor: float = 0.0) -> tuple[Primitive, ...]:
    """Two sides, top, floor and back of a cabinet that is open in front (x = 0); ``floor`` raises it on its sides."""
    hw, hd, half, inner = width / 2, depth / 2, WALL_M / 2, width / 2 - WALL_M
    sides = tuple(box(hd, half, height / 2, hd, s * (hw - half), height / 2) for s in (1, -1))
    flat = tuple(box(hd, inner, half, hd, 0.0, z) for z in (height - half, floor + half))
    return (*sides, *flat, box(half, inner, (height - floor) / 2 - WALL_M, depth - half, 0.0, (height + floor) / 2))


def _post(p: Mapping[str, float], front: float, y: float, top: float) -> tuple[tuple[Primitive, Primitive], Grasp]:
    """Stand-off and post before a panel whose face is at x = ``front``; a round post, or a bar where the parameters give its breadth."""
    thick = p.get("bar", p["post"])
    deep = p["post"]
    x, z = front - STAND_OFF_M - deep, top - POST_M / 2
    stand_off = box(STAND_OFF_M / 2 + deep / 2, 0.004, 0.004, front - STAND_OFF_M / 2 - deep / 2, y, z - 0.008)
    post = box(deep, thick, POST_M / 2, x, y, z) if "bar" in p else upright_cylinder(thick, top - POST_M, top, x, y)
    return (stand_off, post), Grasp((x, y, top - BELOW_TOP_M), JAW_RAD, 2 * thick)


def _hand(p: Mapping[str, float]) -> float:
    """+1 or -1: the side on which a thing opens."""
    return 1.0 if p["side"] >= 0.5 else -1.0


def drawer(p: Mapping[str, float]) -> Mechanism:
    """A cabinet with one drawer that comes out of the front; ``floor`` stands it on its sides."""
    width, depth, height, floor = p["width"], p["depth"], p["height"], p.get("floor", 0.0)
    inner, low = width / 2 - WALL_M - GAP_M, floor + WALL_M + GAP_M
    long, tall = (depth - WALL_M - GAP_M) / 2, (height - WALL_M - GAP_M - low) / 2
    panel = box(PANEL_M / 2, width / 2, (height - floor) / 2 - 0.001, -PANEL_M / 2, 0.0, (height + floor) / 2)
    bottom = box(long, inner, 0.003, long, 0.0, low + 0.003)
    sides = tuple(box(long, 0.0025, tall * 0.7, long, s * (inner - 0.0025), low + tall * 0.7) for s in (1, -1))
    back = box(0.0025, inner, tall * 0.7, 2 * long - 0.0025, 0.0, low + tall * 0.7)
    handle, grasp = _post(p, -PANEL_M, 0.0, height + 0.005)
    return Mechanism(
        _case(width, depth, height, floor), (panel, bottom, *sides, back, *handle), (6,), grasp,
        "slide", (-1.0, 0.0, 0.0), (0.0, 0.0, 0.0), p["travel"] * depth,
    )  # fmt: skip


def door(p: Mapping[str, float]) -> Mechanism:
    """A cabinet whose front is a door on an upright hinge, with a shelf behind it."""
    width, depth, height, hand = p["width"], p["depth"], p["height"], _hand(p)
    thick = p.get("thick", PANEL_M)
    shelf = box(depth / 2 - WALL_M, width / 2 - WALL_M, WALL_M / 2, depth / 2, 0.0, height / 2)
    panel = box(thick / 2, width / 2 - 0.001, height / 2 - 0.001, -thick / 2, 0.0, height / 2)
    handle, grasp = _post(p, -thick, -hand * (width / 2 - 0.018), height + 0.005)
    return Mechanism(
        (*_case(width, depth, height), shelf), (panel, *handle), (2,), grasp,
        "hinge", (0.0, 0.0, -hand), (0.0, hand * width / 2, 0.0), p["turn"],
    )  # fmt: skip


def lid(p: Mapping[str, float]) -> Mechanism:
    """A box whose lid turns about its far upper edge; the handle stands on the lid's near edge."""
    width, depth, height = p["width"], p["depth"], p["height"]
    half, inner = WALL_M / 2, width / 2 - WALL_M
    sides = tuple(box(depth / 2, half, height / 2, depth / 2, s * (width / 2 - half), height / 2) for s in (1, -1))
    ends = tuple(box(half, inner, height / 2, x, 0.0, height / 2) for x in (half, depth - half))
    floor = box(depth / 2 - WALL_M, inner, half, depth / 2, 0.0, half)
    plate = box(depth / 2, width / 2, PANEL_M / 2, depth / 2, 0.0, height + PANEL_M / 2)
    bottom, x = height + PANEL_M, 0.016
    top = bottom + POST_M
    post = box(p["post"], p["bar"], POST_M / 2, x, 0.0, (top + bottom) / 2) if "bar" in p else upright_cylinder(p["post"], bottom, top, x)
    grasp = Grasp((x, 0.0, top - BELOW_TOP_M), JAW_RAD, 2 * p.get("bar", p["post"]))
    return Mechanism(
        (*sides, *ends, floor), (plate, post), (1,), grasp, "hinge", (0.0, 1.0, 0.0), (depth, 0.0, height), p["turn"]
    )  # fmt: skip


def slider(p: Mapping[str, float]) -> Mechanism:
    """A cabinet with a fixed half front and a panel that slides before it on two rails."""
    width, depth, height, hand = p["width"], p["depth"], p["height"], _hand(p)
    fixed = box(WALL_M / 2, width / 4, height / 2, WALL_M / 2, hand * width / 4, height / 2)
    rails = tuple(box(PANEL_M / 2, width / 2, 0.003, -PANEL_M / 2, 0.0, z) for z in (height - 0.003, 0.003))
    panel = box(PANEL_M / 2, width / 4, height / 2 - 0.008, -PANEL_M / 2, -hand * width / 4, height / 2)
    handle, grasp = _post(p, -PANEL_M, -hand * width / 4, height + 0.005)
    return Mechanism(
        (*_case(width, depth, height), fixed, *rails), (panel, *handle), (2,), grasp,
        "slide", (0.0, hand, 0.0), (0.0, 0.0, 0.0), p["travel"] * width,
    )  # fmt: skip


def knob(p: Mapping[str, float]) -> Mechanism:
    """A block with a knob that turns about the vertical, its wing held across; a peg on the wing shows where it points."""
    half, height, hub, hand = p["width"] / 2, p["height"], p["hub"], _hand(p)
    rim, wing, tall = height + 0.006, height + 0.016, 0.036
    grip = box(p["length"], p["thick"], tall / 2, 0.0, 0.0, wing + tall / 2)
    peg = upright_cylinder(0.004, rim, wing, -hub + 0.006)
    grasp = Grasp((0.0, 0.0, wing + tall - 0.012), JAW_RAD, 2 * p["thick"])
    return Mechanism(
        (box(half, half, height / 2, 0.0, 0.0, height / 2), upright_cylinder(hub * 0.5, height, rim)),
        (upright_cylinder(hub, rim, wing), peg, grip), (2,), grasp, "hinge", (0.0, 0.0, hand), (0.0, 0.0, 0.0), p["turn"],
    )  # fmt: skip


def lever(p: Mapping[str, float]) -> Mechanism:
    """A block with a lever that tips from leaning back to leaning forward, between two cheeks."""
    half, height, turn, long = p["width"] / 2, p["height"], p["turn"], p["length"]
    pivot, lean = height + 0.012, turn / 2
    cheeks = tuple(box(0.014, 0.004, 0.012, 0.0, s * 0.022, height + 0.012) for s in (1, -1))
    direction = (math.sin(lean), 0.0, math.cos(lean))

    def along(distance: float) -> Vector:
        return (distance * direction[0], 0.0, pivot + distance * direction[2])

    tilt = about("y", lean)
    shaft = Primitive("cylinder", (0.007, long / 2 - 0.01, 0.0), along(long / 2 - 0.01), tilt)
    grip = Primitive("cylinder", (p["post"], POST_M / 2, 0.0), along(long - POST_M / 2), tilt)
    hub = Primitive("cylinder", (0.012, 0.016, 0.0), (0.0, 0.0, pivot), about("x", math.pi / 2))
    grasp = Grasp(along(long - 0.014), JAW_RAD, 2 * p["post"])
    return Mechanism(
        (box(half, half, height / 2, 0.0, 0.0, height / 2), *cheeks), (hub, shaft, grip), (2,), grasp,
        "hinge", (0.0, -1.0, 0.0), (0.0, 0.0, pivot), turn,
    )  # fmt: skip
