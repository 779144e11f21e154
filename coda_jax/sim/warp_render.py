"""Pictures by NVIDIA warp, through the ray tracer of mujoco-mjx: on NVIDIA's devices, and on CPUs without any GL.

MJX's renderer takes one kind for each geom of all worlds, where scenes of a bucket differ. So what it is given is a stage of its own, as
many geoms of each kind as a scene of the bucket could have, and scenes only fill in sizes, places and colours: no physics is stepped for a
picture, and no scene builds anything. Light and colours are those of sim/shading.py; table squares and sky are painted afterwards.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from coda_jax.sim import primitives, raycast, warp_extra
from coda_jax.sim.cameras import FRONT, Camera, pixel_rays
from coda_jax.sim.frames import BACKGROUND, Frames
from coda_jax.sim.mjx_library import mjx
from coda_jax.sim.shading import AMBIENT, DIFFUSE, FAR_M, IN_SHADOW, SUN, sky, table_pattern
from coda_jax.types import TABLE, Array

_SHAPES = {
    primitives.PLANE: "plane",
    primitives.ELLIPSOID: "ellipsoid",
    primitives.BOX: "box",
    primitives.CYLINDER: "cylinder",
    primitives.CAPSULE: "capsule",
}
_contexts: list[Any] = []  # of the stages; MJX forgets a stage whose context nobody holds
_ASIDE_SIZE_M, _ASIDE_M = 1e-3, (20.0, 20.0, -20.0)  # of geoms that a scene does not need
# Towards each light, and how strong it is: the sun, and the ambient light's part that grows with the normal's z, from above and, taken
# away, from below.
_LIGHTS = (tuple(float(s) for s in SUN), DIFFUSE), ((0.0, 0.0, 1.0), 0.25 * AMBIENT), ((0.0, 0.0, -1.0), -0.25 * AMBIENT)


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What a stage is built for. counts: geoms of each kind. place: where they are at first, [g, 3] m, by which warp sorts them into a
    tree; any is right, one like the scenes to come draws twice as fast."""

    counts: tuple[int, ...]
    states: int
    fovy_deg: float
    height: int
    width: int
    place: np.ndarray = dataclasses.field(compare=False)


def frames(models: Sequence[mujoco.MjModel], qpos: np.ndarray, camera: Camera = FRONT, *, height: int = 224, width: int = 224) -> Frames:
    """Colours, depth and segmentation of the states ``qpos`` [n, q], one model of a bucket for each; as raycast.frames.

    Raises:
      WarpMissingError: warp is not installed.
      ValueError: a visible geom is no primitive, another number of models than states, or the camera's body does not exist.
    """
    warp_extra.require("set pixels.renderer to native or jax")
    if len(models) != len(qpos) or not len(models):
        raise ValueError(f"{len(models)} models for {len(qpos)} states: give one for each of at least one state")
    scene = raycast.drawn(models)
    place, rotation, eye, mount = raycast.posed(models, qpos, camera)
    counts = tuple(max(int(most), 1) if kind == primitives.PLANE else models[0].ngeom for kind, most in enumerate(scene.most))
    chosen = np.concatenate([listed[:, :count] for listed, count in zip(scene.listed, counts, strict=True)], 1)
    world, there, geom = np.arange(len(models))[:, None], chosen >= 0, np.maximum(chosen, 0)
    right, up, forward = camera.axes
    filled = {
        "size": np.where(there[..., None], scene.size[world, geom], np.float32(_ASIDE_SIZE_M)),
        "rgb": scene.rgb[world, geom],
        "place": np.where(there[..., None], place[world, geom], np.array(_ASIDE_M, np.float32)),
        "rotation": rotation[world, geom],
        "eye": eye,
        "turn": mount,
        "lens": mount @ np.stack([right, up, -forward], 1).astype(np.float32),
        "label": scene.label[world, geom].astype(np.uint8),
    }
    rays = pixel_rays(camera, height, width)
    draw = _stage(_Plan(counts, len(models), camera.fovy_deg, height, width, filled["place"][0]))
    rgb, depth, label = draw(filled, rays.astype(np.float32), (rays @ forward).astype(np.float32))
    shape = (len(qpos), height, width)
    return Frames(np.asarray(rgb).reshape(*shape, 3), np.asarray(depth).reshape(shape), np.asarray(label).reshape(shape))


def _stage_model(plan: _Plan) -> mujoco.MjModel:
    shapes = [_SHAPES[kind] for kind, count in enumerate(plan.counts) for _ in range(count)]
    geoms = [f'<geom type="{shape}" size=".05 .05 .05" pos="{x} {y} {z}"/>' for shape, (x, y, z) in zip(shapes, plan.place, strict=True)]
    lights = ['<light type="directional" castshadow="true"/>'] + ['<light type="directional" castshadow="false"/>'] * (len(_LIGHTS) - 1)
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><statistic extent="1"/><visual><map znear="0.001" zfar="{10 * FAR_M}"/></visual>'
        f'<worldbody><camera fovy="{plan.fovy_deg}"/>{"".join(lights)}{"".join(geoms)}</worldbody></mujoco>'
    )
    model.vis.headlight.active, model.vis.headlight.ambient[:] = 1, 0.75 * AMBIENT
    model.vis.headlight.diffuse[:], model.vis.headlight.specular[:] = 0, 0
    model.light_diffuse[:], model.light_ambient[:], model.light_specular[:] = [[s] * 3 for _, s in _LIGHTS], 0, 0
    return model


@functools.cache
def _stage(plan: _Plan) -> Any:
    """The executable of a plan, on a stage that lives as long."""
    model = _stage_model(plan)
    shared, blank = mjx.put_model(model, impl="warp"), mjx.make_data(model, impl="warp")
    context: Any = mjx.create_render_context(
        model,
        plan.states,
        cam_res=(plan.width, plan.height),
        render_rgb=True,
        render_depth=True,
        render_seg=True,
        use_textures=False,
        use_shadows=True,
        shadow_light_fraction=IN_SHADOW,
        enable_backface_culling=False,  # seen from inside, the far wall is hit, as MuJoCo's rays do
        enable_specular=False,
        enable_emission=False,
        enable_per_light_ambient=False,
    )
    handle = context.pytree()
    towards = jnp.array([direction for direction, _ in _LIGHTS], jnp.float32)

    def one(scene: dict[str, Array]) -> tuple[Array, Array, Array]:
        rgba = jnp.concatenate([scene["rgb"], jnp.ones_like(scene["rgb"][:, :1])], 1)
        model = shared.replace(geom_size=scene["size"], geom_rgba=rgba)
        data = blank.replace(
            geom_xpos=scene["place"], geom_xmat=scene["rotation"], cam_xpos=scene["eye"][None], cam_xmat=scene["lens"][None]
        ).tree_replace({"_impl.light_xdir": -towards, "_impl.light_xpos": 100 * towards})
        return mjx.render_with_segmentation(model, mjx.refit_bvh(model, data, handle), handle)[:3]

    def draw(filled: dict[str, Array], rays: Array, along: Array) -> tuple[Array, Array, Array]:
        packed, depth, seen = jax.vmap(one)(filled)
        return _painted(filled, rays, along, packed, depth, seen[..., 0])

    drawn = jax.jit(draw)
    _contexts.append(context)
    return drawn


def _painted(scene: dict[str, Array], rays: Array, along: Array, packed: Array, depth: Array, slot: Array) -> tuple[Array, Array, Array]:
    """rgb [b, r, 3] uint8, depth [b, r] m and label [b, r] uint8 of what the tracer saw: lit colours, packed, and slots, -1 for nothing."""
    hit = (slot >= 0) & (depth < FAR_M * along)
    label = jnp.where(hit, jnp.take_along_axis(scene["label"], jnp.maximum(slot, 0), 1), BACKGROUND)
    far = depth / along
    x, y, z = (sum(scene["turn"][:, i, j, None] * rays[:, j] for j in range(3)) for i in range(3))
    point = tuple(scene["eye"][:, i, None] + far * d for i, d in enumerate((x, y, z)))
    checker, fade = table_pattern(point, label == TABLE, jnp)
    fade = jnp.where(hit, fade, 1.0)
    lit = [(packed >> shift & 0xFF).astype(jnp.float32) / 255 for shift in (16, 8, 0)]
    colour = jnp.stack([(1 - fade) * checker * c + fade * s for c, s in zip(lit, sky(z, jnp), strict=True)], -1)
    return jnp.rint(255 * jnp.clip(colour, 0, 1)).astype(jnp.uint8), jnp.where(hit, depth, FAR_M), label.astype(jnp.uint8)
