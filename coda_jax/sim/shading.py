"""Light and colours of every renderer: ambient light from above, Lambert's law with one sun and its shadow, a checkered table, the sky.

numpy or jax.numpy alike; vectors are tuples of three arrays of one shape, base frame.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FAR_M = 6.0  # hits beyond are drawn as background
SUN = np.array([0.35, -0.45, 1.0]) / np.linalg.norm([0.35, -0.45, 1.0])  # towards the light
AMBIENT, DIFFUSE, IN_SHADOW = 0.48, 0.60, 0.25  # IN_SHADOW: share of the diffuse light left in the shadow
CHECKER_M = 0.10
CHECKER_CONTRAST = 0.07
WORKSPACE_M, FADE_M = (0.45, 0.0), (0.65, 1.25)  # the table fades into the background between these distances from here
SKY_TOP, SKY_BOTTOM = (0.80, 0.87, 0.95), (0.96, 0.97, 0.98)

Vector = tuple[Any, Any, Any]


def sky(up: Any, xp: Any) -> Vector:
    """Colour of the background along a ray whose unit direction has the component ``up`` along z."""
    height = xp.clip(0.5 + up, 0, 1)
    r, g, b = (bottom + height * (top - bottom) for top, bottom in zip(SKY_TOP, SKY_BOTTOM, strict=True))
    return r, g, b


def facing_sun(normal: Vector, xp: Any) -> Any:
    """Cosine between a surface and the sun, 0 where it is turned away."""
    x, y, z = (float(s) for s in SUN)
    return xp.maximum(normal[0] * x + normal[1] * y + normal[2] * z, 0)


def table_pattern(point: Vector, on_table: Any, xp: Any) -> tuple[Any, Any]:
    """Share of the light that the table's squares leave, and share of the background that shows; 1 and 0 off the table."""
    odd = (xp.floor(point[0] / CHECKER_M) + xp.floor(point[1] / CHECKER_M)) % 2
    checker = xp.where(on_table & (odd > 0), 1 - CHECKER_CONTRAST, 1.0)
    near, far = FADE_M
    away = xp.sqrt((point[0] - WORKSPACE_M[0]) ** 2 + (point[1] - WORKSPACE_M[1]) ** 2)
    x = xp.clip((away - near) / (far - near), 0, 1)
    return checker, xp.where(on_table, x * x * (3 - 2 * x), 0.0)


def shade(albedo: Vector, normal: Vector, point: Vector, on_table: Any, in_shadow: Any, background: Vector, xp: Any) -> Vector:
    """Colour, 0 to 1 and above, of a surface with unit ``normal`` towards the eye.

    on_table, in_shadow: bool. background: what the table fades into far away, or its horizon would be hidden.
    """
    checker, fade = table_pattern(point, on_table, xp)
    lit = xp.where(in_shadow, IN_SHADOW, 1.0)
    light = checker * (AMBIENT * (0.75 + 0.25 * normal[2]) + DIFFUSE * facing_sun(normal, xp) * lit)
    r, g, b = ((1 - fade) * a * light + fade * c for a, c in zip(albedo, background, strict=True))
    return r, g, b
