"""Rays against the catalogue's primitives, in the primitive's own frame: distance of the nearest hit in front, and the normal there.

Vectors are tuples of three arrays of one shape: components apart are what compilers make wide instructions of. Directions are unit
vectors. ``size`` is MuJoCo's, three arrays that broadcast. From inside, the far wall is hit, as MuJoCo's rays do.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp

from coda_jax.types import Array

Vector = tuple[Array, Array, Array]
MISS = jnp.inf
_TINY = 1e-12


def _nearest(*hits: tuple[Array, Array]) -> Array:
    """Least distance that is in front and valid, of (distance, valid) pairs."""
    best = jnp.full_like(hits[0][0], MISS)
    for t, valid in hits:
        best = jnp.where(valid & (t > 0) & (t < best), t, best)
    return best


def _roots(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    """Both solutions of a t^2 + 2 b t + c = 0, and whether there are any."""
    determinant = b * b - a * c
    root = jnp.sqrt(jnp.maximum(determinant, 0.0))
    a = jnp.maximum(a, _TINY)
    return (-b - root) / a, (-b + root) / a, determinant >= 0


def plane(o: Vector, d: Vector, size: Vector) -> Array:
    """Seen from above alone; sides of size 0 have no end."""
    t = -o[2] / jnp.where(d[2] < -_TINY, d[2], -_TINY)
    inside = (d[2] < -_TINY) & (t > 0)
    for i in range(2):
        inside &= (size[i] <= 0) | (jnp.abs(o[i] + t * d[i]) <= size[i])
    return jnp.where(inside, t, MISS)


def ellipsoid(o: Vector, d: Vector, size: Vector) -> Array:
    o, d = (tuple(v / s for v, s in zip(vector, size, strict=True)) for vector in (o, d))
    first, second, hits = _roots(sum(v * v for v in d), sum(p * v for p, v in zip(o, d, strict=True)), sum(p * p for p in o) - 1)
    return _nearest((first, hits), (second, hits))


def box(o: Vector, d: Vector, size: Vector) -> Array:
    near, far = jnp.full_like(o[0], -MISS), jnp.full_like(o[0], MISS)
    for p, v, s in zip(o, d, size, strict=True):
        v = jnp.where(jnp.abs(v) < _TINY, _TINY, v)
        a, b = (-s - p) / v, (s - p) / v
        near, far = jnp.maximum(near, jnp.minimum(a, b)), jnp.minimum(far, jnp.maximum(a, b))
    hits = near <= far
    return _nearest((near, hits), (far, hits))


def _side(o: Vector, d: Vector, radius: Array) -> tuple[Array, Array, Array]:
    return _roots(d[0] ** 2 + d[1] ** 2, o[0] * d[0] + o[1] * d[1], o[0] ** 2 + o[1] ** 2 - radius**2)


def cylinder(o: Vector, d: Vector, size: Vector) -> Array:
    """Radius size[0], half length size[1] along z."""
    radius, half = size[0], size[1]
    first, second, hits = _side(o, d, radius)
    v = jnp.where(jnp.abs(d[2]) < _TINY, _TINY, d[2])
    caps = [(sign * half - o[2]) / v for sign in (1, -1)]
    on_side = [(t, hits & (jnp.abs(o[2] + t * d[2]) <= half)) for t in (first, second)]
    on_cap = [(t, (o[0] + t * d[0]) ** 2 + (o[1] + t * d[1]) ** 2 <= radius**2) for t in caps]
    return _nearest(*on_side, *on_cap)


def capsule(o: Vector, d: Vector, size: Vector) -> Array:
    """Radius size[0], half length of the straight part size[1] along z."""
    radius, half = size[0], size[1]
    first, second, hits = _side(o, d, radius)
    found = [(t, hits & (jnp.abs(o[2] + t * d[2]) <= half)) for t in (first, second)]
    for sign in (1, -1):
        z = o[2] - sign * half
        roots = _roots(jnp.ones_like(z), o[0] * d[0] + o[1] * d[1] + z * d[2], o[0] ** 2 + o[1] ** 2 + z**2 - radius**2)
        found += [(t, roots[2] & (sign * (o[2] + t * d[2]) >= half)) for t in roots[:2]]
    return _nearest(*found)


# In the order of a geom's kind; a sphere is an ellipsoid.
KINDS: tuple[Callable[[Vector, Vector, Vector], Array], ...] = (plane, ellipsoid, box, cylinder, capsule)
PLANE, ELLIPSOID, BOX, CYLINDER, CAPSULE = range(len(KINDS))


def normal(kind: Array, p: Vector, size: Vector) -> Vector:
    """Outward unit normal at a point on the surface of a primitive of ``kind``."""
    x, y, z = p
    radius, half = size[0], size[1]
    share = [jnp.abs(v) / jnp.maximum(s, _TINY) for v, s in zip(p, size, strict=True)]
    most = jnp.maximum(jnp.maximum(share[0], share[1]), share[2])
    on_cap = half - jnp.abs(z) < radius - jnp.sqrt(x * x + y * y)
    along = z - jnp.clip(z, -half, half)
    found = []
    for i, (v, s) in enumerate(zip(p, size, strict=True)):
        of = [
            jnp.full_like(v, float(i == 2)),
            v / jnp.maximum(s, _TINY) ** 2,
            jnp.where(share[i] >= most, jnp.sign(v), 0.0),
            jnp.where(on_cap, jnp.sign(z) if i == 2 else 0.0, v if i < 2 else 0.0),
            v if i < 2 else along,
        ]
        found.append(jnp.select([kind == k for k in range(len(KINDS))], of))
    length = jnp.sqrt(jnp.maximum(sum(v * v for v in found), 1e-20))
    a, b, c = (v / length for v in found)
    return a, b, c
