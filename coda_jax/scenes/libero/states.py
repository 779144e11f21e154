"""The suites' initial states: rows of time, positions and velocities. A file may be anything and is never unpickled."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
from jaxtyping import Float

from coda_jax.foreign import read_plain
from coda_jax.runtime import InputError
from coda_jax.scenes.libero import package

MAX_BYTES = 4 * 2**20  # of a file
MAX_STATES = 1000
MAX_WIDTH = 1000
MAX_MEMBER = 8 * 2**20  # of the array in it, unpacked


def _array(content: bytes) -> np.ndarray:
    """The array "states" of an .npz, its header checked before anything is allocated. Raises ValueError."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if archive.namelist() != ["states.npy"]:
            raise ValueError("it does not hold the one array 'states'")
        if archive.getinfo("states.npy").file_size > MAX_MEMBER:
            raise ValueError(f"its array is larger than {MAX_MEMBER // 2**20} MiB")
        with archive.open("states.npy") as member:
            data = member.read(MAX_MEMBER + 1)
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("its array has another format than 1.0")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if len(shape) != 2 or dtype != np.float64 or fortran:
        raise ValueError(f"its array is {dtype} of shape {shape}, not float64 of states by numbers")
    if not (0 < shape[0] <= MAX_STATES and 0 < shape[1] <= MAX_WIDTH):
        raise ValueError(f"its array has the shape {shape}: 1 to {MAX_STATES} states of at most {MAX_WIDTH} numbers are read")
    rest = data[file.tell() :]
    if len(rest) != 8 * shape[0] * shape[1]:
        raise ValueError(f"its array says {shape} and holds {len(rest)} bytes")
    return np.frombuffer(rest, dtype=np.float64).reshape(shape).copy()


def read(path: Path, width: int | None = None) -> Float[np.ndarray, "n q"]:
    """Every initial state of a task.

    Args:
      path: a file "<task>.pruned_init.npz".
      width: 1 + nq + nv of the task's model, where it is known.

    Returns:
      One row per state: time (s), qpos, qvel, as the file holds them (float64).

    Raises:
      InputError: the file is missing, empty, no such array, of another width or not finite.
    """
    try:
        content = read_plain(path, MAX_BYTES)
    except FileNotFoundError as error:
        raise InputError(
            f"initial states {path} are missing: this suite cannot be scored; leave it out, or have the file again: {package.REINSTALL}"
        ) from error
    except OSError as error:
        raise InputError(f"initial states {path} cannot be read: {error.strerror}: make it readable") from error
    try:
        if len(content) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES // 2**20} MiB")
        states = _array(content)
        if not np.isfinite(states).all():
            raise ValueError(f"row {int(np.argmin(np.isfinite(states).all(1)))} is not finite")
        if width is not None and states.shape[1] != width:
            raise ValueError(f"its rows have {states.shape[1]} numbers, the task's model needs {width}")
    except (ValueError, zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError, OSError, SyntaxError) as error:
        raise InputError(f"initial states {path}: {error}: have the file again: {package.REINSTALL}") from error
    return states
