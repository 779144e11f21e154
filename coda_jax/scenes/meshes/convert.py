"""A mesh to primitives: cut into at most six convex pieces (CoACD), each of which becomes the primitive that is nearest to it.

The work is done in a child process with limits on memory and time, so that a hostile or hopeless file ends there.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from coda_jax import foreign
from coda_jax.scenes.assets import Primitive
from coda_jax.scenes.meshes.load import MeshError, read_bytes, read_triangles
from coda_jax.scenes.meshes.primitives import fit, overlap

MAX_PIECES = 6
TIME_S, MEMORY_BYTES = 300, 6 * 2**30
CPU_S = 8 * TIME_S  # of all its threads, so that it ends where its parent was killed
# Rotations that bring the file's upward axis to +z.
UP = {
    "z": np.eye(3),
    "y": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]),
    "x": np.array([[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
}


@dataclasses.dataclass(frozen=True)
class Converted:
    """What a mesh became. solid_m3: volume of its convex pieces. overlap: ``primitives.overlap``, 0..1."""

    primitives: tuple[Primitive, ...]
    solid_m3: float
    overlap: float


def require_packages() -> None:
    """Raises MeshError where trimesh or CoACD is not installed."""
    missing = [n for n in ("trimesh", "coacd") if importlib.util.find_spec(n) is None]
    if missing:
        raise MeshError(f"{' and '.join(missing)} not installed: pip install '.[mesh]'")


def convert(path: Path, up: str = "z", longest_m: float | None = None, pieces: int = MAX_PIECES) -> Converted:
    """Primitives of an OBJ or GLB file.

    Args:
      up: the file's upward axis, x, y or z. longest_m: length of its longest side; None keeps the file's units as metres.
      pieces: most primitives, 1 to MAX_PIECES.

    Raises:
      MeshError: the file cannot be used, or the packages are not installed.
    """
    if up not in UP or not 1 <= pieces <= MAX_PIECES:
        raise MeshError(f"up is x, y or z and pieces 1 to {MAX_PIECES}, not {up!r} and {pieces}")
    if longest_m is not None and not 0.001 <= longest_m <= 10:
        raise MeshError(f"the longest side is {longest_m} m; it must be between 0.001 and 10")
    require_packages()
    read_bytes(path)  # what can be said without the child is said here
    job = json.dumps([str(path.resolve()), up, longest_m, pieces])
    try:
        child = foreign.run_module("coda_jax.scenes.meshes.convert", job, TIME_S)
    except subprocess.TimeoutExpired as error:
        raise MeshError(f"{path.name} took more than {TIME_S} s: simplify the mesh") from error
    try:
        reply = json.loads(child.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        tail = child.stderr.strip().splitlines()[-1:] or [f"ended with {child.returncode}"]
        raise MeshError(f"{path.name} could not be converted ({tail[0][:200]}): simplify the mesh") from None
    if "error" in reply:
        raise MeshError(reply["error"])
    made = (Primitive(p["shape"], tuple(p["size_m"]), tuple(p["pos_m"]), tuple(p["quat_wxyz"])) for p in reply["primitives"])
    return Converted(tuple(made), reply["solid_m3"], reply["overlap"])


def decompose(points: np.ndarray, triangles: np.ndarray, most: int) -> list[np.ndarray]:
    """Vertices [n, 3] of at most ``most`` convex pieces that together fill the mesh."""
    import coacd

    coacd.set_log_level("error")
    # a few primitives follow: a coarse search finds the same pieces as the package's own settings, in a tenth of the time
    made = coacd.run_coacd(
        coacd.Mesh(points, triangles), threshold=0.05, max_convex_hull=most, preprocess_resolution=50, resolution=1000, mcts_nodes=12,
        mcts_iterations=50, decimate=True, max_ch_vertex=128, seed=0,
    )  # fmt: skip
    return [np.asarray(vertices, float) for vertices, _ in made]


def _placed(points: np.ndarray, up: str, longest_m: float | None) -> np.ndarray:
    turned = points @ UP[up].T
    return turned if longest_m is None else turned * (longest_m / float((turned.max(axis=0) - turned.min(axis=0)).max()))


def _work(path: Path, up: str, longest_m: float | None, most: int) -> Converted:
    from scipy.spatial import ConvexHull

    points, triangles = read_triangles(path.name, read_bytes(path))
    pieces = decompose(_placed(points, up, longest_m), triangles, most)
    volumes = [float(ConvexHull(p).volume) for p in pieces]
    made = [fit(p, v) for p, v in zip(pieces, volumes, strict=True)]
    return Converted(tuple(made), sum(volumes), overlap(pieces, made))


def _child(job: Sequence) -> dict:
    path, up, longest_m, most = job
    try:
        return dataclasses.asdict(_work(Path(path), up, longest_m, most))
    except MeshError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": f"{Path(path).name} needs more than {MEMORY_BYTES / 2**30:.0f} GiB of memory: simplify the mesh"}


if __name__ == "__main__":
    foreign.limit(MEMORY_BYTES, CPU_S)
    print(json.dumps(_child(json.loads(sys.stdin.read()))))
