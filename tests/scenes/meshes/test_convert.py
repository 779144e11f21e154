"""A mesh of boxes becomes those boxes; pieces become the primitive they are nearest to."""

from __future__ import annotations

import math
import subprocess

import numpy as np
import pytest

from coda_jax.scenes.meshes import convert as module
from coda_jax.scenes.meshes.convert import UP, convert
from coda_jax.scenes.meshes.load import MeshError
from coda_jax.scenes.meshes.primitives import fit, inside, overlap
from coda_jax.scenes.shapes.build import bounding_box, volume
from tests.scenes.meshes.solids import boxes, obj

TEE = boxes(((0.01, 0.01, 0.03), (0.0, 0.0, 0.03)), ((0.03, 0.01, 0.01), (0.0, 0.0, 0.07)))


def _ball(radii, n=400):
    rng = np.random.default_rng(1)
    points = rng.standard_normal((n, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True) * radii


def test_pieces_become_what_they_look_like():
    pytest.importorskip("trimesh")
    turn = np.linspace(0, 2 * math.pi, 60, endpoint=False)
    ring = np.stack([0.02 * np.cos(turn), 0.02 * np.sin(turn)], 1)
    tube = np.concatenate([np.column_stack([ring, np.full(60, z)]) for z in (-0.05, 0.05)])
    corners = boxes(((0.02, 0.03, 0.04), (0.01, 0.0, 0.0)))[0]
    box = fit(corners, 8 * 0.02 * 0.03 * 0.04)
    assert box.shape == "box" and sorted(box.size_m) == pytest.approx([0.02, 0.03, 0.04]) and box.pos_m == pytest.approx((0.01, 0, 0))
    rod = fit(tube, math.pi * 0.02**2 * 0.1)
    assert rod.shape == "cylinder" and rod.size_m == pytest.approx((0.02, 0.05, 0.0), abs=2e-4)
    egg = fit(_ball((0.02, 0.03, 0.04)), 4 / 3 * math.pi * 0.02 * 0.03 * 0.04)
    assert egg.shape == "ellipsoid" and volume(egg) == pytest.approx(4 / 3 * math.pi * 0.02 * 0.03 * 0.04, rel=0.1)
    assert inside(rod, np.array([(0.019, 0, 0.049), (0.015, 0.015, 0), (0, 0, 0.051)])).tolist() == [True, False, False]
    assert overlap([corners], [box]) > 0.97 and overlap([corners], [rod]) < 0.5


@pytest.mark.parametrize(("up", "tall"), [("z", 2), ("y", 1), ("x", 0)])
def test_up_points_up(up, tall):
    axis = np.eye(3)[tall]
    np.testing.assert_allclose(UP[up] @ axis, (0, 0, 1))
    assert np.linalg.det(UP[up]) == pytest.approx(1.0)


def test_a_tee_becomes_two_boxes(tmp_path):
    pytest.importorskip("coacd")
    pytest.importorskip("trimesh")
    (tmp_path / "tee.obj").write_text(obj(*TEE))
    made = convert(tmp_path / "tee.obj", "z", 0.08, 4)
    low, high = bounding_box(made.primitives)
    assert np.array(high) - low == pytest.approx((0.06, 0.02, 0.08), abs=3e-3)
    assert 2 <= len(made.primitives) <= 4 and {p.shape for p in made.primitives} == {"box"}
    assert made.solid_m3 == pytest.approx(4.8e-5, rel=0.15)  # solids that touch are made one by a remeshing, which thickens them
    assert made.overlap > 0.9


def test_what_cannot_be_converted(tmp_path, monkeypatch):
    path = tmp_path / "tee.obj"
    path.write_text(obj(*TEE))
    with pytest.raises(MeshError, match="up is x, y or z"):
        convert(path, "w")
    with pytest.raises(MeshError, match="longest side is nan m"):
        convert(path, "z", float("nan"))
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MeshError, match=r"trimesh and coacd not installed: pip install '\.\[mesh\]'"):
        convert(path)
    monkeypatch.setattr(module, "require_packages", lambda: None)

    def slow(name, job, timeout):
        raise subprocess.TimeoutExpired("child", timeout)

    monkeypatch.setattr(module.foreign, "run_module", slow)
    with pytest.raises(MeshError, match="took more than 300 s: simplify"):
        convert(path)
    dead = subprocess.CompletedProcess([], -9, "", "")
    monkeypatch.setattr(module.foreign, "run_module", lambda *a, **k: dead)
    with pytest.raises(MeshError, match="could not be converted \\(ended with -9\\)"):
        convert(path)
