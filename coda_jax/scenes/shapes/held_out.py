"""Builders of the held-out categories: shapes that no training category has. z = 0 is the lowest point of each; lengths in metres."""

from __future__ import annotations

from collections.abc import Mapping

from coda_jax.scenes.assets import Grasp
from coda_jax.scenes.shapes.build import Shape, box, lying_capsule, round_grasps, sphere, upright_cylinder


def screwdriver(p: Mapping[str, float]) -> Shape:
    """Thick square grip, thin long shaft in mid-air; it balances on the grip, where it must be held."""
    width, grip, shaft_radius, shaft = p["width"], p["grip"], p["shaft_radius"], p["shaft"]
    handle = box(width / 2, grip / 2, width / 2, z=width / 2)
    blade = lying_capsule(shaft_radius, shaft / 2, 0.0, grip / 2 + shaft / 2, width / 2)
    grasps = tuple(Grasp((0.0, y, width / 2), 0.0, width) for y in (0.012, 0.0))
    return Shape((handle, blade), grasps)


def pear(p: Mapping[str, float]) -> Shape:
    """A round body on a small flat base, with a smaller round top; jaws must close below its widest neighbour, at the body."""
    radius, top = p["radius"], p["top"]
    sink = 0.002  # the base is cut a little into the sphere, so that it stands
    return Shape(
        (upright_cylinder(radius * 0.55, 0.0, 0.006), sphere(radius, radius + sink), sphere(top, 2 * radius + sink - 0.004)),
        round_grasps(radius, radius + sink),
    )


def dumbbell(p: Mapping[str, float]) -> Shape:
    """Two heads and a bar along y: only the bar between the heads fits the jaws."""
    bar_radius, gap, head, thick = p["bar_radius"], p["gap"], p["head"], p["thick"]
    bar = lying_capsule(bar_radius, gap / 2, 0.0, 0.0, head / 2)
    heads = tuple(box(head / 2, thick / 2, head / 2, y=side * (gap + thick) / 2, z=head / 2) for side in (1, -1))
    return Shape((bar, *heads), (Grasp((0.0, 0.0, head / 2), 0.0, 2 * bar_radius),))


def goblet(p: Mapping[str, float]) -> Shape:
    """Foot, thin stem and cup; gripped at the cup."""
    foot, stem, radius, cup = p["foot"], p["stem"], p["radius"], p["cup"]
    base = 0.008
    rim = base + stem + cup
    return Shape(
        (upright_cylinder(foot, 0.0, base), upright_cylinder(0.007, base, base + stem), upright_cylinder(radius, base + stem, rim)),
        round_grasps(radius, rim - cup / 2),
    )
