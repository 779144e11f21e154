"""Hand tools: they lie along y and are gripped across the handle, where the weight is. z = 0 is the lowest point; lengths in metres."""

from __future__ import annotations

from collections.abc import Mapping

from coda_jax.scenes.assets import Grasp
from coda_jax.scenes.categories.record import Category
from coda_jax.scenes.shapes.build import Shape, about, box, lying_capsule, lying_cylinder, upright_cylinder


def _across(width: float, z: float, *ys: float) -> tuple[Grasp, ...]:
    return tuple(Grasp((0.0, y, z), 0.0, width) for y in ys)


def hammer(p: Mapping[str, float]) -> Shape:
    """Handle along y, head across at its end; gripped at the handle, near the head where the weight is."""
    radius, length, head, thick = p["radius"], p["length"], p["head"], p["thick"]
    handle = lying_capsule(radius, length / 2, 0.0, 0.0, radius)
    head_box = box(head / 2, thick / 2, thick / 2, y=length / 2 + thick / 2, z=thick / 2)
    near = length / 2 - 0.025
    return Shape((handle, head_box), _across(2 * radius, radius, near, near - 0.02))


def screwdriver(p: Mapping[str, float]) -> Shape:
    """Thick square grip, thin long shaft in mid-air; it balances on the grip, where it must be held."""
    width, grip, shaft_radius, shaft = p["width"], p["grip"], p["shaft_radius"], p["shaft"]
    handle = box(width / 2, grip / 2, width / 2, z=width / 2)
    blade = lying_capsule(shaft_radius, shaft / 2, 0.0, grip / 2 + shaft / 2, width / 2)
    return Shape((handle, blade), _across(width, width / 2, 0.012, 0.0))


def wrench(p: Mapping[str, float]) -> Shape:
    """An open-ended spanner: handle, a bridge with two jaws at one end, a ring at the other."""
    width, length, height, mouth = p["width"], p["length"], p["height"], p["mouth"]
    half, z = length / 2, height / 2
    handle = box(width / 2, half, z, z=z)
    bridge = box(mouth / 2 + 0.01, 0.007, z, y=half + 0.006, z=z)
    jaws = tuple(box(0.005, 0.009, z, x=side * (mouth / 2 + 0.005), y=half + 0.022, z=z) for side in (1, -1))
    ring = upright_cylinder(mouth / 2 + 0.006, 0.0, height, y=-half - mouth / 2)
    return Shape((handle, bridge, *jaws, ring), _across(width, max(z, 0.012), 0.0, 0.014))


def brush(p: Mapping[str, float]) -> Shape:
    """A dish brush on its bristles: the head rests on a broad tuft, the handle rises a little and ends on a knob."""
    width, length, head, bristle = p["width"], p["length"], p["head"], p["bristle"]
    half, back = length / 2, 0.008
    z = bristle + back
    tuft = box(head * 0.45, head * 0.8, bristle / 2, y=half + head * 0.8, z=bristle / 2)
    block = box(head * 0.5, head * 0.9, back, y=half + head * 0.8, z=z)
    handle = box(width / 2, half, back, y=0.0, z=z)
    foot = box(width * 0.5, 0.007, (z + back) / 2, y=-half - 0.005, z=(z + back) / 2)
    return Shape((handle, block, tuft, foot), _across(width, z, half * 0.5, half * 0.2))


def pliers(p: Mapping[str, float]) -> Shape:
    """Two legs that spread from the pivot, two jaws and the pivot's disc: gripped at the jaws' root, across both."""
    width, legs, height, jaw = p["width"], p["legs"], p["height"], p["jaw"]
    z, lean = height / 2, 0.17
    arms = tuple(
        box(width * 0.2, legs / 2, z, x=side * (width * 0.3 + legs / 2 * 0.17), y=-legs / 2 - 0.004, z=z, quat=about("z", side * lean))
        for side in (1, -1)
    )
    beak = tuple(box(width * 0.2, jaw / 2, z, x=side * width * 0.22, y=jaw / 2 + 0.006, z=z) for side in (1, -1))
    pivot = box(width / 2, 0.014, z, y=0.0, z=z)
    return Shape((pivot, *beak, *arms), _across(width, max(z, 0.012), 0.0))


def torch(p: Mapping[str, float]) -> Shape:
    """A flashlight on a flat foot: barrel along y and a wider lamp at its end."""
    radius, length, lamp, depth = p["radius"], p["length"], p["lamp"], p["depth"]
    barrel = lying_cylinder(radius, length / 2, 0.0, 0.0, lamp)
    head = lying_cylinder(lamp, depth / 2, 0.0, length / 2 + depth / 2, lamp)
    foot = box(radius * 0.7, 0.012, lamp * 0.5, y=-length / 2 + 0.013, z=lamp * 0.5)
    switch = box(0.004, 0.007, 0.003, y=length * 0.2, z=lamp + radius)
    return Shape((barrel, head, foot, switch), _across(2 * radius, lamp, length * 0.12, -length * 0.05))


CATEGORIES = (
    Category(
        "hammer", "object", "train", hammer, 900,
        (("radius", 0.0125, 0.016), ("length", 0.085, 0.115), ("head", 0.055, 0.08), ("thick", 0.028, 0.036)),
        ("graspable",),
    ),
    Category(
        "screwdriver", "object", "validation", screwdriver, 700,
        (("width", 0.026, 0.034), ("grip", 0.06, 0.08), ("shaft_radius", 0.004, 0.006), ("shaft", 0.05, 0.08)),
        ("graspable",),
    ),
    Category(
        "wrench", "object", "train", wrench, 1200,
        (("width", 0.018, 0.024), ("length", 0.06, 0.08), ("height", 0.016, 0.02), ("mouth", 0.016, 0.022)),
        ("graspable",),
    ),
    Category(
        "brush", "object", "train", brush, 500,
        (("width", 0.018, 0.024), ("length", 0.06, 0.085), ("head", 0.03, 0.038), ("bristle", 0.012, 0.018)),
        ("graspable",),
    ),
    Category(
        "pliers", "object", "test", pliers, 1200,
        (("width", 0.03, 0.038), ("legs", 0.055, 0.075), ("height", 0.016, 0.02), ("jaw", 0.026, 0.036)),
        ("graspable",),
    ),
    Category(
        "torch", "object", "validation", torch, 700,
        (("radius", 0.0125, 0.0155), ("length", 0.07, 0.09), ("lamp", 0.019, 0.023), ("depth", 0.018, 0.024)),
        ("graspable",),
    ),
)  # fmt: skip
