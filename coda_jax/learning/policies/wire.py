"""Messages of openpi's websocket protocol: msgpack, with numpy arrays as maps of bytes, type and shape.

What is read comes from strangers: only plain numbers and texts come out, nothing is executed, and sizes are bounded.
"""

from __future__ import annotations

import math
from typing import Any

import msgpack
import numpy as np

MOST_ITEMS = 65_536  # of all lists and maps; arrays are bytes and do not count
MOST_DIMENSIONS = 8
_KINDS = "biuf"  # bool, integers, fractions
_ARRAY, _SCALAR = b"__ndarray__", b"__npgeneric__"


class WireError(ValueError):
    """A message is not one of the protocol; the text says what of it."""


def pack(message: dict[str, Any]) -> bytes:
    """The bytes of a message of texts, numbers, lists, maps and numpy arrays.

    Raises:
      WireError: an array is of objects, complex numbers or records, or a value is of no type that msgpack has.
    """
    try:
        packed = msgpack.packb(message, default=_encoded)
    except (TypeError, ValueError, OverflowError) as error:
        raise WireError(f"the message cannot be packed: {error}") from error
    assert isinstance(packed, bytes)
    return packed


def unpack(data: bytes) -> dict[str, Any]:
    """The message of ``data``; its arrays are read-only.

    Raises:
      WireError: it is no msgpack, no map with texts as keys, too deep, has too many entries, or has an array whose bytes do not fit its
        type and shape.
    """
    left = MOST_ITEMS  # an empty map takes one byte of a message and 60 of memory

    def counted(value: Any) -> Any:
        nonlocal left
        left -= 1 + len(value)
        if left < 0:
            raise WireError(f"the message has more than {MOST_ITEMS} entries; send numbers as arrays")
        return value

    try:
        message = msgpack.unpackb(
            data,
            object_hook=lambda value: _decoded(counted(value)),
            list_hook=counted,
            max_array_len=MOST_ITEMS,
            max_map_len=MOST_ITEMS,
            max_ext_len=0,
        )
    except WireError:
        raise
    except (ValueError, TypeError, RecursionError, msgpack.exceptions.UnpackException) as error:
        raise WireError(f"the message is not msgpack as the protocol has it: {str(error)[:200] or type(error).__name__}") from error
    if not isinstance(message, dict) or not all(isinstance(key, str) for key in message):
        raise WireError(f"the message is a {type(message).__name__}; it must be a map with texts as keys")
    return message


def _encoded(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in _KINDS:
        raise WireError(f"arrays of {value.dtype} cannot be sent; send numbers")
    if isinstance(value, np.ndarray):
        return {_ARRAY: True, b"data": value.tobytes(), b"dtype": value.dtype.str, b"shape": value.shape}
    if isinstance(value, np.generic):
        return {_SCALAR: True, b"data": value.item(), b"dtype": value.dtype.str}
    raise TypeError(f"a {type(value).__name__} has no form in msgpack")


def _decoded(value: dict[Any, Any]) -> Any:
    if _ARRAY in value:
        return _array(value)
    if _SCALAR in value:
        dtype, number = _dtype(value), value.get(b"data")
        if not isinstance(number, (bool, int, float)):
            raise WireError(f"a number of {dtype} is sent as a {type(number).__name__}")
        try:
            with np.errstate(over="ignore"):  # too large for the type: infinite, which readers refuse
                return dtype.type(number)
        except (OverflowError, ValueError) as error:
            raise WireError(f"{number} is no {dtype}") from error
    return value


def _array(value: dict[Any, Any]) -> np.ndarray:
    dtype, data, shape = _dtype(value), value.get(b"data"), value.get(b"shape")
    if not isinstance(data, bytes) or not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS:
        raise WireError(f"an array must have bytes and a shape of at most {MOST_DIMENSIONS} numbers")
    if not all(type(n) is int and n >= 0 for n in shape) or math.prod(shape) * dtype.itemsize != len(data):
        raise WireError(f"an array of {dtype} and shape {str(shape)[:80]} is sent with {len(data)} bytes")
    return np.frombuffer(data, dtype).reshape(shape)


def _dtype(value: dict[Any, Any]) -> np.dtype:
    name = value.get(b"dtype")
    try:
        dtype = np.dtype(name) if isinstance(name, str) and len(name) <= 4 else None
    except TypeError:
        dtype = None
    if dtype is None or dtype.kind not in _KINDS or dtype.itemsize > 8:
        raise WireError(f"{str(name)[:40]!r} is no type of numbers of at most 8 bytes, like '<f4'")
    return dtype
