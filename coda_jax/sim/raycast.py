"""Pictures by jax, on any device: the catalogue's primitives, sorted by kind, against every pixel's ray.

One executable serves all scenes of a bucket, both cameras, and every geom's kind, for a number of states and a size: how many geoms of a
kind there are is data, and so is where they are. Light and colours are those of sim/render.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from coda_jax.sim import poses, primitives
from coda_jax.sim.cameras import FRONT, Camera, pixel_rays
from coda_jax.sim.frames import BACKGROUND, VISIBLE_GROUPS, Frames, geom_labels
from coda_jax.sim.shading import FAR_M, SUN, facing_sun, shade, sky
from coda_jax.sim.state import rotation_matrices
from coda_jax.types import TABLE, Array, _pytree

_KIND = {
    int(mujoco.mjtGeom.mjGEOM_PLANE): primitives.PLANE,
    int(mujoco.mjtGeom.mjGEOM_SPHERE): primitives.ELLIPSOID,
    int(mujoco.mjtGeom.mjGEOM_ELLIPSOID): primitives.ELLIPSOID,
    int(mujoco.mjtGeom.mjGEOM_BOX): primitives.BOX,
    int(mujoco.mjtGeom.mjGEOM_CYLINDER): primitives.CYLINDER,
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): primitives.CAPSULE,
}
_OFFSET_M = 2e-4  # shadow rays start this far off the surface
Vector = tuple[Array, Array, Array]


@_pytree
class Drawn:
    """``b`` scenes as a ray meets them.

    Of each geom, size: [b, g, 3]; rgb: [b, g, 3]; kind, label: [b, g] int32.
    listed: [kinds, b, g] visible geoms of each kind, -1 beyond them. most: [kinds] of any scene.
    """

    size: Array
    rgb: Array
    kind: Array
    label: Array
    listed: Array
    most: Array


def drawn(models: Sequence[mujoco.MjModel]) -> Drawn:
    """Numbers of scenes of one bucket, as numpy arrays.

    Raises:
      ValueError: a visible geom is none of the primitives.
    """
    first = models[0]
    kinds, lists = [], np.full((len(primitives.KINDS), len(models), first.ngeom), -1, np.int32)
    for i, model in enumerate(models):
        visible = (VISIBLE_GROUPS[model.geom_group] > 0) & (model.geom_rgba[:, 3] > 0)
        kind = np.array([_KIND.get(int(t), -1) for t in model.geom_type], np.int32)
        if (visible & (kind < 0)).any():
            odd = model.geom(int(np.flatnonzero(visible & (kind < 0))[0]))
            raise ValueError(f"geom {odd.name!r} is no plane, sphere, ellipsoid, box, cylinder or capsule: rays know only these")
        for k in range(len(primitives.KINDS)):
            mine = np.flatnonzero(visible & (kind == k))
            lists[k, i, : len(mine)] = mine
        kinds.append(kind)
    sizes = np.stack([m.geom_size for m in models]).astype(np.float32)
    spheres = np.stack([m.geom_type for m in models]) == int(mujoco.mjtGeom.mjGEOM_SPHERE)
    return Drawn(
        size=np.where(spheres[..., None], sizes[..., :1], sizes),
        rgb=np.stack([m.geom_rgba[:, :3] for m in models]).astype(np.float32),
        kind=np.stack(kinds),
        label=np.stack([geom_labels(m) for m in models]).astype(np.int32),
        listed=lists,
        most=(lists >= 0).sum(-1).max(-1).astype(np.int32),
    )


def frames(models: Sequence[mujoco.MjModel], qpos: np.ndarray, camera: Camera = FRONT, *, height: int = 224, width: int = 224) -> Frames:
    """Colours, depth and segmentation of the states ``qpos`` [n, q], one model of a bucket for each.

    Raises:
      ValueError: as ``drawn``, another number of models than states, or the camera's body does not exist.
    """
    if len(models) != len(qpos) or not len(models):
        raise ValueError(f"{len(models)} models for {len(qpos)} states: give one for each of at least one state")
    rays = pixel_rays(camera, height, width)
    along = rays @ camera.axes[2]
    rgb, distance, label = cast(drawn(models), *posed(models, qpos, camera), rays.astype(np.float32))
    depth = np.where(label == BACKGROUND, FAR_M, np.asarray(distance) * along).astype(np.float32)
    shape = (len(qpos), height, width)
    return Frames(np.asarray(rgb).reshape(*shape, 3), depth.reshape(shape), np.asarray(label).reshape(shape))


def posed(models: Sequence[mujoco.MjModel], qpos: np.ndarray, camera: Camera) -> tuple[np.ndarray, ...]:
    """Positions [b, g, 3] and rotations [b, g, 3, 3] of the geoms, those of the camera's eye and mount [b, 3], [b, 3, 3]; float32."""
    tree = poses.tree_of(models[0])
    if np.shape(qpos)[1] != models[0].nq:
        raise ValueError(f"qpos has {np.shape(qpos)[1]} coordinates, the model {models[0].nq}: these states belong to another bucket")
    if camera.body is not None and camera.body not in tree.names:
        raise ValueError(f"the camera is mounted on body {camera.body!r}, which the model lacks; it has: {', '.join(tree.names[1:])}")
    at, turn = poses.body_poses(tree, poses.bodies_of(models), np.asarray(qpos, np.float64))
    body, pos, quat = (np.stack([getattr(m, name) for m in models]) for name in ("geom_bodyid", "geom_pos", "geom_quat"))
    place, rotation = poses.attached(at, turn, body, pos, quat)
    eye, mount = np.broadcast_to(np.array(camera.pos_m), (len(qpos), 3)), np.broadcast_to(np.eye(3), (len(qpos), 3, 3))
    if camera.body is not None:
        i = tree.names.index(camera.body)
        eye, mount = at[:, i] + poses.turned(turn[:, i], eye), rotation_matrices(turn[:, i])
    return tuple(np.asarray(v, np.float32) for v in (place, rotation, eye, mount))


@jax.jit
def cast(scene: Drawn, place: Array, rotation: Array, eye: Array, turn: Array, rays: Array) -> tuple[Array, Array, Array]:
    """rgb [b, r, 3] uint8, distance [b, r] m and label [b, r] uint8 of rays [r, 3], unit vectors in the camera's mount."""
    x, y, z = _apart(rays)
    d = tuple(turn[:, i, 0, None] * x + turn[:, i, 1, None] * y + turn[:, i, 2, None] * z for i in range(3))
    d = (d[0], d[1], d[2])
    o = _apart(jnp.broadcast_to(eye[:, None], (*d[0].shape, 3)))
    distance, geom = _nearest(scene, place, rotation, o, d)
    hit = (geom >= 0) & (distance < FAR_M)
    colour, label = _shaded(scene, place, rotation, o, d, jnp.where(hit, distance, 0.0), jnp.maximum(geom, 0))
    rgb = jnp.stack([jnp.where(hit, c, s) for c, s in zip(colour, sky(d[2], jnp), strict=True)], -1)
    return jnp.rint(255 * jnp.clip(rgb, 0, 1)).astype(jnp.uint8), distance, jnp.where(hit, label, BACKGROUND).astype(jnp.uint8)


def _apart(v: Array) -> Vector:
    return v[..., 0], v[..., 1], v[..., 2]


def _into(rotation: Array, v: Vector) -> Vector:
    """Vectors [b, r] in the frames [b or b r, 3, 3]: transposed rotation times v."""
    x, y, z = (rotation[..., 0, i] * v[0] + rotation[..., 1, i] * v[1] + rotation[..., 2, i] * v[2] for i in range(3))
    return x, y, z


def _nearest(scene: Drawn, place: Array, rotation: Array, o: Vector, d: Vector) -> tuple[Array, Array]:
    """Distance [b, r] m and geom [b, r] of what each ray meets first; inf and -1 where it meets nothing."""
    best = jnp.full(d[0].shape, jnp.inf), jnp.full(d[0].shape, -1, jnp.int32)
    worlds = jnp.arange(place.shape[0])
    for kind, meet in enumerate(primitives.KINDS):

        def one(k: Array, found: tuple[Array, Array], kind: int = kind, meet=meet) -> tuple[Array, Array]:
            geom = scene.listed[kind, :, k]
            mine = jnp.maximum(geom, 0)
            turn, size = rotation[worlds, mine][:, None], _apart(scene.size[worlds, mine][:, None])
            at = place[worlds, mine][:, None]
            from_here = (o[0] - at[..., 0], o[1] - at[..., 1], o[2] - at[..., 2])
            t = meet(_into(turn, from_here), _into(turn, d), size)
            nearer = (geom >= 0)[:, None] & (t < found[0])
            return jnp.where(nearer, t, found[0]), jnp.where(nearer, geom[:, None], found[1])

        best = jax.lax.fori_loop(0, scene.most[kind], one, best)
    return best


def _shaded(scene: Drawn, place: Array, rotation: Array, o: Vector, d: Vector, distance: Array, geom: Array) -> tuple[Vector, Array]:
    """Colour and label [b, r] of the points at ``distance`` on the rays, on the surfaces of ``geom``."""

    def of(values: Array) -> Array:
        return jnp.take_along_axis(values, geom.reshape(*geom.shape, *[1] * (values.ndim - 2)), axis=1)

    point = (o[0] + distance * d[0], o[1] + distance * d[1], o[2] + distance * d[2])
    at, turn, label = _apart(of(place)), of(rotation), of(scene.label)
    local = _into(turn, (point[0] - at[0], point[1] - at[1], point[2] - at[2]))
    outward = primitives.normal(of(scene.kind), local, _apart(of(scene.size)))
    n = [turn[..., i, 0] * outward[0] + turn[..., i, 1] * outward[1] + turn[..., i, 2] * outward[2] for i in range(3)]
    side = -jnp.sign(n[0] * d[0] + n[1] * d[1] + n[2] * d[2])  # seen from inside: turn towards the eye
    surface = (n[0] * side, n[1] * side, n[2] * side)
    start = (point[0] + _OFFSET_M * surface[0], point[1] + _OFFSET_M * surface[1], point[2] + _OFFSET_M * surface[2])
    sun = tuple(jnp.full_like(distance, float(s)) for s in SUN)
    dark = (_nearest(scene, place, rotation, start, (sun[0], sun[1], sun[2]))[1] >= 0) & (facing_sun(surface, jnp) > 0)
    return shade(_apart(of(scene.rgb)), surface, point, label == TABLE, dark, sky(d[2], jnp), jnp), label
