"""Builders of the free objects of the training categories. z = 0 is the lowest point of each; lengths in metres."""

from __future__ import annotations

import math
from collections.abc import Mapping

from coda_jax.scenes.assets import Grasp
from coda_jax.scenes.shapes.build import MAX_GRASP_WIDTH_M, Shape, box, grip_height, lying_capsule, round_grasps, sphere, upright_cylinder


def _box_grasps(hx: float, hy: float, height: float) -> tuple[Grasp, ...]:
    z = grip_height(height)
    sides = [(0.0, 2 * hx), (math.pi / 2, 2 * hy)]
    fitting = [Grasp((0.0, 0.0, z), yaw, width) for yaw, width in sides if width <= MAX_GRASP_WIDTH_M]
    return tuple(sorted(fitting, key=lambda g: g.width_m))


def block(p: Mapping[str, float]) -> Shape:
    """A toy brick; both sides fit the jaws."""
    hx, hy, height = p["width"] / 2, p["width"] * p["aspect"] / 2, p["height"]
    return Shape((box(hx, hy, height / 2, z=height / 2),), _box_grasps(hx, hy, height))


def carton(p: Mapping[str, float]) -> Shape:
    """A standing pack, wider than the jaws open: only its narrow side can be gripped."""
    hx, hy, height = p["depth"] / 2, p["width"] / 2, p["height"]
    return Shape((box(hx, hy, height / 2, z=height / 2),), _box_grasps(hx, hy, height))


def can(p: Mapping[str, float]) -> Shape:
    radius, height = p["radius"], p["height"]
    return Shape((upright_cylinder(radius, 0.0, height),), round_grasps(radius, grip_height(height)))


def ball(p: Mapping[str, float]) -> Shape:
    radius = p["radius"]
    return Shape((sphere(radius, radius),), round_grasps(radius, radius))


def bottle(p: Mapping[str, float]) -> Shape:
    """Body and neck; gripped at the shoulder of the body, or at the neck."""
    radius, body, neck_radius, neck = p["radius"], p["body"], p["neck_radius"], p["neck"]
    at_body = round_grasps(radius, body - 0.01)[:2]
    at_neck = round_grasps(neck_radius, body + neck / 2)[:2]
    return Shape((upright_cylinder(radius, 0.0, body), upright_cylinder(neck_radius, body, body + neck)), at_body + at_neck)


def mug(p: Mapping[str, float]) -> Shape:
    """Body and a handle along +x: jaws close across the body, never over the handle."""
    radius, height, reach = p["radius"], p["height"], p["handle"]
    handle = box(reach / 2, 0.006, height * 0.28, x=radius + reach / 2 - 0.002, z=height / 2)
    z = grip_height(height)
    grasps = tuple(Grasp((0.0, 0.0, z), yaw, 2 * radius) for yaw in (math.pi / 2, math.pi / 4, -math.pi / 4))
    return Shape((upright_cylinder(radius, 0.0, height), handle), grasps)


def banana(p: Mapping[str, float]) -> Shape:
    """Three capsules in an arc in the table plane, along y; jaws close along x at the middle."""
    radius, half, bend = p["radius"], p["segment"] / 2, p["bend"]
    x = -half * math.sin(bend)
    y = half + half * math.cos(bend)
    middle = lying_capsule(radius, half, 0.0, 0.0, radius)
    ends = (lying_capsule(radius * 0.9, half, x, y, radius * 0.9, bend), lying_capsule(radius * 0.9, half, x, -y, radius * 0.9, -bend))
    return Shape((middle, *ends), (Grasp((0.0, 0.0, radius), 0.0, 2 * radius),))


def hammer(p: Mapping[str, float]) -> Shape:
    """Handle along y, head across at its end; gripped at the handle, near the head where the weight is."""
    radius, length, head, thick = p["radius"], p["length"], p["head"], p["thick"]
    handle = lying_capsule(radius, length / 2, 0.0, 0.0, radius)
    head_box = box(head / 2, thick / 2, thick / 2, y=length / 2 + thick / 2, z=thick / 2)
    near = length / 2 - 0.025
    grasps = tuple(Grasp((0.0, y, radius), 0.0, 2 * radius) for y in (near, near - 0.02))
    return Shape((handle, head_box), grasps)
