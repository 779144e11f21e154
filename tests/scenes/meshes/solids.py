"""Small solids as OBJ and GLB text, without a mesh package."""

from __future__ import annotations

import json
import struct

import numpy as np

_CORNERS = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
_QUADS = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
_TRIANGLES = np.array([t for a, b, c, d in _QUADS for t in ((a, b, c), (a, c, d))])


def boxes(*sizes_and_places) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of boxes, each ((half sizes), (centre))."""
    points = np.concatenate([_CORNERS * half + centre for half, centre in sizes_and_places])
    triangles = np.concatenate([_TRIANGLES + 8 * i for i in range(len(sizes_and_places))])
    return points, triangles


def obj(points: np.ndarray, triangles: np.ndarray) -> str:
    lines = ["mtllib elsewhere.mtl", *(f"v {x} {y} {z}" for x, y, z in points), *(f"f {a + 1} {b + 1} {c + 1}" for a, b, c in triangles)]
    return "\n".join(lines) + "\n"


def glb(points: np.ndarray, triangles: np.ndarray, **changes) -> bytes:
    """A GLB with one mesh; ``changes`` replace entries of its header."""
    data = points.astype("<f4").tobytes() + triangles.astype("<u4").tobytes()
    header = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
        "buffers": [{"byteLength": len(data)}],
        "bufferViews": [
            {"buffer": 0, "byteOffset": 0, "byteLength": 12 * len(points)},
            {"buffer": 0, "byteOffset": 12 * len(points), "byteLength": 12 * len(triangles)},
        ],
        "accessors": [
            {
                "bufferView": 0, "componentType": 5126, "count": len(points), "type": "VEC3",
                "min": points.min(0).tolist(), "max": points.max(0).tolist(),
            },
            {"bufferView": 1, "componentType": 5125, "count": 3 * len(triangles), "type": "SCALAR"},
        ],
    } | changes  # fmt: skip
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 4)
    data += b"\0" * (-len(data) % 4)
    chunks = struct.pack("<II", len(text), 0x4E4F534A) + text + struct.pack("<II", len(data), 0x004E4942) + data
    return struct.pack("<III", 0x46546C67, 2, 12 + len(chunks)) + chunks
