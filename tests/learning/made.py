"""Recorded episodes made of random numbers, for tests that need shapes and bookkeeping but no physics."""

from __future__ import annotations

import dataclasses

import numpy as np

from coda_jax.learning.records import EpisodeRecord, Labels, decisions, sparse_labels
from coda_jax.programs.training.limits import CODE_DIM
from coda_jax.sim.recording import FIELD_SHAPES, moments
from coda_jax.types import FIXED_FIELDS, MOVING_FIELDS, TOKENS

NAMES = ("red mug", "blue can", None, None, None, None, "white plate", None)


def embed(strings) -> np.ndarray:
    return np.stack([np.random.default_rng(len(s) + sum(map(ord, s))).normal(size=384) / 20 for s in strings]).astype(np.float32)


def record(seed: int, t: int = 10, e: int = 4, **changes) -> EpisodeRecord:
    """An episode of random moments; ``success`` and the other fields may be given."""
    rng = np.random.default_rng(seed)
    present = np.array([name is not None for name in NAMES])
    moving = {name: rng.normal(size=(t + 1, *FIELD_SHAPES[name])).astype(np.float32) for name in MOVING_FIELDS}
    moving |= {name: rng.random((t + 1, *FIELD_SHAPES[name])) < 0.3 for name in ("finger_contact", "contact")}
    for name in ("quat", "ee_quat"):
        moving[name] /= np.linalg.norm(moving[name], axis=-1, keepdims=True)
    fixed = {name: rng.random((TOKENS, 4 if "quat" in name else 3)).astype(np.float32) for name in FIXED_FIELDS}
    fixed |= {"present": present, "articulation_range": np.zeros((TOKENS, 2), np.float32)}
    given = {
        "views": moments(moving, fixed),
        "actions": rng.uniform(-1, 1, (t, 7)).astype(np.float32),
        "executed": decisions(t, e),
        "prefix": 0,
        "success": True,
        "source": "targeted",
        "names": NAMES,
        "instruction": "put the red mug on the white plate",
        "roles": (0, 6),
        "weight": 1.0,
    }
    return EpisodeRecord(**{**given, **changes})


def labels(of: EpisodeRecord, seed: int) -> Labels:
    """Labels of some training program."""
    rng, t = np.random.default_rng(seed), len(of.actions)
    stage, progress = rng.integers(0, 4, t + 1).astype(np.int32), rng.random(t + 1).astype(np.float32)
    code = rng.normal(size=CODE_DIM).astype(np.float32)
    return dataclasses.replace(sparse_labels(of), stage=stage, progress=progress, phi=stage + progress, code=code)
