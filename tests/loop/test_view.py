"""Drawing one scene."""

import pytest
from PIL import Image

from coda_jax import config as settings
from coda_jax.loop import view
from coda_jax.runtime import InputError
from coda_jax.scenes import generate
from coda_jax.scenes.catalogue import Catalogue


def test_a_suite_scene_is_drawn_and_described(tmp_path, capsys):
    view.run(settings.default(), None, "layouts", 1, tmp_path / "scene.png")
    with Image.open(tmp_path / "scene.png") as picture:
        assert picture.size == (2 * view.WIDTH, view.HEIGHT)
        assert len(picture.getcolors(maxcolors=2**20) or []) > 500  # it shows something
    text = capsys.readouterr().out
    spec = view.scene_of(settings.default(), None, "layouts", 1)
    assert spec.task.instruction in text and all(name in text for name in spec.object_ids)
    assert "invalid" not in text and "not for training" in text


def test_a_program_is_drawn_and_told_what_is_wrong(tmp_path, capsys):
    program = tmp_path / "scene.py"
    program.write_text(generate.sample(Catalogue("train"), seed=3).replace("mass_kg=", "mass_kg=1.9 + 0 * "))
    view.run(settings.default(), program, "id", 0, tmp_path / "scene.png")
    assert "invalid, scale: " in capsys.readouterr().out


def test_the_picture_goes_where_pictures_of_runs_go(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "runs" / "mine"
    run.mkdir(parents=True)
    for folder in (None, run):  # no run yet: nothing is put into its folder
        view.run(settings.default(), None, "id", 0, workdir=folder)
    assert not any(run.iterdir())
    (run / "config.json").write_text("{}")
    view.run(settings.default(), None, "id", 0, workdir=run)
    name = f"scene_{view.scene_of(settings.default(), None, 'id', 0).scene_id}.png"
    told = [line.removeprefix("picture: ") for line in capsys.readouterr().out.splitlines() if line.startswith("picture: ")]
    assert told == [f"runs/pictures/{name}"] * 2 + [str(run / "videos" / name)]
    assert sorted(p.name for p in tmp_path.rglob("*.png")) == [name, name]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("result = scene(\n", "syntax"),
        ("result = 3\n", "invalid_scene"),
        ("while True:\n    pass\n", "limit_time"),
        ('result = generation(factor="spatial", roles=[role("target")], edits=[edit("yaw")])', "--mode=check and --mode=verify take those"),
    ],
)
def test_a_bad_program_is_one_message(text, message, tmp_path):
    program = tmp_path / "scene.py"
    program.write_text(text)
    config = settings.default()
    config.sandbox.time_s = 0.2
    with pytest.raises(InputError, match=message):
        view.run(config, program, "id", 0, None)


def test_what_does_not_exist_is_named(tmp_path):
    with pytest.raises(InputError, match="has scenes 0 to 49"):
        view.run(settings.default(), None, "layouts", 999, None)
    with pytest.raises(InputError, match="unknown suite 'layuots'"):
        view.run(settings.default(), None, "layuots", 0, None)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        view.run(settings.default(), None, "layouts", 0, file / "scene.png")
