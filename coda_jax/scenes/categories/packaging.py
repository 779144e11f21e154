"""Packaging: what food is sold in. Free objects; z = 0 is the lowest point of each; lengths in metres."""

from __future__ import annotations

from collections.abc import Mapping

from coda_jax.scenes.categories.record import Category
from coda_jax.scenes.shapes.build import Shape, box, box_grasps, grip_height, round_grasps, upright_cylinder


def carton(p: Mapping[str, float]) -> Shape:
    """A standing pack, wider than the jaws open: only its narrow side can be gripped."""
    hx, hy, height = p["depth"] / 2, p["width"] / 2, p["height"]
    return Shape((box(hx, hy, height / 2, z=height / 2),), box_grasps(hx, hy, height))


def can(p: Mapping[str, float]) -> Shape:
    radius, height = p["radius"], p["height"]
    return Shape((upright_cylinder(radius, 0.0, height),), round_grasps(radius, grip_height(height)))


def bottle(p: Mapping[str, float]) -> Shape:
    """Body and neck; gripped at the shoulder of the body, or at the neck."""
    radius, body, neck_radius, neck = p["radius"], p["body"], p["neck_radius"], p["neck"]
    at_body = round_grasps(radius, body - 0.01)[:2]
    at_neck = round_grasps(neck_radius, body + neck / 2)[:2]
    return Shape((upright_cylinder(radius, 0.0, body), upright_cylinder(neck_radius, body, body + neck)), at_body + at_neck)


def jar(p: Mapping[str, float]) -> Shape:
    """A wide glass, a narrower collar and a flat lid; gripped at the glass below the collar."""
    radius, body, lid = p["radius"], p["body"], p["lid"]
    neck = 0.005
    top = body + neck + lid
    shapes = (upright_cylinder(radius, 0.0, body), upright_cylinder(radius * 0.75, body, body + neck))
    return Shape((*shapes, upright_cylinder(radius * 0.88, body + neck, top)), round_grasps(radius, body - 0.014))


CATEGORIES = (
    Category(
        "carton", "object", "train", carton, 350,
        (("depth", 0.03, 0.046), ("width", 0.074, 0.092), ("height", 0.06, 0.1)),
        ("graspable", "stackable"),
    ),
    Category(
        "can", "object", "train", can, 500, (("radius", 0.023, 0.032), ("height", 0.06, 0.105)), ("graspable", "stackable")
    ),
    Category(
        "bottle", "object", "train", bottle, 500,
        (("radius", 0.024, 0.031), ("body", 0.055, 0.075), ("neck_radius", 0.011, 0.014), ("neck", 0.02, 0.029)),
        ("graspable",),
    ),
    Category(
        "jar", "object", "train", jar, 600,
        (("radius", 0.025, 0.032), ("body", 0.04, 0.06), ("lid", 0.01, 0.016)),
        ("graspable", "stackable"),
    ),
)  # fmt: skip
