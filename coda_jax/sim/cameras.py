"""The cameras that look at every scene, and where in their pictures a point is seen."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from coda_jax.sim.panda import GRIP_POINT_M


@dataclasses.dataclass(frozen=True)
class Camera:
    """A pinhole camera. ``pos_m``, ``target_m`` and ``up`` are in the base frame, or in the frame of ``body`` where one is named.

    fovy_deg: vertical field of view.
    """

    pos_m: tuple[float, float, float]
    target_m: tuple[float, float, float]
    up: tuple[float, float, float]
    fovy_deg: float
    body: str | None = None

    @property
    def axes(self) -> np.ndarray:
        """Unit vectors [3, 3] in the mount's frame, row by row: to the right of the picture, up in it, into it."""
        eye, target, up = (np.array(v, float) for v in (self.pos_m, self.target_m, self.up))
        forward = (target - eye) / np.linalg.norm(target - eye)
        right = np.cross(forward, up)
        right /= np.linalg.norm(right)
        return np.stack([right, np.cross(right, forward), forward])

    @property
    def half_height(self) -> float:
        """Of the picture, at distance 1 along its axis."""
        return float(np.tan(np.radians(self.fovy_deg) / 2))


FRONT = Camera((1.22, -0.46, 0.70), (0.46, 0.0, 0.14), (0.0, 0.0, 1.0), 37.0)
WRIST = Camera((0.075, 0.0, 0.05), (0.0, 0.0, 0.25), (1.0, 0.0, 0.0), 75.0, body="hand")
# For people: nearer to what is handled, from either side and from above, since the gripper hides its target from some of them.
FILMED = (
    Camera((1.16, -0.50, 0.62), (0.50, 0.0, 0.07), (0.0, 0.0, 1.0), 32.0),
    Camera((1.16, 0.50, 0.62), (0.50, 0.0, 0.07), (0.0, 0.0, 1.0), 32.0),
    Camera((1.02, 0.0, 0.92), (0.50, 0.0, 0.05), (0.0, 0.0, 1.0), 32.0),
)
OBSERVED = (FRONT, WRIST)  # what a policy of pictures sees, in this order


def pixel_rays(camera: Camera, height: int, width: int) -> np.ndarray:
    """Unit directions [height * width, 3] through the pixels' centres in the mount's frame, row by row from the top left."""
    right, up, forward = camera.axes
    v = camera.half_height * (1 - 2 * (np.arange(height) + 0.5) / height)
    u = camera.half_height * width / height * (2 * (np.arange(width) + 0.5) / width - 1)
    rays = forward + v[:, None, None] * up + u[None, :, None] * right
    return (rays / np.linalg.norm(rays, axis=-1, keepdims=True)).reshape(-1, 3)


def seen_at(camera: Camera, points: Any, grip_pos: Any, grip_rotation: Any, aspect: float) -> tuple[Any, Any]:
    """Where in a picture points are seen; numpy or jax alike.

    Args:
      points: [b, o, 3] m, base frame. grip_pos: [b, 3] and grip_rotation: [b, 3, 3] of the Panda's grip point, for the camera on its hand.
      aspect: width over height.

    Returns:
      [b, o, 2] to the right and up, -1 to 1 inside the picture; [b, o] depth along the camera's axis, m, negative behind it.
    """
    local = points
    if camera.body is not None:  # the hand, behind the grip point along its z
        local = ((points - grip_pos[:, None])[..., None, :] @ grip_rotation[:, None])[..., 0, :]
        local = local + np.array([0.0, 0.0, GRIP_POINT_M], np.float32)
    offset = (local - np.array(camera.pos_m, np.float32)) @ camera.axes.T.astype(np.float32)
    depth = offset[..., 2]
    scale = np.array([camera.half_height * aspect, camera.half_height], np.float32)
    return offset[..., :2] / (abs(depth)[..., None] + 1e-9) / scale, depth
