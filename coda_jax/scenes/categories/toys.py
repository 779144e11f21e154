"""Toys and bricks to build with. Free objects; z = 0 is the lowest point of each; lengths in metres."""

from __future__ import annotations

import math
from collections.abc import Mapping

from coda_jax.scenes.assets import Grasp
from coda_jax.scenes.categories.record import Category
from coda_jax.scenes.shapes.build import (
    Shape,
    about,
    box,
    box_grasps,
    lying_capsule,
    lying_cylinder,
    round_grasps,
    sphere,
    upright_cylinder,
)


def block(p: Mapping[str, float]) -> Shape:
    """A toy brick; both sides fit the jaws."""
    hx, hy, height = p["width"] / 2, p["width"] * p["aspect"] / 2, p["height"]
    return Shape((box(hx, hy, height / 2, z=height / 2),), box_grasps(hx, hy, height))


def ball(p: Mapping[str, float]) -> Shape:
    radius = p["radius"]
    return Shape((sphere(radius, radius),), round_grasps(radius, radius))


def dumbbell(p: Mapping[str, float]) -> Shape:
    """Two heads and a bar along y: only the bar between the heads fits the jaws."""
    bar_radius, gap, head, thick = p["bar_radius"], p["gap"], p["head"], p["thick"]
    bar = lying_capsule(bar_radius, gap / 2, 0.0, 0.0, head / 2)
    heads = tuple(box(head / 2, thick / 2, head / 2, y=side * (gap + thick) / 2, z=head / 2) for side in (1, -1))
    return Shape((bar, *heads), (Grasp((0.0, 0.0, head / 2), 0.0, 2 * bar_radius),))


def arch(p: Mapping[str, float]) -> Shape:
    """A building brick with a gate: two pillars under a lintel; gripped across the lintel, or along it where it is short."""
    depth, span, height, thick = p["depth"], p["span"], p["height"], p["thick"]
    hy, leg = span / 2, 0.008
    under = height - thick
    pillars = tuple(box(depth / 2, leg, under / 2, y=side * (hy - leg), z=under / 2) for side in (1, -1))
    lintel = box(depth / 2, hy, thick / 2, z=under + thick / 2)
    return Shape((lintel, *pillars), (Grasp((0.0, 0.0, under + thick / 2 - 0.002), 0.0, depth),))


def car(p: Mapping[str, float]) -> Shape:
    """A toy car: body, cabin and four wheels; gripped across the cabin and the body under it."""
    width, length, body, wheel = p["width"], p["length"], p["body"], p["wheel"]
    hx, hy = width / 2, length / 2
    low = wheel * 0.8
    wheels = tuple(lying_cylinder(wheel, 0.003, sx * (hx - 0.003), sy * hy * 0.6, wheel, across=True) for sx in (1, -1) for sy in (1, -1))
    chassis = box(hx - 0.007, hy, body / 2, z=low + body / 2)
    cabin = box(hx - 0.008, hy * 0.45, 0.009, y=-hy * 0.1, z=low + body + 0.009)
    grip = low + body * 0.75
    return Shape((chassis, cabin, *wheels), (Grasp((0.0, -hy * 0.05, max(grip, 2 * wheel + 0.012)), 0.0, width - 0.014),))


def drum(p: Mapping[str, float]) -> Shape:
    """A toy drum: shell between two hoops; flat on both sides."""
    radius, height, hoop = p["radius"], p["height"], 0.007
    rings = (upright_cylinder(radius, 0.0, hoop), upright_cylinder(radius, height - hoop, height))
    return Shape((upright_cylinder(radius * 0.86, hoop, height - hoop), *rings), round_grasps(radius, height - 0.012))


def house(p: Mapping[str, float]) -> Shape:
    """A toy house: walls, a pitched roof (a square bar on its edge, half of it inside) and a chimney; gripped across the walls."""
    width, length, walls = p["width"], p["length"], p["walls"]
    hx, hy = width / 2, length / 2
    roof = box(hx / math.sqrt(2), hy, hx / math.sqrt(2), z=walls, quat=about("y", math.pi / 4))
    chimney = box(0.005, 0.005, 0.011, x=hx * 0.5, y=hy * 0.5, z=walls + hx * 0.5 + 0.002)
    z = max(walls * 0.7, 0.014)
    grasps = (Grasp((0.0, 0.0, z), 0.0, width), Grasp((0.0, 0.0, z), math.pi / 2, length))
    return Shape((box(hx, hy, walls / 2, z=walls / 2), roof, chimney), grasps)


def spool(p: Mapping[str, float]) -> Shape:
    """A spool of thread: two flanges and a core; flat on both sides, gripped at the upper flange."""
    radius, height, flange = p["radius"], p["height"], p["flange"]
    core = upright_cylinder(radius * 0.6, flange, height - flange)
    return Shape(
        (upright_cylinder(radius, 0.0, flange), core, upright_cylinder(radius, height - flange, height)),
        round_grasps(radius, max(height - flange / 2 - 0.002, 0.02)),
    )


def boat(p: Mapping[str, float]) -> Shape:
    """A toy boat: hull, a bow of two slanted planks, cabin and funnel; gripped across the hull."""
    width, length, hull, cabin = p["width"], p["length"], p["hull"], p["cabin"]
    hx, hy = width / 2, length / 2
    plank = hx * 1.35
    bow = tuple(
        box(plank / 2 + 0.002, hx * 0.42, hull / 2, x=side * hx * 0.38, y=hy + hx * 0.30, z=hull / 2, quat=about("z", -side * 0.8))
        for side in (1, -1)
    )
    house_ = box(hx * 0.6, hy * 0.4, cabin / 2, y=-hy * 0.25, z=hull + cabin / 2)
    funnel = upright_cylinder(0.005, hull + cabin, hull + cabin + 0.008, y=-hy * 0.25)
    return Shape((box(hx, hy, hull / 2, z=hull / 2), *bow, house_, funnel), (Grasp((0.0, -hy * 0.2, hull - 0.006), 0.0, width),))


CATEGORIES = (
    Category(
        "block", "object", "train", block, 600, (("width", 0.03, 0.048), ("aspect", 1.0, 1.4), ("height", 0.028, 0.056)),
        ("graspable", "stackable"),
    ),
    Category("ball", "object", "train", ball, 500, (("radius", 0.02, 0.032),), ("graspable", "rollable")),
    Category(
        "arch", "object", "train", arch, 600,
        (("depth", 0.028, 0.042), ("span", 0.06, 0.085), ("height", 0.036, 0.055), ("thick", 0.014, 0.02)),
        ("graspable", "stackable"),
    ),
    Category(
        "car", "object", "train", car, 500,
        (("width", 0.042, 0.054), ("length", 0.07, 0.09), ("body", 0.016, 0.022), ("wheel", 0.009, 0.011)),
        ("graspable",),
    ),
    Category("drum", "object", "validation", drum, 450, (("radius", 0.025, 0.032), ("height", 0.034, 0.055)), ("graspable", "stackable")),
    Category(
        "house", "object", "validation", house, 450,
        (("width", 0.034, 0.044), ("length", 0.04, 0.06), ("walls", 0.028, 0.04)),
        ("graspable",),
    ),
    Category(
        "dumbbell", "object", "test", dumbbell, 700,
        (("bar_radius", 0.01, 0.014), ("gap", 0.05, 0.06), ("head", 0.04, 0.05), ("thick", 0.02, 0.028)),
        ("graspable",),
    ),
    Category(
        "spool", "object", "test", spool, 500, (("radius", 0.024, 0.031), ("height", 0.036, 0.05), ("flange", 0.007, 0.011)),
        ("graspable", "stackable"),
    ),
    Category(
        "boat", "object", "test", boat, 450,
        (("width", 0.034, 0.044), ("length", 0.055, 0.07), ("hull", 0.024, 0.03), ("cabin", 0.012, 0.018)),
        ("graspable",),
    ),
)  # fmt: skip
