"""Reading a mesh file that nobody vouches for: bounded size, nothing outside the file, finite numbers, triangles that exist.

Runs in the child process of ``convert``: reading a file takes memory and time that the file itself decides on.
"""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from coda_jax.foreign import read_plain

MAX_BYTES = 32 * 2**20
MAX_VERTICES, MAX_FACES = 300_000, 300_000
SUFFIXES = (".obj", ".glb")
_GLB_MAGIC, _GLB_JSON = 0x46546C67, 0x4E4F534A


class MeshError(ValueError):
    """A mesh that cannot be used; the message says why and what to change."""


def read_bytes(path: Path) -> bytes:
    """The content of a mesh file.

    Raises:
      MeshError: it has another suffix than SUFFIXES, is larger than MAX_BYTES, or cannot be read.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise MeshError(f"{path.name}: only {' and '.join(SUFFIXES)} files are read; export it as one of them (a .gltf as .glb)")
    try:
        content = read_plain(path, MAX_BYTES)
    except OSError as error:
        raise MeshError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise MeshError(f"{path.name} has more than {MAX_BYTES / 2**20:.0f} MiB: simplify the mesh, leave textures out")
    return content


def read_triangles(name: str, content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [n, 3] (the file's units) and triangles [m, 3] of an OBJ or GLB; materials and textures are not looked at.

    Raises:
      MeshError: it refers to other files, is too large, not a mesh, or not finite.
      ModuleNotFoundError: trimesh is not installed.
    """
    import trimesh

    kind = Path(name).suffix.lower().removeprefix(".")
    if kind == "glb":
        _check_glb(name, content)
    try:
        # no resolver: whatever the file refers to is out of reach
        scene = trimesh.load_scene(io.BytesIO(content), file_type=kind, resolver=None, skip_materials=True, process=False)
        used = [scene.geometry[scene.graph[node][1]] for node in scene.graph.nodes_geometry]
        faces = sum(len(g.faces) for g in used if isinstance(g, trimesh.Trimesh))
        vertices = sum(len(g.vertices) for g in used if isinstance(g, trimesh.Trimesh))
        if vertices > MAX_VERTICES or faces > MAX_FACES:
            raise MeshError(f"{name} has {vertices} vertices and {faces} triangles, at most {MAX_VERTICES} and {MAX_FACES}: simplify it")
        mesh: Any = scene.to_mesh()
        points, triangles = np.array(mesh.vertices, float), np.array(mesh.faces, np.int64)
    except MeshError:
        raise
    except Exception as error:  # whatever a damaged file makes of the reader
        raise MeshError(f"{name} cannot be read as {kind.upper()} ({type(error).__name__}: {str(error)[:120]})") from error
    return _checked(name, points, triangles)


def _checked(name: str, points: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if triangles.ndim != 2 or triangles.shape[1:] != (3,) or len(triangles) < 4:
        raise MeshError(f"{name} has no closed surface of triangles: export the solid as a mesh")
    if triangles.min() < 0 or triangles.max() >= len(points):
        raise MeshError(f"{name}: a triangle names vertex {int(triangles.max())} of {len(points)}: the file is damaged")
    used = points[np.unique(triangles)]
    if not np.isfinite(used).all():
        raise MeshError(f"{name} has coordinates that are not finite: repair it")
    sides = used.max(axis=0) - used.min(axis=0)
    if not 1e-6 < sides.max() < 1e6 or sides.min() < 1e-3 * sides.max():
        raise MeshError(f"{name} measures {' x '.join(f'{s:.3g}' for s in sides)}: it is flat, empty or without sensible units")
    return points, triangles


def _check_glb(name: str, content: bytes) -> None:
    """Refuse what a GLB may ask of its reader: other files, extensions, more numbers than the file holds."""
    try:
        magic, _, _ = struct.unpack_from("<III", content, 0)
        length, kind = struct.unpack_from("<II", content, 12)
        header = json.loads(content[20 : 20 + length]) if (magic, kind) == (_GLB_MAGIC, _GLB_JSON) else None
    except (struct.error, ValueError, RecursionError) as error:
        raise MeshError(f"{name} is no GLB file: its header is damaged") from error
    if not isinstance(header, dict):
        raise MeshError(f"{name} is no GLB file: its header is damaged")
    if needed := header.get("extensionsRequired"):
        raise MeshError(f"{name} needs the extensions {str(needed)[:80]}, which are not read: export it without compression")
    for buffer in _entries(name, header, "buffers"):
        if "uri" in buffer:
            raise MeshError(f"{name} keeps its geometry in another file ({str(buffer['uri'])[:40]!r}): export it as one .glb")
    for accessor in _entries(name, header, "accessors"):
        count = accessor.get("count", 0)
        if not isinstance(count, int) or not 0 <= count <= 3 * MAX_FACES:
            raise MeshError(f"{name} states {str(count)[:20]} numbers in one array, at most {3 * MAX_FACES}: simplify the mesh")


def _entries(name: str, header: dict, key: str) -> list[dict]:
    entries = header.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise MeshError(f"{name} is no GLB file: its {key} are damaged")
    return entries
