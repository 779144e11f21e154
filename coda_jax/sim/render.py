"""Pictures without any GL: rays cast against a model's geoms, shaded with one sun and its shadow.

Works wherever MuJoCo works, many frames of many models at once. Geoms in groups 3-5 and fully transparent ones are not drawn
(MuJoCo's own convention), which is how parked slots stay out of the picture.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from mujoco.batch import Batch

from coda_jax.sim.cameras import FRONT, Camera, pixel_rays
from coda_jax.sim.compile import CompiledScene
from coda_jax.sim.frames import BACKGROUND, VISIBLE_GROUPS, Frames, geom_labels
from coda_jax.sim.shading import FAR_M, SUN, facing_sun, shade, sky

_OFFSET_M = 1e-4  # shadow rays start this far off the surface
_RAYS_PER_CALL = 400_000  # bounds the memory of one call to about 50 MB


def frames(
    models: mujoco.MjModel | Sequence[mujoco.MjModel],
    qpos: np.ndarray,
    camera: Camera = FRONT,
    *,
    height: int = 96,
    width: int = 128,
    samples: int = 2,
    table: str = "table",
    threads: int = 1,
) -> Frames:
    """Colours, depth and segmentation of stored states.

    Args:
      models: one model for all frames, or one per frame; all of one layout (one bucket).
      qpos: [n, q] generalised coordinates, as stored in ChunkTrace.qpos.
      samples: rays per pixel and axis; 2 smooths edges at four times the cost of 1.
      table: name of the geom that gets a checker pattern, if the model has it.
      threads: of the ray caster; frames are its units of work.

    Raises:
      ValueError: qpos of another width than the model's, a number of models other than n, or a camera body that does not exist.
    """
    states = np.ascontiguousarray(np.atleast_2d(qpos), np.float64)
    shared = isinstance(models, mujoco.MjModel)
    per_frame: list[mujoco.MjModel] = [models] * len(states) if isinstance(models, mujoco.MjModel) else list(models)
    if len(per_frame) != len(states):
        raise ValueError(f"{len(per_frame)} models for {len(states)} frames: pass one model, or one per frame")
    out = Frames(
        np.zeros((len(states), height, width, 3), np.uint8),
        np.zeros((len(states), height, width), np.float32),
        np.zeros((len(states), height, width), np.uint8),
    )
    if not len(states):
        return out
    if states.shape[1] != per_frame[0].nq:
        raise ValueError(f"qpos has {states.shape[1]} coordinates, the model {per_frame[0].nq}: these states belong to another bucket")
    per_call = max(1, _RAYS_PER_CALL // (height * width * samples**2))
    for start in range(0, len(states), per_call):
        part = slice(start, start + per_call)
        batch = Batch(per_frame[start], len(states[part]), threads)
        if not shared:
            batch.set_models(per_frame[part])
        batch.bind("qpos")[:] = states[part]
        origins, rays = _camera_rays(camera, per_frame[part], states[part], height * samples, width * samples)
        colour, distance, label = _cast(batch, per_frame[part], origins, rays, table)
        colour = colour.reshape(-1, height, samples, width, samples, 3).mean(axis=(2, 4))
        out.rgb[part] = np.rint(255 * np.clip(colour, 0, 1)).astype(np.uint8)
        middle = samples // 2  # depths and labels have no mean: those of one ray of the pixel
        axis = pixel_rays(camera, height * samples, width * samples) @ camera.axes[2]
        depth = np.where(label == BACKGROUND, FAR_M, distance * axis)
        for whole, values in ((out.depth, depth), (out.segmentation, label)):
            whole[part] = values.reshape(-1, height * samples, width * samples)[:, middle::samples, middle::samples]
    return out


def render(models: mujoco.MjModel | Sequence[mujoco.MjModel], qpos: np.ndarray, camera: Camera = FRONT, **settings: Any) -> np.ndarray:
    """Pictures [n, height, width, 3] uint8 of stored states; arguments and errors of ``frames``."""
    return frames(models, qpos, camera, **settings).rgb


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


def _cast(
    batch: Batch, models: Sequence[mujoco.MjModel], origins: np.ndarray, rays: np.ndarray, table: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Colours [n, rays, 3] in 0..1, distances [n, rays] m, and labels [n, rays] of ``Frames.segmentation``."""
    distance, geom, normal = batch.ray(origins, rays, geomgroup=VISIBLE_GROUPS, normal=True)
    hit = (geom >= 0) & (distance < FAR_M)
    colour = np.broadcast_to(np.stack(sky(rays[..., 2], np), -1), (*geom.shape, 3)).copy()
    label = np.full(geom.shape, BACKGROUND, np.uint8)
    frame, ray = np.nonzero(hit)
    if not frame.size:
        return colour, distance, label
    label[frame, ray] = np.stack([geom_labels(m) for m in models])[frame, geom[frame, ray]]
    direction = rays[frame if len(rays) > 1 else 0, ray]
    surface = normal[frame, ray]
    surface *= -np.sign(np.sum(surface * direction, axis=1, keepdims=True))  # seen from inside: turn towards the eye
    point = origins[frame, 0] + distance[frame, ray, None] * direction
    albedo = np.stack([m.geom_rgba[:, :3] for m in models])[frame, geom[frame, ray]].astype(float)
    tables = np.array([mujoco.mj_name2id(m, mujoco.mjtObj.mjOBJ_GEOM, table) for m in models])
    on_table = geom[frame, ray] == tables[frame]
    facing = facing_sun(tuple(surface.T), np)
    dark = _in_shadow(batch, geom.shape, frame, ray, point + _OFFSET_M * surface, facing)
    colour[frame, ray] = np.stack(
        shade(tuple(albedo.T), tuple(surface.T), tuple(point.T), on_table, dark, tuple(colour[frame, ray].T), np), -1
    )
    return colour, distance, label


def _in_shadow(
    batch: Batch, shape: tuple[int, ...], frame: np.ndarray, ray: np.ndarray, point: np.ndarray, facing: np.ndarray
) -> np.ndarray:
    """Whether something stands between each hit and the sun; rays that cannot matter start far above the scene and look up."""
    start = np.full((*shape, 3), 100.0)
    ask = facing > 0
    start[frame[ask], ray[ask]] = point[ask]
    blocked = batch.ray(start, SUN, geomgroup=VISIBLE_GROUPS)[1] >= 0
    return blocked[frame, ray] & ask
