"""The suites' initial states: rows of time, positions and velocities. A file may be anything and is never unpickled."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
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


_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what numpy writes; zipfile unpacks every other way without a bound
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(rb"\{'descr': '([\w<>|=]{1,8})', 'fortran_order': (False|True), 'shape': \(((?:\d{1,9}, ?)*(?:\d{1,9})?)\), \} *\n")


def _array(content: bytes) -> np.ndarray:
    """The array "states" of an .npz, its header checked before anything is allocated. Raises ValueError.

    numpy's own reader of headers is not asked: it evaluates them, and fails in a dozen ways on those that nobody should have written.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if archive.namelist() != ["states.npy"]:
            raise ValueError("it does not hold the one array 'states'")
        info = archive.getinfo("states.npy")
        if info.compress_type not in _PACKED:
            raise ValueError("its array is packed in another way than numpy's savez and savez_compressed do")
        if info.file_size > MAX_MEMBER:
            raise ValueError(f"its array is larger than {MAX_MEMBER // 2**20} MiB")
        with archive.open(info) as member:
            data = member.read(MAX_MEMBER + 1)
    start = len(_MAGIC) + 2
    end = start + int.from_bytes(data[len(_MAGIC) : start], "little")
    header = _HEADER.fullmatch(data[start:end])
    if not data.startswith(_MAGIC) or header is None:
        raise ValueError("its array has another format than numpy's 1.0")
    kind, fortran, shape = header[1].decode(), header[2] == b"True", tuple(int(n) for n in header[3].split(b",") if n.strip())
    if len(shape) != 2 or kind != "<f8" or fortran:
        raise ValueError(f"its array is {kind} of shape {shape}, not float64 of states by numbers")
    if not (0 < shape[0] <= MAX_STATES and 0 < shape[1] <= MAX_WIDTH):
        raise ValueError(f"its array has the shape {shape}: 1 to {MAX_STATES} states of at most {MAX_WIDTH} numbers are read")
    rest = data[end:]
    if len(rest) != 8 * shape[0] * shape[1]:
        raise ValueError(f"its array says {shape} and holds {len(rest)} bytes")
    return np.frombuffer(rest, dtype="<f8").reshape(shape).astype(np.float64)


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
    except (ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, RuntimeError, OSError) as error:
        raise InputError(f"initial states {path}: {error}: have the file again: {package.REINSTALL}") from error
    return states
