"""A mesh file becomes an asset that is used like any other: the example of docs/own_asset.md, and what the command refuses."""

from __future__ import annotations

import re

import pytest
from PIL import Image

from coda_jax import main
from coda_jax.loop import import_mesh as module
from coda_jax.loop.import_mesh import import_mesh
from coda_jax.runtime import InputError
from coda_jax.scenes import catalogue, own
from coda_jax.scenes.assets import Primitive
from coda_jax.scenes.meshes import convert
from tests.scenes.meshes.solids import boxes, obj

ANVIL = boxes(((0.01, 0.012, 0.03), (0.0, 0.0, 0.03)), ((0.03, 0.012, 0.01), (0.0, 0.0, 0.07)))


@pytest.fixture(autouse=True)
def forget(monkeypatch, tmp_path):
    """Own assets of a test end with it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalogue, "_OWN", {})
    catalogue._by_id.cache_clear()
    yield
    catalogue._by_id.cache_clear()


@pytest.fixture
def converted(monkeypatch):
    """Stands for the mesh's conversion where the test is about what comes after it."""

    def set_to(*primitives: Primitive, solid_m3: float = 1e-4):
        monkeypatch.setattr(convert, "convert", lambda *a, **k: convert.Converted(primitives, solid_m3, 0.9))

    return set_to


def test_the_example_of_the_documentation(repository, tmp_path, capsys):
    pytest.importorskip("coacd")
    pytest.importorskip("trimesh")
    for code in re.findall(r"```python\n(.*?)```", (repository / "docs" / "own_asset.md").read_text(), re.S):
        exec(compile(code, "docs/own_asset.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == ["own_assets/anvil_00.json", "True", "True "]
    record = own.read(tmp_path / "own_assets" / "anvil_00.json")
    assert record.provenance.licence == "CC0-1.0" and record.provenance.sha256 == own.digest((tmp_path / "anvil.obj").read_bytes())
    assert record.asset.mass_kg == pytest.approx(700 * record.provenance.solid_m3, abs=1e-4)
    assert 2 * max(record.asset.half_extent_m) == pytest.approx(0.08, abs=2e-3)
    # the command draws it, and the setting makes it known to another process
    module._show(tmp_path / "own_assets" / "anvil_00.json")
    assert "2 primitives (box, box)" in capsys.readouterr().out
    with Image.open(tmp_path / "own_assets" / "anvil_00.png") as picture:
        assert len(picture.getcolors(maxcolors=2**20) or []) > 100


def test_what_cannot_be_used(tmp_path, converted):
    path = tmp_path / "thing.obj"
    path.write_text(obj(*ANVIL))
    box = Primitive("box", (0.02, 0.02, 0.03))
    converted(box)
    for changes, message in (
        ({"licence": " "}, "give --licence"),
        ({"source": ""}, "give --licence"),
        ({"category": "mug"}, "'mug' has a meaning"),
        ({"number": 100}, "^--number=100 must be 0 to 99$"),
        ({"kind": "tool"}, "^--kind=tool must be object or support$"),
        ({"density_kg_m3": 0.7}, "^--density=0.7 must be 50 to 20000: it is in kg/m"),
    ):
        arguments = {"category": "thingy", "licence": "CC0-1.0", "source": "own", **changes}
        with pytest.raises(InputError, match=message):
            import_mesh(path, **arguments)
    converted(Primitive("box", (0.06, 0.06, 0.03)))
    with pytest.raises(InputError, match=r"no part of it \(120 x 120 x 60 mm\) fits jaws of 70 mm .*--longest=0.0\d+ would fit") as found:
        import_mesh(path, "crateful", "CC0-1.0", "own")
    longest_m = float(re.findall(r"--longest=([0-9.]+)", str(found.value))[0])
    assert 0.055 < longest_m < 0.12
    converted(Primitive("box", (longest_m / 2, longest_m / 2, longest_m / 4)))
    module.asset_of(convert.convert(path).primitives, 0.1, "crateful_00", "object")
    converted(box, solid_m3=1.0)
    with pytest.raises(InputError, match="mass 500.0 kg"):
        import_mesh(path, "brickish", "CC0-1.0", "own")
    assert not (tmp_path / "own_assets").exists()


def test_what_does_not_stand_is_refused(tmp_path, converted):
    path = tmp_path / "thing.obj"
    path.write_text(obj(*ANVIL))
    leaning = Primitive("box", (0.012, 0.012, 0.04), (0.0, 0.0, 0.0), (0.966, 0.0, 0.2588, 0.0))
    converted(leaning)
    with pytest.raises(InputError, match="it does not stand: .*give --up"):
        import_mesh(path, "pillar", "CC0-1.0", "own")


def test_a_record_is_overwritten_on_request_only(tmp_path, converted):
    path = tmp_path / "thing.obj"
    path.write_text(obj(*ANVIL))
    converted(Primitive("box", (0.02, 0.02, 0.03)))
    record = import_mesh(path, "brickish", "CC0-1.0", "own")
    import_mesh(path, "brickish", "CC0-1.0", "own", number=1)
    before = record.read_bytes()
    with pytest.raises(
        InputError, match=r"brickish_00\.json is there already: take --number=2 for another instance; --replace overwrites it"
    ):
        import_mesh(path, "brickish", "CC0-1.0", "elsewhere")
    assert record.read_bytes() == before
    import_mesh(path, "brickish", "CC0-1.0", "elsewhere", replace=True)
    assert own.read(record).provenance.source == "elsewhere"


def test_a_support_needs_no_grasp(tmp_path, converted):
    path = tmp_path / "thing.obj"
    path.write_text(obj(*ANVIL))
    converted(Primitive("box", (0.06, 0.06, 0.01)))
    record = own.read(import_mesh(path, "podium", "CC0-1.0", "own", kind="support"))
    assert record.asset.kind == "support" and record.asset.affordances == ("supports",)


def test_the_setting_makes_assets_known(tmp_path, converted, capsys):
    path = tmp_path / "thing.obj"
    path.write_text(obj(*ANVIL))
    converted(Primitive("box", (0.02, 0.02, 0.03)))
    import_mesh(path, "brickish", "CC0-1.0", "own")
    catalogue._OWN.clear()
    catalogue._by_id.cache_clear()
    (tmp_path / "experiment.py").write_text("from coda_jax import config\n\n\ndef get_config():\n    return config.default()\n")
    command = ["--config=experiment.py", "--mode=view", "--catalogue=brickish", "--output=brick.png"]
    assert main.main(command) == main.BAD_INPUT
    assert main.main([*command, "--config.scenes.own_assets=own_assets"]) == main.DONE
    assert (tmp_path / "brick.png").exists()
    assert main.main([*command, "--config.scenes.own_assets=nowhere"]) == main.BAD_INPUT
    assert "config.scenes.own_assets: nowhere holds no record" in capsys.readouterr().err
