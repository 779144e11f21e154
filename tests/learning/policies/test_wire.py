"""openpi's messages: what is sent comes back, openpi's own package reads it, and strangers' bytes do no harm."""

import contextlib
import struct

import msgpack
import numpy as np
import pytest

from coda_jax.learning.policies.wire import WireError, pack, unpack

MESSAGE = {
    "actions": np.arange(14, dtype=np.float32).reshape(2, 7) / 3,
    "image": np.arange(24, dtype=np.uint8).reshape(2, 4, 3)[::-1],
    "empty": np.zeros((0, 3)),
    "flag": np.bool_(True),
    "number": np.float32(1 / 3),
    "nested": {"words": ["a red mug", ""], "count": 3},
}


def same(found, wanted):
    if isinstance(wanted, np.ndarray):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    elif isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            same(found[key], value)
    else:
        assert type(found) is type(wanted) and found == wanted


def test_a_message_comes_back():
    same(unpack(pack(MESSAGE)), MESSAGE)


def test_openpis_package_reads_ours_and_we_read_its():
    client = pytest.importorskip("openpi_client.msgpack_numpy", exc_type=ImportError)
    same(client.unpackb(pack(MESSAGE)), MESSAGE)
    same(unpack(client.packb(MESSAGE)), MESSAGE)


def array(**changed):
    entries = {b"__ndarray__": True, b"data": bytes(8), b"dtype": "<f4", b"shape": [2]} | changed
    return msgpack.packb({"a": {k if isinstance(k, bytes) else k.encode(): v for k, v in entries.items()}})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"not msgpack",
        msgpack.packb([1, 2]),
        msgpack.packb({1: 2}),
        msgpack.packb({b"bytes": 2}),
        msgpack.packb({"a": msgpack.ExtType(5, b"x")}),
        b"\x91" * 5000,  # lists in lists
        b"\xdd" + struct.pack(">I", 2**31) + b"\x00",  # a list said to be long
        array(dtype="O"),
        array(dtype="|O8"),
        array(dtype="<c8"),
        array(dtype="<U2"),
        array(dtype="<M8"),
        array(dtype="f4,f4"),
        array(dtype="<f16"),
        array(dtype=["<f4"]),
        array(shape=[3]),
        array(shape=[-2]),
        array(shape=[2**62, 4]),
        array(shape=[True, 2]),
        array(shape=[1] * 9),
        array(shape=2),
        array(data="text"),
        array(data=[0] * 8),
        msgpack.packb({"a": {b"__npgeneric__": True, b"data": 300, b"dtype": "|u1"}}),
        msgpack.packb({"a": {b"__npgeneric__": True, b"data": "x", b"dtype": "<f4"}}),
        msgpack.packb({"a": [0] * 70_000}),
        msgpack.packb({"a": [[{}] * 60_000] * 2}),
        msgpack.packb({"a": [dict.fromkeys("bcdefgh")] * 10_000}),
    ],
)
def test_what_is_no_message_is_refused(data):
    with pytest.raises(WireError):
        unpack(data)


@pytest.mark.parametrize("value", [np.array([object()]), np.array([1j]), object(), 2**70])
def test_what_cannot_be_sent_is_refused(value):
    with pytest.raises(WireError):
        pack({"a": value})


def test_random_bytes_raise_nothing_else():
    generator = np.random.default_rng(0)
    good = bytearray(pack(MESSAGE))
    for _ in range(3000):
        broken = bytearray(good)
        for place in generator.integers(len(broken), size=3):
            broken[place] = generator.integers(256)
        with contextlib.suppress(WireError):
            unpack(bytes(broken[: generator.integers(1, len(broken) + 1)]))
