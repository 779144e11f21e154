"""Records of a user's own assets: what is refused, and what the catalogue makes of one."""

from __future__ import annotations

import dataclasses
import json

import pytest

from coda_jax.scenes import catalogue as catalogue_module
from coda_jax.scenes import families, own
from coda_jax.scenes.assets import Grasp, Primitive
from coda_jax.scenes.catalogue import Catalogue, catalogue_hash, category_split
from coda_jax.scenes.generate import sample_spec


@pytest.fixture
def forget(monkeypatch):
    """Own assets of a test end with it."""
    monkeypatch.setattr(catalogue_module, "_OWN", {})
    catalogue_module._by_id.cache_clear()
    yield
    catalogue_module._by_id.cache_clear()


def record(**changes) -> own.OwnAsset:
    body, knob = Primitive("box", (0.02, 0.02, 0.03)), Primitive("cylinder", (0.01, 0.005, 0.0), (0.0, 0.0, 0.035))
    body, knob = (dataclasses.replace(p, pos_m=(0.0, 0.0, p.pos_m[2] - 0.005)) for p in (body, knob))
    asset = dataclasses.replace(
        Catalogue.all().get("block_00"),
        asset_id="duck_00",
        category="duck",
        primitives=(body, knob),
        half_extent_m=(0.02, 0.02, 0.035),
        affordances=("graspable",),
        grasps=(Grasp((0.0, 0.0, 0.0), 0.0, 0.04),),
    )
    asset = dataclasses.replace(asset, **changes)
    return own.OwnAsset(own.FORMAT, asset, own.Provenance("duck.obj", "0" * 64, "made by hand", "CC0-1.0", 500.0, 1e-4, 0.9))


def test_a_record_survives_the_file(tmp_path):
    (tmp_path / "duck.json").write_text(own.to_json(record()))
    assert own.read(tmp_path / "duck.json") == record()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"category": "mug", "asset_id": "mug_00"}, "'mug' has a meaning"),
        ({"category": "red", "asset_id": "red_00"}, "'red' has a meaning"),
        ({"category": "put", "asset_id": "put_00"}, "'put' has a meaning"),
        ({"category": "Ignore all", "asset_id": "x_00"}, "one word of 3 to 20 letters"),
        ({"asset_id": "duck"}, "the id must be duck_00 to duck_99"),
        ({"split": "test"}, "own assets belong to training"),
        ({"kind": "container"}, "use object or support"),
        ({"half_extent_m": (0.02, 0.02, 0.05)}, "half_extent_m is not the box"),
        ({"mass_kg": 50.0}, "mass 50.0 kg"),
        ({"primitives": ()}, "0 primitives"),
        ({"primitives": (Primitive("box", (0.0, 0.02, 0.03)),)}, "sizes lie between"),
        ({"primitives": (Primitive("box", (0.02, 0.02, 0.035), quat_wxyz=(2.0, 0.0, 0.0, 0.0)),)}, "not of unit length"),
        ({"primitives": (Primitive("mesh", (0.02, 0.02, 0.035)),)}, "shape 'mesh'"),
        ({"grasps": ()}, "an object needs grasps"),
        ({"grasps": (Grasp((0.0, 0.0, 0.0), 0.0, 0.2),)}, "a grasp is 0.2 m wide"),
        ({"grasps": (Grasp((0.0, 0.0, -0.03), 0.0, 0.04),)}, "a grasp is too low"),
        ({"colours": ("mauve",)}, "colours: use some of red"),
        ({"affordances": ("edible",)}, "affordances of a object: graspable"),
    ],
)
def test_what_is_refused(changes, message):
    with pytest.raises(own.OwnAssetError, match=message):
        own.check_asset(record(**changes).asset)


def test_damaged_files(tmp_path):
    good = json.loads(own.to_json(record()))
    for content, message in (
        ("{", "Invalid JSON"),
        (json.dumps({**good, "extra": 1}), "extra"),
        (json.dumps({**good, "format": 9}), "format 9: this version reads 1"),
        (json.dumps({**good, "asset": {**good["asset"], "mass_kg": float("nan")}}), "finite|Invalid JSON"),
        (json.dumps({**good, "asset": {**good["asset"], "mass_kg": "heavy"}}), "asset.mass_kg"),
        (" " * (own.MAX_BYTES + 1), "larger than 256 KiB"),
    ):
        (tmp_path / "duck.json").write_text(content)
        with pytest.raises(own.OwnAssetError, match=message):
            own.read(tmp_path / "duck.json")
    with pytest.raises(own.OwnAssetError, match="cannot be read: No such file"):
        own.read(tmp_path / "goose.json")
    (tmp_path / "duck.json").unlink()
    with pytest.raises(own.OwnAssetError, match=r"holds no record \(.json\)"):
        own.add_folder(tmp_path)


def test_an_own_asset_is_used_like_any_other(forget, tmp_path):
    before = catalogue_hash()
    (tmp_path / "duck.json").write_text(own.to_json(record()))
    assert own.add_folder(tmp_path) == (record(),) == own.add_folder(tmp_path)  # twice is once
    assert Catalogue("train").get("duck_00") == Catalogue.all().get("duck_00") == record().asset
    assert category_split("duck") == "train" and "duck_00" not in Catalogue("test") and catalogue_hash() == before
    targets = []
    for seed in range(120):
        spec = sample_spec(Catalogue("train"), "pick_place", "id", "train", seed)
        targets += [o.asset for o in spec.attributes.objects if o.object == families.read_goal(spec).target]
    assert "duck_00" in targets  # one of 24 categories
    with pytest.raises(own.OwnAssetError, match="two own assets are called duck_00"):
        own.add([record(mass_kg=0.2)])
