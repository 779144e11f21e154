"""World views for tests: named parts of one world, and random worlds."""

from __future__ import annotations

import numpy as np

from coda_jax.types import TABLE, TOKENS, WorldView


def view(
    pos=None, quat=None, half=None, pos0=None, linvel=None, cavity=None, joint=None, fingers=None, contacts=(),
    ee_pos=(0.4, 0.0, 0.3), ee_quat=(1.0, 0.0, 0.0, 0.0), opening=0.08,
) -> WorldView:  # fmt: skip
    """One world. Per-token arguments map a token to its value; contacts are pairs of tokens, or of a token and TABLE."""

    def tokens(values, default):
        array = np.tile(np.asarray(default, np.float32), (1, TOKENS) + (1,) * np.ndim(default))
        for token, value in (values or {}).items():
            array[0, token] = value
        return array

    contact = np.zeros((1, TOKENS, TOKENS + 1), bool)
    for a, b in contacts:
        contact[0, a, b] = True
        if b != TABLE:
            contact[0, b, a] = True
    joint = joint or {}
    position = tokens(pos, (0.0, 0.0, 0.0))
    unit = (1.0, 0.0, 0.0, 0.0)
    return WorldView(
        ee_pos=np.asarray([ee_pos], np.float32),
        ee_quat=np.asarray([ee_quat], np.float32),
        gripper_opening=np.asarray([opening], np.float32),
        pos=position,
        quat=tokens(quat, unit),
        linvel=tokens(linvel, (0.0, 0.0, 0.0)),
        angvel=tokens(None, (0.0, 0.0, 0.0)),
        half_extent=tokens(half, (0.02, 0.02, 0.02)),
        cavity_pos=tokens({k: v[0] for k, v in (cavity or {}).items()}, (0.0, 0.0, 0.0)),
        cavity_half=tokens({k: v[1] for k, v in (cavity or {}).items()}, (0.0, 0.0, 0.0)),
        articulation=tokens({k: v[0] for k, v in joint.items()}, 0.0),
        articulation_range=tokens({k: v[1:] for k, v in joint.items()}, (0.0, 0.0)),
        finger_contact=tokens(fingers, (False, False)).astype(bool),
        contact=contact,
        present=np.ones((1, TOKENS), bool),
        pos0=tokens(pos0, (0.0, 0.0, 0.0)) if pos0 else position,
        quat0=tokens(None, unit),
        control_step=np.zeros(1, np.int32),
    )


def random_view(rng: np.random.Generator, worlds: int) -> WorldView:
    """Worlds crowded enough that every condition is now true, now false."""

    def normal(*shape):
        return rng.normal(size=(worlds, *shape)).astype(np.float32)

    def unit(*shape):
        quat = normal(*shape, 4)
        return quat / np.linalg.norm(quat, axis=-1, keepdims=True)

    touching = rng.random((worlds, TOKENS, TOKENS + 1)) < 0.7
    touching[..., :TOKENS] |= touching[..., :TOKENS].swapaxes(1, 2)
    low = normal(TOKENS)
    has_joint = rng.random((worlds, TOKENS)) < 0.5
    return WorldView(
        ee_pos=normal(3) * 0.1 + np.float32(0.3),
        ee_quat=unit(),
        gripper_opening=rng.uniform(0, 0.08, worlds).astype(np.float32),
        pos=normal(TOKENS, 3) * 0.1 + np.float32(0.1),
        quat=unit(TOKENS),
        linvel=normal(TOKENS, 3) * 0.012,
        angvel=normal(TOKENS, 3),
        half_extent=rng.uniform(0.01, 0.2, (worlds, TOKENS, 3)).astype(np.float32),
        cavity_pos=normal(TOKENS, 3) * 0.01,
        cavity_half=rng.uniform(0.05, 0.3, (worlds, TOKENS, 3)).astype(np.float32),
        articulation=low + has_joint * rng.uniform(0, 1, (worlds, TOKENS)).astype(np.float32),
        articulation_range=np.stack([low, low + has_joint], -1).astype(np.float32),
        finger_contact=rng.random((worlds, TOKENS, 2)) < 0.5,
        contact=touching,
        present=np.ones((worlds, TOKENS), bool),
        pos0=normal(TOKENS, 3) * 0.1,
        quat0=unit(TOKENS),
        control_step=np.zeros(worlds, np.int32),
    )
