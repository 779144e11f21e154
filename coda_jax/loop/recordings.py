"""Recorded moments of many episodes as arrays of one npz, read back only where they are what ``packed`` makes.

A demonstration of 55 control steps takes 15 kB, a rollout of 117 steps of a policy that moves little 19 kB (benchmarks/experience.py).
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coda_jax.evaluation.metrics import atomic_write
from coda_jax.loop.checkpoint import require_space
from coda_jax.sim.recording import FIELD_SHAPES, REGION_SHAPES, fixed_of, moments, moving_of
from coda_jax.types import FIXED_FIELDS, WorldView

# NotImplementedError: zipfile's for flags that a damaged file has set
UNREADABLE = (OSError, ValueError, zipfile.BadZipFile, zlib.error, EOFError, RecursionError, MemoryError, NotImplementedError)
MOST_BYTES = 8 * 2**30  # of one file's arrays: more was never written by one stage
_MARK = "view_"  # before the names of fields
_FLAGS = ("finger_contact", "contact", "region_touches")  # stored together, a bit each
_UNBOUNDED = ("region_joint",)  # infinite where a region moves with no joint


def packed(views: Sequence[WorldView]) -> dict[str, np.ndarray]:
    """Arrays of episodes' moments by key, none without episodes: time axes joined, what stays once for each episode."""
    if not views:
        return {}
    each = [moving_of(v) for v in views]
    moving = {name: np.concatenate([one[name] for one in each]) for name in each[0]}
    stays = [fixed_of(v, 0) for v in views]
    fixed = {name: np.stack([one[name] for one in stays]) for name in stays[0]}
    flags = [moving.pop(name) for name in _FLAGS if name in moving]
    touches = np.packbits(np.concatenate([f.reshape(len(f), -1) for f in flags], 1), axis=1)
    floats = {name: values.astype(np.float32, copy=False) for name, values in moving.items()}
    return {_MARK + name: values for name, values in (floats | fixed | {"touches": touches}).items()}


def unpacked(arrays: Mapping[str, np.ndarray], length: np.ndarray) -> list[WorldView]:
    """The moments of episodes of ``length`` [n] control steps from the arrays of a file.

    Raises:
      ValueError: an array is missing, or of another type or shape, or holds what no simulator gives.
    """
    if not len(length):
        return []
    rows = int(length.sum()) + len(length)
    regions = REGION_SHAPES if _MARK + "region_pos" in arrays else {}
    shapes, fixed = FIELD_SHAPES | regions, (*FIXED_FIELDS, *(["region_half"] if regions else []))
    flags = {name: shapes[name] for name in _FLAGS if name in shapes}
    bits = sum(int(np.prod(shape)) for shape in flags.values())
    moving = [name for name in shapes if name not in fixed and name not in flags]
    wanted: dict[str, tuple[tuple[int, ...], Any]] = {name: ((rows, *shapes[name]), np.float32) for name in moving}
    wanted |= {name: ((len(length), *shapes[name]), bool if name == "present" else np.float32) for name in fixed}
    wanted["touches"] = ((rows, (bits + 7) // 8), np.uint8)
    if missing := sorted(_MARK + name for name in wanted if _MARK + name not in arrays):
        raise ValueError(f"it lacks {', '.join(missing)}")
    own = {name: arrays[_MARK + name] for name in wanted}
    for name, (shape, dtype) in wanted.items():
        if own[name].shape != shape or own[name].dtype != dtype:
            raise ValueError(f"{_MARK}{name} is {own[name].dtype} {own[name].shape}; its episodes need {np.dtype(dtype)} {shape}")
        if dtype == np.float32 and not (~np.isnan(own[name]) if name in _UNBOUNDED else np.isfinite(own[name])).all():
            raise ValueError(f"{_MARK}{name} holds NaN or infinity")
    found, first = np.unpackbits(own.pop("touches"), axis=1, count=bits).astype(bool), 0
    for name, shape in flags.items():
        size = int(np.prod(shape))
        own[name], first = found[:, first : first + size].reshape(-1, *shape), first + size
    views, end = [], 0
    for i, t in enumerate(length.tolist()):
        begin, end = end, end + t + 1
        views.append(moments({n: own[n][begin:end] for n in (*moving, *flags)}, {n: own[n][i] for n in fixed}))
    return views


def read(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz; they are not checked.

    Raises:
      UNREADABLE: there is no such file, or it is no npz of ours.
    """
    with zipfile.ZipFile(path) as file:
        size = sum(info.file_size for info in file.infolist())
    if size > MOST_BYTES:
        raise ValueError(f"it unpacks to {size} bytes, more than any stage writes")
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def write(path: Path, arrays: Mapping[str, np.ndarray], compress: bool = True) -> None:
    """Arrays as an npz below a run's folder, whole or not at all.

    Raises:
      DiskFullError: too little space is free.
    """
    buffer = io.BytesIO()
    (np.savez_compressed if compress else np.savez)(buffer, **arrays)  # type: ignore[arg-type]
    require_space(path.parent.parent, buffer.tell())
    atomic_write(path, buffer.getvalue())
