"""What mesh files are read, and which are refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from coda_jax.scenes.meshes import load
from coda_jax.scenes.meshes.load import MeshError, read_bytes, read_triangles
from tests.scenes.meshes.solids import boxes, glb, obj

pytest.importorskip("trimesh")
CUBE = boxes(((1.0, 2.0, 3.0), (0.0, 0.0, 3.0)))


def test_obj_and_glb_hold_the_same_solid():
    for name, content in (("a.obj", obj(*CUBE).encode()), ("a.glb", glb(*CUBE))):
        points, triangles = read_triangles(name, content)
        np.testing.assert_allclose(points.max(0) - points.min(0), (2.0, 4.0, 6.0), atol=1e-6)
        corners = points[triangles]
        volume = np.einsum("ni,ni->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6
        assert abs(volume) == pytest.approx(48.0, rel=1e-5) and len(triangles) == 12


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.obj", b"", "cannot be read as OBJ|no closed surface"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "no closed surface"),
        ("a.obj", b"\xff\xfe\x00garbage\x00" * 50, "cannot be read|no closed surface"),
        ("a.obj", obj(*CUBE).replace("v -1.0", "v nan").encode(), "not finite|cannot be read"),
        ("a.obj", obj(*CUBE).replace("v -1.0", "v inf").encode(), "not finite|cannot be read"),
        ("a.obj", obj(*CUBE).replace("f 1", "f 999").encode(), "cannot be read|damaged"),
        ("a.obj", obj(CUBE[0] * (1, 1, 0), CUBE[1]).encode(), "flat"),
        ("a.glb", b"glTF", "no GLB file"),
        ("a.glb", glb(*CUBE)[:60], "no GLB file"),
        ("a.glb", struct.pack("<IIIII", 0x46546C67, 2, 40, 20, 0x4E4F534A) + b"[" * 100_000, "no GLB file|damaged"),
        ("a.glb", glb(*CUBE, buffers=[{"byteLength": 10, "uri": "file:///etc/passwd"}]), "keeps its geometry in another file"),
        ("a.glb", glb(*CUBE, buffers=[{"byteLength": 10, "uri": "http://example.org/a.bin"}]), "keeps its geometry in another file"),
        ("a.glb", glb(*CUBE, extensionsRequired=["KHR_draco_mesh_compression"]), "KHR_draco_mesh_compression"),
        ("a.glb", glb(*CUBE, accessors=[{"componentType": 5126, "count": 10**12, "type": "VEC3"}]), "states 1000000000000 numbers"),
        ("a.glb", glb(*CUBE, accessors=[{"componentType": 5126, "count": "all", "type": "VEC3"}]), "states all numbers"),
        ("a.glb", glb(*CUBE, buffers=7), "damaged"),
        ("a.glb", glb(*CUBE, accessors=[3]), "damaged"),
        ("a.glb", glb(*CUBE, nodes=[{"mesh": 5}]), "cannot be read|no closed surface"),
    ],
)
def test_hostile_content_is_refused(name, content, message):
    with pytest.raises(MeshError, match=message):
        read_triangles(name, content)


def test_nothing_outside_the_file_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere.mtl").write_text("newmtl x\nmap_Kd picture.png\n")
    opened = []
    real = open
    monkeypatch.setattr("builtins.open", lambda *a, **k: (opened.append(str(a[0])), real(*a, **k))[1])
    read_triangles("a.obj", obj(*CUBE).encode())
    assert not [name for name in opened if "elsewhere" in name or "picture" in name]


def test_files_are_bounded(tmp_path, monkeypatch):
    (tmp_path / "a.stl").write_text("solid")
    with pytest.raises(MeshError, match=r"only .obj and .glb files are read"):
        read_bytes(tmp_path / "a.stl")
    with pytest.raises(MeshError, match="cannot be read: No such file"):
        read_bytes(tmp_path / "a.obj")
    (tmp_path / "a.obj").write_text(obj(*CUBE))
    monkeypatch.setattr(load, "MAX_BYTES", 10)
    with pytest.raises(MeshError, match="simplify the mesh"):
        read_bytes(tmp_path / "a.obj")
    monkeypatch.setattr(load, "MAX_FACES", 5)
    with pytest.raises(MeshError, match="12 triangles, at most .* and 5"):
        read_triangles("a.obj", obj(*CUBE).encode())
