"""Drinkware: what one drinks from and pours from. Free objects; z = 0 is the lowest point of each; lengths in metres."""

from __future__ import annotations

import math
from collections.abc import Mapping

from coda_jax.scenes.assets import Grasp
from coda_jax.scenes.categories.record import Category
from coda_jax.scenes.shapes.build import Shape, box, grip_height, leaning_capsule, round_grasps, sphere, upright_cylinder


def _beside_handle(radius: float, z: float) -> tuple[Grasp, ...]:
    """Jaws close across a round body, never over what sticks out along x."""
    return tuple(Grasp((0.0, 0.0, z), yaw, 2 * radius) for yaw in (math.pi / 2, math.pi / 4, -math.pi / 4))


def mug(p: Mapping[str, float]) -> Shape:
    """Body and a handle along +x: jaws close across the body, never over the handle."""
    radius, height, reach = p["radius"], p["height"], p["handle"]
    handle = box(reach / 2, 0.006, height * 0.28, x=radius + reach / 2 - 0.002, z=height / 2)
    return Shape((upright_cylinder(radius, 0.0, height), handle), _beside_handle(radius, grip_height(height)))


def cup(p: Mapping[str, float]) -> Shape:
    """A beaker in three steps, wider towards the rim; flat on top, so that another can stand on it."""
    foot, flare, height = p["foot"], p["flare"], p["height"]
    steps = tuple(upright_cylinder(foot + i * flare / 2, i * height / 3, (i + 1) * height / 3) for i in range(3))
    return Shape(steps, round_grasps(foot + flare, height - min(0.02, height / 6)))


def jug(p: Mapping[str, float]) -> Shape:
    """Body, narrower neck, a lip at the front and a tall handle at the back, both along x."""
    radius, body, neck, reach = p["radius"], p["body"], p["neck"], p["handle"]
    top = body + neck
    lip = box(0.008, 0.008, 0.007, x=-radius * 0.75 - 0.006, z=top - 0.007)
    grip = box(0.005, 0.006, top * 0.3, x=radius + reach - 0.005, z=top * 0.58)
    bars = tuple(box(reach / 2, 0.006, 0.005, x=radius + reach / 2 - 0.003, z=top * 0.58 + side * (top * 0.3 - 0.005)) for side in (1, -1))
    shapes = (upright_cylinder(radius, 0.0, body), upright_cylinder(radius * 0.75, body, top), lip, grip, *bars)
    return Shape(shapes, _beside_handle(radius, body - 0.012))


def teapot(p: Mapping[str, float]) -> Shape:
    """A squat body with lid, knob, a spout that rises along -x and a handle along +x."""
    radius, height, spout, reach = p["radius"], p["height"], p["spout"], p["handle"]
    knob = 0.007
    snout = leaning_capsule(0.006, spout / 2, -radius - spout * 0.28, 0.0, height * 0.62, -0.9)
    ear = box(0.005, 0.006, height * 0.28, x=radius + reach - 0.005, z=height * 0.55)
    bar = box(reach / 2, 0.006, 0.005, x=radius + reach / 2 - 0.003, z=height * 0.83 - 0.005)
    lid = upright_cylinder(radius * 0.7, height, height + 0.006)
    shapes = (upright_cylinder(radius, 0.0, height), lid, sphere(knob, height + 0.006 + knob * 0.8), snout, ear, bar)
    return Shape(shapes, _beside_handle(radius, height - 0.014)[:1])


def goblet(p: Mapping[str, float]) -> Shape:
    """Foot, thin stem and cup; gripped at the cup."""
    foot, stem, radius, bowl = p["foot"], p["stem"], p["radius"], p["cup"]
    base = 0.008
    rim = base + stem + bowl
    return Shape(
        (upright_cylinder(foot, 0.0, base), upright_cylinder(0.007, base, base + stem), upright_cylinder(radius, base + stem, rim)),
        round_grasps(radius, rim - bowl / 2),
    )


CATEGORIES = (
    Category(
        "mug", "object", "train", mug, 550, (("radius", 0.025, 0.032), ("height", 0.06, 0.09), ("handle", 0.018, 0.028)), ("graspable",)
    ),
    Category(
        "cup", "object", "train", cup, 500,
        (("foot", 0.02, 0.024), ("flare", 0.004, 0.008), ("height", 0.055, 0.085)),
        ("graspable", "stackable"),
    ),
    Category(
        "jug", "object", "train", jug, 450,
        (("radius", 0.026, 0.032), ("body", 0.05, 0.07), ("neck", 0.018, 0.026), ("handle", 0.02, 0.028)),
        ("graspable",),
    ),
    Category(
        "teapot", "object", "train", teapot, 500,
        (("radius", 0.027, 0.032), ("height", 0.042, 0.055), ("spout", 0.026, 0.034), ("handle", 0.018, 0.026)),
        ("graspable",),
    ),
    Category(
        "goblet", "object", "test", goblet, 600,
        (("foot", 0.026, 0.03), ("stem", 0.02, 0.032), ("radius", 0.024, 0.03), ("cup", 0.036, 0.048)),
        ("graspable",),
    ),
)  # fmt: skip
