"""What a policy server sends: msgpack, with numpy arrays as maps of bytes, type and shape. Only plain numbers and texts come out.

openpi's own reader makes arrays of objects of the bytes it is sent, which numpy 1.26 takes for addresses in memory: whoever answers could
run what he likes here.
"""

from __future__ import annotations

import math
from typing import Any

import msgpack
import numpy as np

_MOST_ITEMS = 65_536  # of all lists and maps of a message
_ARRAY, _SCALAR = b"__ndarray__", b"__npgeneric__"


def unpacked(data: bytes | str) -> dict[str, Any]:
    """The message of ``data``: texts, plain numbers, and arrays of them.

    Raises:
      ValueError: it is a text, or anything else than such a message.
    """
    if isinstance(data, str):
        raise ValueError(f"the server says: {data}")
    left = _MOST_ITEMS

    def counted(value: Any) -> Any:
        nonlocal left
        left -= 1 + len(value)
        if left < 0:
            raise ValueError(f"the message has more than {_MOST_ITEMS} entries")
        return value

    message = msgpack.unpackb(
        data,
        object_hook=lambda value: _decoded(counted(value)),
        list_hook=counted,
        max_array_len=_MOST_ITEMS,
        max_map_len=_MOST_ITEMS,
        max_ext_len=0,
    )
    if not isinstance(message, dict) or not all(isinstance(key, str) for key in message):
        raise ValueError(f"the message is a {type(message).__name__}; it must be a map with texts as keys")
    return message


def _decoded(value: dict[Any, Any]) -> Any:
    if _ARRAY not in value and _SCALAR not in value:
        return value
    name, data = value.get(b"dtype"), value.get(b"data")
    dtype = np.dtype(name) if isinstance(name, str) and len(name) <= 4 else None
    if dtype is None or dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise ValueError(f"{str(name)[:40]!r} is no type of numbers of at most 8 bytes")
    if _SCALAR in value:
        if not isinstance(data, (bool, int, float)):
            raise ValueError(f"a number of {dtype} is sent as a {type(data).__name__}")
        return dtype.type(data)
    shape = value.get(b"shape")
    if not isinstance(data, bytes) or not isinstance(shape, list) or len(shape) > 8 or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("an array must have bytes and a shape of at most 8 numbers")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"an array of {dtype} and shape {str(shape)[:80]} is sent with {len(data)} bytes")
    return np.frombuffer(data, dtype).reshape(shape)
