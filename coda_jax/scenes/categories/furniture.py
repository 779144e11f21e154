"""Low furniture and appliances to put things on: supports, static, up to 6 primitives. z = 0 is the table; lengths in metres.

The highest face is the surface, and it is flat where the middle of a thing may come to stand.
"""

from __future__ import annotations

from collections.abc import Mapping

from coda_jax.scenes.categories.record import Category
from coda_jax.scenes.shapes.build import Shape, box, upright_cylinder


def stand(p: Mapping[str, float]) -> Shape:
    """A low stool: top and four legs."""
    hx, hy, height, leg = p["width"] / 2, p["length"] / 2, p["height"], 0.008
    top = box(hx, hy, 0.006, z=height - 0.006)
    rise = (height - 0.012) / 2
    legs = tuple(box(leg, leg, rise, x=sx * (hx - leg), y=sy * (hy - leg), z=rise) for sx in (1, -1) for sy in (1, -1))
    return Shape((top, *legs))


def bench(p: Mapping[str, float]) -> Shape:
    """A long seat on two boards, with a rail between them."""
    hx, hy, height = p["width"] / 2, p["length"] / 2, p["height"]
    top = box(hx, hy, 0.005, z=height - 0.005)
    rise = (height - 0.01) / 2
    sides = tuple(box(hx * 0.9, 0.006, rise, y=side * hy * 0.75, z=rise) for side in (1, -1))
    return Shape((top, *sides, box(0.005, hy * 0.75, rise * 0.35, z=rise)))


def shelf(p: Mapping[str, float]) -> Shape:
    """A low open shelf: top and bottom boards, two sides and a back; long along x, open towards -y."""
    hx, hy, height, board = p["length"] / 2, p["depth"] / 2, p["height"], 0.005
    rise = height / 2 - board
    sides = tuple(box(board / 2, hy, rise, x=side * (hx - board / 2), z=height / 2) for side in (1, -1))
    back = box(hx - board, board / 2, rise, y=hy - board / 2, z=height / 2)
    return Shape((box(hx, hy, board / 2, z=height - board / 2), box(hx, hy, board / 2, z=board / 2), *sides, back))


def pedestal(p: Mapping[str, float]) -> Shape:
    """A round top on a column with a round foot, like a cake stand."""
    radius, height = p["radius"], p["height"]
    return Shape(
        (
            upright_cylinder(radius * 0.65, 0.0, 0.008),
            upright_cylinder(radius * 0.25, 0.008, height - 0.008),
            upright_cylinder(radius, height - 0.008, height),
        )
    )


def rack(p: Mapping[str, float]) -> Shape:
    """A drying rack: four slats across two rails."""
    hx, hy, height = p["width"] / 2, p["length"] / 2, p["height"]
    gap = 0.006
    slat = (2 * hx - 3 * gap) / 8
    slats = tuple(box(slat, hy, 0.004, x=-hx + slat + i * (2 * slat + gap), z=height - 0.004) for i in range(4))
    rise = (height - 0.008) / 2
    rails = tuple(box(hx * 0.95, 0.007, rise, y=side * hy * 0.8, z=rise) for side in (1, -1))
    return Shape((*slats, *rails))


def mat(p: Mapping[str, float]) -> Shape:
    """A thin flat mat."""
    return Shape((box(p["width"] / 2, p["length"] / 2, p["height"] / 2, z=p["height"] / 2),))


def stove(p: Mapping[str, float]) -> Shape:
    """A hob: body, one round plate in the middle, and three knobs along the front."""
    hx, hy, height, disc = p["width"] / 2, p["length"] / 2, p["height"], p["plate"]
    body = box(hx, hy, height / 2, z=height / 2)
    knobs = tuple(box(0.005, 0.006, 0.006, x=-hx - 0.005, y=i * hy * 0.5, z=height * 0.5) for i in (-1, 0, 1))
    return Shape((body, upright_cylinder(disc, height, height + 0.004), *knobs))


_ON = ("supports",)
CATEGORIES = (
    Category("stand", "support", "train", stand, 0, (("width", 0.11, 0.135), ("length", 0.11, 0.135), ("height", 0.04, 0.07)), _ON),
    Category("bench", "support", "train", bench, 0, (("width", 0.095, 0.12), ("length", 0.14, 0.18), ("height", 0.035, 0.06)), _ON),
    Category("shelf", "support", "train", shelf, 0, (("depth", 0.1, 0.125), ("length", 0.13, 0.16), ("height", 0.045, 0.07)), _ON),
    Category("pedestal", "support", "train", pedestal, 0, (("radius", 0.058, 0.074), ("height", 0.04, 0.065)), _ON),
    Category("rack", "support", "train", rack, 0, (("width", 0.11, 0.135), ("length", 0.12, 0.16), ("height", 0.018, 0.03)), _ON),
    Category("mat", "support", "train", mat, 0, (("width", 0.11, 0.15), ("length", 0.12, 0.17), ("height", 0.005, 0.009)), _ON),
    Category(
        "stove", "support", "train", stove, 0,
        (("width", 0.12, 0.14), ("length", 0.13, 0.16), ("height", 0.02, 0.035), ("plate", 0.048, 0.056)),
        _ON,
    ),
)  # fmt: skip
