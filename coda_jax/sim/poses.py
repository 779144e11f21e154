"""Where the geoms of scenes are, from their coordinates alone: MuJoCo's forward kinematics for one joint a body, many scenes at once.

In numpy: a chain of twenty bodies is a hundred small products, which cost a millisecond here and minutes of compilation in XLA on a CPU.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from coda_jax.sim.state import rotation_matrices

_FREE, _SLIDE, _HINGE = (int(j) for j in (mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE))


@dataclasses.dataclass(frozen=True)
class Tree:
    """Of each body: its parent, its joint (-1: none), and that joint's first coordinate."""

    names: tuple[str, ...]
    parent: tuple[int, ...]
    joint: tuple[int, ...]
    address: tuple[int, ...]
    free: tuple[bool, ...]


@dataclasses.dataclass(frozen=True)
class Bodies:
    """``b`` scenes: frames of the bodies in their parents [b, n, 3 or 4], axes, anchors, kinds and zeros of the joints."""

    pos: np.ndarray
    quat: np.ndarray
    axis: np.ndarray  # [b, joints, 3]
    anchor: np.ndarray  # [b, joints, 3]
    slides: np.ndarray  # [b, joints] bool
    zero: np.ndarray  # [b, joints]


def tree_of(model: mujoco.MjModel) -> Tree:
    """The tree of a model.

    Raises:
      ValueError: a body has several joints, or a ball joint.
    """
    names = tuple(model.body(i).name for i in range(model.nbody))
    if (model.body_jntnum > 1).any() or not set(model.jnt_type.tolist()) <= {_FREE, _SLIDE, _HINGE}:
        raise ValueError("bodies are posed by at most one free, slide or hinge joint each; this model has others")
    joint = tuple(int(a) if n else -1 for a, n in zip(model.body_jntadr, model.body_jntnum, strict=True))
    address = tuple(int(model.jnt_qposadr[j]) if j >= 0 else -1 for j in joint)
    free = tuple(j >= 0 and int(model.jnt_type[j]) == _FREE for j in joint)
    return Tree(names, tuple(model.body_parentid.tolist()), joint, address, free)


def bodies_of(models: Sequence[mujoco.MjModel]) -> Bodies:
    """The numbers of scenes that share a tree, as numpy arrays."""

    def stacked(values: Sequence[np.ndarray], dtype: type = np.float64) -> np.ndarray:
        return np.stack(values).astype(dtype)

    return Bodies(
        pos=stacked([m.body_pos for m in models]),
        quat=stacked([m.body_quat for m in models]),
        axis=stacked([m.jnt_axis for m in models]),
        anchor=stacked([m.jnt_pos for m in models]),
        slides=stacked([m.jnt_type == _SLIDE for m in models], bool),
        zero=stacked([m.qpos0[m.jnt_qposadr] for m in models]),
    )


def multiply(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Hamilton product of quaternions [..., 4], wxyz."""
    w = p[..., 0] * q[..., 0] - (p[..., 1:] * q[..., 1:]).sum(-1)
    v = p[..., :1] * q[..., 1:] + q[..., :1] * p[..., 1:] + np.cross(p[..., 1:], q[..., 1:])
    return np.concatenate([w[..., None], v], -1)


def turned(quat: Any, v: Any, xp: Any = np) -> Any:
    """Vectors [..., 3] turned by unit quaternions [..., 4]. xp: numpy or jax.numpy."""
    t = 2 * xp.cross(quat[..., 1:], v)
    return v + quat[..., :1] * t + xp.cross(quat[..., 1:], t)


def body_poses(tree: Tree, bodies: Bodies, qpos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions [b, n, 3] m and quaternions [b, n, 4] of all bodies at coordinates [b, q]."""
    b = qpos.shape[0]
    positions, quats = [np.zeros((b, 3))], [np.broadcast_to(np.array([1.0, 0.0, 0.0, 0.0]), (b, 4))]
    for i in range(1, len(tree.parent)):
        parent, j, at = tree.parent[i], tree.joint[i], tree.address[i]
        if tree.free[i]:
            quat = qpos[:, at + 3 : at + 7]
            positions.append(qpos[:, at : at + 3])
            quats.append(quat / np.linalg.norm(quat, axis=-1, keepdims=True))
            continue
        pos = positions[parent] + turned(quats[parent], bodies.pos[:, i])
        quat = multiply(quats[parent], bodies.quat[:, i])
        if j >= 0:
            moved = (qpos[:, at] - bodies.zero[:, j])[:, None]
            angle = np.where(bodies.slides[:, j, None], 0.0, moved) / 2
            slid = np.where(bodies.slides[:, j, None], moved, 0.0) * turned(quat, bodies.axis[:, j])
            anchor = pos + turned(quat, bodies.anchor[:, j])
            quat = multiply(quat, np.concatenate([np.cos(angle), np.sin(angle) * bodies.axis[:, j]], -1))
            pos = anchor - turned(quat, bodies.anchor[:, j]) + slid
        positions.append(pos)
        quats.append(quat)
    return np.stack(positions, 1), np.stack(quats, 1)


def attached(
    pos: np.ndarray, quat: np.ndarray, body: np.ndarray, local_pos: np.ndarray, local_quat: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Position [b, g, 3] and rotation [b, g, 3, 3] of things fixed to ``body`` [b, g] of posed bodies."""
    of = np.take_along_axis(quat, body[..., None], axis=1)
    at = np.take_along_axis(pos, body[..., None], axis=1) + turned(of, local_pos)
    return at, rotation_matrices(multiply(of, local_quat))
