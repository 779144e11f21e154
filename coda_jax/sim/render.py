"""Pictures without any GL: rays cast against a model's geoms, shaded with one sun and its shadow.

Works wherever MuJoCo works, many frames of many models at once. Geoms in groups 3-5 and fully transparent ones are not drawn
(MuJoCo's own convention), which is how parked slots stay out of the picture.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

import mujoco
import numpy as np
from mujoco.batch import Batch

from coda_jax.sim.cameras import FRONT, Camera, pixel_rays
from coda_jax.sim.compile import CompiledScene

VISIBLE_GROUPS = np.array([1, 1, 1, 0, 0, 0], np.uint8)
FAR_M = 6.0  # hits beyond are drawn as background
SUN = np.array([0.35, -0.45, 1.0]) / np.linalg.norm([0.35, -0.45, 1.0])  # towards the light
AMBIENT, DIFFUSE, IN_SHADOW = 0.48, 0.60, 0.25  # IN_SHADOW: share of the diffuse light left in the shadow
CHECKER_M = 0.10
CHECKER_CONTRAST = 0.07
WORKSPACE_M, FADE_M = np.array([0.45, 0.0]), (0.65, 1.25)  # the table fades into the background between these distances from here
SKY_TOP, SKY_BOTTOM = np.array([0.80, 0.87, 0.95]), np.array([0.96, 0.97, 0.98])
_OFFSET_M = 1e-4  # shadow rays start this far off the surface
_RAYS_PER_CALL = 400_000  # bounds the memory of one call to about 50 MB


def render(
    models: mujoco.MjModel | Sequence[mujoco.MjModel],
    qpos: np.ndarray,
    camera: Camera = FRONT,
    *,
    height: int = 96,
    width: int = 128,
    samples: int = 2,
    table: str = "table",
    threads: int = 1,
) -> np.ndarray:
    """Pictures of stored states.

    Args:
      models: one model for all frames, or one per frame; all of one layout (one bucket).
      qpos: [n, q] generalised coordinates, as stored in ChunkTrace.qpos.
      samples: rays per pixel and axis; 2 smooths edges at four times the cost of 1.
      table: name of the geom that gets a checker pattern, if the model has it.
      threads: of the ray caster; frames are its units of work.

    Returns:
      [n, height, width, 3] uint8.

    Raises:
      ValueError: qpos of another width than the model's, a number of models other than n, or a camera body that does not exist.
    """
    states = np.ascontiguousarray(np.atleast_2d(qpos), np.float64)
    shared = isinstance(models, mujoco.MjModel)
    per_frame: list[mujoco.MjModel] = [models] * len(states) if isinstance(models, mujoco.MjModel) else list(models)
    if len(per_frame) != len(states):
        raise ValueError(f"{len(per_frame)} models for {len(states)} frames: pass one model, or one per frame")
    if not len(states):
        return np.zeros((0, height, width, 3), np.uint8)
    if states.shape[1] != per_frame[0].nq:
        raise ValueError(f"qpos has {states.shape[1]} coordinates, the model {per_frame[0].nq}: these states belong to another bucket")
    out = np.empty((len(states), height, width, 3), np.uint8)
    frames = max(1, _RAYS_PER_CALL // (height * width * samples**2))
    for start in range(0, len(states), frames):
        part = slice(start, start + frames)
        batch = Batch(per_frame[start], len(states[part]), threads)
        if not shared:
            batch.set_models(per_frame[part])
        batch.bind("qpos")[:] = states[part]
        origins, rays = _camera_rays(camera, per_frame[part], states[part], height * samples, width * samples)
        colour = _shade(batch, per_frame[part], origins, rays, table)
        colour = colour.reshape(-1, height, samples, width, samples, 3).mean(axis=(2, 4))
        out[part] = np.rint(255 * np.clip(colour, 0, 1)).astype(np.uint8)
    return out


@dataclasses.dataclass(frozen=True)
class NativeRenderer:
    """Renderer Protocol (sim/eyes.py) on MuJoCo's rays. threads: 0 for one per core. samples: as ``render``."""

    threads: int = 0
    samples: int = 1

    def __call__(self, scenes: Sequence[CompiledScene], qpos: np.ndarray, camera: Camera, height: int, width: int) -> np.ndarray:
        models = [scene.model for scene in scenes]
        threads = self.threads or os.cpu_count() or 1
        return render(models, qpos, camera, height=height, width=width, samples=self.samples, threads=threads)


def _camera_rays(
    camera: Camera, models: Sequence[mujoco.MjModel], qpos: np.ndarray, height: int, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Origins [n, 1, 3] and unit directions [n or 1, rays, 3], row by row from the top left."""
    eye, rays = np.array(camera.pos_m), pixel_rays(camera, height, width)[None]
    if camera.body is None:
        return np.broadcast_to(eye, (len(qpos), 1, 3)), rays
    position, rotation = _body_poses(camera.body, models, qpos)
    return (position + rotation @ eye)[:, None], np.einsum("nij,nrj->nri", rotation, np.broadcast_to(rays, (len(qpos), *rays.shape[1:])))


def _body_poses(name: str, models: Sequence[mujoco.MjModel], qpos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """World position [n, 3] and rotation [n, 3, 3] of a body in each state."""
    positions, rotations = np.empty((len(qpos), 3)), np.empty((len(qpos), 3, 3))
    data, made_for = None, None
    for i, (model, q) in enumerate(zip(models, qpos, strict=True)):
        body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)
        if body < 0:
            known = ", ".join(model.body(b).name for b in range(1, model.nbody))
            raise ValueError(f"the camera is mounted on body {name!r}, which the model lacks; it has: {known}")
        if data is None or made_for is not model:
            data, made_for = mujoco.MjData(model), model
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        positions[i], rotations[i] = data.xpos[body], data.xmat[body].reshape(3, 3)
    return positions, rotations


def _shade(batch: Batch, models: Sequence[mujoco.MjModel], origins: np.ndarray, rays: np.ndarray, table: str) -> np.ndarray:
    """Colours [n, rays, 3] in 0..1: ambient light from above, Lambert's law with one sun, its shadow, a checkered table."""
    distance, geom, normal = batch.ray(origins, rays, geomgroup=VISIBLE_GROUPS, normal=True)
    hit = (geom >= 0) & (distance < FAR_M)
    height = np.clip(0.5 + rays[..., 2:], 0, 1)
    colour = np.broadcast_to(SKY_BOTTOM + height * (SKY_TOP - SKY_BOTTOM), (*geom.shape, 3)).copy()
    frame, ray = np.nonzero(hit)
    if not frame.size:
        return colour
    direction = rays[frame if len(rays) > 1 else 0, ray]
    surface = normal[frame, ray]
    surface *= -np.sign(np.sum(surface * direction, axis=1, keepdims=True))  # seen from inside: turn towards the eye
    point = origins[frame, 0] + distance[frame, ray, None] * direction
    albedo = np.stack([m.geom_rgba[:, :3] for m in models])[frame, geom[frame, ray]].astype(float)
    tables = np.array([mujoco.mj_name2id(m, mujoco.mjtObj.mjOBJ_GEOM, table) for m in models])
    on_table = geom[frame, ray] == tables[frame]
    albedo *= _checker(on_table, point)[:, None]
    facing = np.maximum(surface @ SUN, 0)
    lit = np.where(_in_shadow(batch, geom.shape, frame, ray, point + _OFFSET_M * surface, facing), IN_SHADOW, 1.0)
    sky_light = AMBIENT * (0.75 + 0.25 * surface[:, 2])
    shaded = albedo * (sky_light + DIFFUSE * facing * lit)[:, None]
    fade = _fade(on_table, point)[:, None]
    colour[frame, ray] = (1 - fade) * shaded + fade * colour[frame, ray]
    return colour


def _in_shadow(
    batch: Batch, shape: tuple[int, ...], frame: np.ndarray, ray: np.ndarray, point: np.ndarray, facing: np.ndarray
) -> np.ndarray:
    """Whether something stands between each hit and the sun; rays that cannot matter start far above the scene and look up."""
    start = np.full((*shape, 3), 100.0)
    ask = facing > 0
    start[frame[ask], ray[ask]] = point[ask]
    blocked = batch.ray(start, SUN, geomgroup=VISIBLE_GROUPS)[1] >= 0
    return blocked[frame, ray] & ask


def _checker(on_table: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Brightness factor of each hit: squares on the table, 1 elsewhere."""
    odd = (np.floor(point[:, 0] / CHECKER_M) + np.floor(point[:, 1] / CHECKER_M)) % 2
    return np.where(on_table & (odd > 0), 1 - CHECKER_CONTRAST, 1.0)


def _fade(on_table: np.ndarray, point: np.ndarray) -> np.ndarray:
    """0 in the workspace to 1 far from it, for hits on the table: a table plane larger than the picture would hide the horizon."""
    near, far = FADE_M
    x = np.clip((np.linalg.norm(point[:, :2] - WORKSPACE_M, axis=1) - near) / (far - near), 0, 1)
    return np.where(on_table, x * x * (3 - 2 * x), 0.0)
