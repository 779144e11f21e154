"""Fruit and vegetables. Free objects; z = 0 is the lowest point of each; lengths in metres."""

from __future__ import annotations

import math
from collections.abc import Mapping

from coda_jax.scenes.assets import Grasp
from coda_jax.scenes.categories.record import Category
from coda_jax.scenes.shapes.build import Shape, box, ellipsoid, lying_capsule, round_grasps, sphere, upright_cylinder


def banana(p: Mapping[str, float]) -> Shape:
    """Three capsules in an arc in the table plane, along y; jaws close along x at the middle."""
    radius, half, bend = p["radius"], p["segment"] / 2, p["bend"]
    x = -half * math.sin(bend)
    y = half + half * math.cos(bend)
    middle = lying_capsule(radius, half, 0.0, 0.0, radius)
    ends = (lying_capsule(radius * 0.9, half, x, y, radius * 0.9, bend), lying_capsule(radius * 0.9, half, x, -y, radius * 0.9, -bend))
    return Shape((middle, *ends), (Grasp((0.0, 0.0, radius), 0.0, 2 * radius),))


def pear(p: Mapping[str, float]) -> Shape:
    """A round body on a small flat base, with a smaller round top; jaws must close below its widest neighbour, at the body."""
    radius, top = p["radius"], p["top"]
    sink = 0.002  # the base is cut a little into the sphere, so that it stands
    return Shape(
        (upright_cylinder(radius * 0.55, 0.0, 0.006), sphere(radius, radius + sink), sphere(top, 2 * radius + sink - 0.004)),
        round_grasps(radius, radius + sink),
    )


def apple(p: Mapping[str, float]) -> Shape:
    """A flattened ball on a small flat base, with a stalk."""
    radius, flat = p["radius"], p["flat"]
    half = radius * flat
    sink = 0.0015
    stalk = upright_cylinder(0.003, 2 * half + sink - 0.003, 2 * half + sink + p["stalk"])
    body = ellipsoid(radius, radius, half, z=half + sink)
    return Shape((upright_cylinder(radius * 0.5, 0.0, 0.005), body, stalk), round_grasps(radius, half + sink))


def lemon(p: Mapping[str, float]) -> Shape:
    """A long ball with a nub at both ends, lying along y: it rolls across its length."""
    radius, stretch = p["radius"], p["stretch"]
    long = radius * stretch
    nubs = tuple(lying_capsule(radius * 0.32, 0.003, 0.0, side * (long + 0.001), radius) for side in (1, -1))
    return Shape((ellipsoid(radius, long, radius, z=radius), *nubs), (Grasp((0.0, 0.0, radius), 0.0, 2 * radius),))


def carrot(p: Mapping[str, float]) -> Shape:
    """Four pieces, each thinner than the one before, and a flat tuft of leaves at the thick end that keeps it from rolling."""
    radius, piece = p["radius"], p["piece"]
    thick = [radius * (1 - 0.2 * i) for i in range(4)]
    root = tuple(lying_capsule(r, piece / 2, 0.0, i * piece, r) for i, r in enumerate(thick))
    leaves = tuple(box(0.004, 0.018, 0.003, x=side * 0.011, y=-piece / 2 - radius - 0.012, z=0.003) for side in (1, -1))
    return Shape((*root, *leaves), tuple(Grasp((0.0, y, radius), 0.0, 2 * radius) for y in (0.008, 0.0)))


def mushroom(p: Mapping[str, float]) -> Shape:
    """A stout stem under a wide cap; gripped across the cap."""
    stem, height, radius, cap = p["stem"], p["height"], p["radius"], p["cap"]
    dome = ellipsoid(radius, radius, cap, z=height + cap * 0.55)
    return Shape((upright_cylinder(stem, 0.0, height), dome), round_grasps(radius, height + cap * 0.55))


CATEGORIES = (
    Category(
        "banana", "object", "train", banana, 700, (("radius", 0.014, 0.019), ("segment", 0.036, 0.052), ("bend", 0.25, 0.5)),
        ("graspable",),
    ),
    Category("pear", "object", "validation", pear, 800, (("radius", 0.0245, 0.029), ("top", 0.012, 0.0145)), ("graspable",)),
    Category(
        "apple", "object", "train", apple, 700, (("radius", 0.026, 0.032), ("flat", 0.82, 0.94), ("stalk", 0.006, 0.01)), ("graspable",)
    ),
    Category("lemon", "object", "train", lemon, 800, (("radius", 0.021, 0.027), ("stretch", 1.25, 1.5)), ("graspable", "rollable")),
    Category("carrot", "object", "validation", carrot, 800, (("radius", 0.016, 0.02), ("piece", 0.022, 0.028)), ("graspable",)),
    Category(
        "mushroom", "object", "test", mushroom, 600,
        (("stem", 0.014, 0.018), ("height", 0.024, 0.032), ("radius", 0.025, 0.031), ("cap", 0.016, 0.02)),
        ("graspable",),
    ),
)  # fmt: skip
