"""Cutlery and kitchen tools, stout enough for the jaws: all lie along y and are gripped across the handle, near their centre of mass.

Free objects; z = 0 is the lowest point of each; lengths in metres.
"""

from __future__ import annotations

from collections.abc import Mapping

from coda_jax.scenes.assets import Grasp
from coda_jax.scenes.categories.record import Category
from coda_jax.scenes.shapes.build import MIN_GRIP_HEIGHT_M, Shape, box, ellipsoid


def _across_handle(width: float, height: float, y: float) -> tuple[Grasp, ...]:
    z = max(height / 2, MIN_GRIP_HEIGHT_M)
    return (Grasp((0.0, y, z), 0.0, width), Grasp((0.0, y - 0.014, z), 0.0, width))


def _handle(p: Mapping[str, float]) -> tuple[float, float, float]:
    """Width, half length and height of the handle, which lies at y = -length..0."""
    return p["width"], p["length"] / 2, p["height"]


def fork(p: Mapping[str, float]) -> Shape:
    """Handle, root and three tines."""
    width, half, height = _handle(p)
    root, tines = 0.016, p["tines"]
    low = height * 0.3
    spread = 0.0125
    prongs = tuple(box(0.003, tines / 2, low, x=i * spread, y=root + tines / 2, z=low) for i in (-1, 0, 1))
    handle = box(width / 2, half, height / 2, y=-half, z=height / 2)
    return Shape((handle, box(spread + 0.003, root / 2, low, y=root / 2, z=low), *prongs), _across_handle(width, height, -half * 0.55))


def spoon(p: Mapping[str, float]) -> Shape:
    """Handle and an oval bowl."""
    width, half, height = _handle(p)
    bowl, low = p["bowl"], height * 0.4
    oval = ellipsoid(bowl * 0.75, bowl, low, y=bowl * 0.9, z=low)
    return Shape((box(width / 2, half, height / 2, y=-half, z=height / 2), oval), _across_handle(width, height, -half * 0.55))


def knife(p: Mapping[str, float]) -> Shape:
    """Handle, guard, and a long thin blade that lies flat and narrows in two steps towards its tip."""
    width, half, height = _handle(p)
    blade, low = p["blade"], 0.003
    steps = tuple(
        box(width * wide, blade * 0.22, low, x=-width * (0.6 - wide), y=blade * (0.22 + 0.4 * i), z=low)
        for i, wide in enumerate((0.6, 0.42, 0.22))
    )
    guard = box(width * 0.7, 0.003, height * 0.4, y=0.002, z=height * 0.4)
    return Shape((box(width / 2, half, height / 2, y=-half, z=height / 2), guard, *steps), _across_handle(width, height, -half * 0.7))


def spatula(p: Mapping[str, float]) -> Shape:
    """Handle, a thin neck and a broad flat blade that is as wide as it is long."""
    width, half, height = _handle(p)
    side, low = p["blade"] / 2, 0.004
    neck = box(0.005, 0.011, low, y=0.011, z=low)
    handle = box(width / 2, half, height / 2, y=-half, z=height / 2)
    return Shape((handle, neck, box(side, side, 0.003, y=0.02 + side, z=0.003)), _across_handle(width, height, -half * 0.45))


CATEGORIES = (
    Category(
        "fork", "object", "train", fork, 900,
        (("width", 0.017, 0.022), ("length", 0.07, 0.085), ("height", 0.017, 0.022), ("tines", 0.028, 0.038)),
        ("graspable",),
    ),
    Category(
        "spoon", "object", "train", spoon, 900,
        (("width", 0.017, 0.022), ("length", 0.068, 0.085), ("height", 0.017, 0.022), ("bowl", 0.023, 0.029)),
        ("graspable",),
    ),
    Category(
        "knife", "object", "validation", knife, 900,
        (("width", 0.018, 0.023), ("length", 0.065, 0.08), ("height", 0.018, 0.022), ("blade", 0.05, 0.064)),
        ("graspable",),
    ),
    Category(
        "spatula", "object", "test", spatula, 800,
        (("width", 0.018, 0.023), ("length", 0.07, 0.085), ("height", 0.018, 0.022), ("blade", 0.046, 0.056)),
        ("graspable",),
    ),
)  # fmt: skip
