"""config.robot: the documentation's example, the run's identity, and who acts where the configuration says so."""

import re
import shutil

import pytest

from coda_jax import config as settings
from coda_jax import main
from coda_jax.evaluation.metrics import Tally, read_summary
from coda_jax.loop import foreign_suites, parts, view
from coda_jax.loop import workdir as folders
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.own_robot.record import files_of
from coda_jax.sim.panda import PANDA


@pytest.fixture
def record(repository, tmp_path):
    for name in ("six_joint_arm.json", "six_joint_arm.xml"):
        shutil.copy(repository / "docs" / "examples" / name, tmp_path)
    return tmp_path / "six_joint_arm.json"


def config_with(record):
    config = settings.default()
    config.robot = str(record)
    config.sim.worlds = 4
    settings.validate(config)
    return config


def test_the_example_of_the_documentation(repository, monkeypatch, capsys):
    text = (repository / "docs" / "own_robot.md").read_text()
    shown = re.findall(r"```json\n(.*?)```", text, re.S)
    assert shown == [(repository / "docs" / "examples" / "six_joint_arm.json").read_text()]
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    monkeypatch.chdir(repository)
    exec(compile(code, "docs/own_robot.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == ["six_joint_arm 6 100%", "[True, True, True, True]", *["True "] * 4]


def test_the_robot_acts_wherever_the_configuration_is_asked(record):
    config, default = config_with(record), settings.default()
    assert parts.robot_of(default) is PANDA and parts.validity_of(default).robot is PANDA
    robot = parts.robot_of(config)
    assert robot.name == "six_joint_arm" and parts.robot_of(config) is robot
    assert parts.validity_of(config).robot is robot
    sim = parts.native_simulator(config, Catalogue.all(), Bucket(2, 1))
    assert isinstance(sim, NativeSimulator) and sim.robot is robot
    assert parts.backend(config, Bucket(2, 1)) == "native"


def test_a_run_belongs_to_its_robot(record, tmp_path):
    config, workdir = config_with(record), tmp_path / "run"
    with folders.open_run(workdir, config):
        (workdir / "commits.jsonl").write_text("")
    assert folders.check(workdir, config)
    with pytest.raises(InputError, match=r"robot: '.*six_joint_arm.json' -> 'panda'"):
        folders.check(workdir, settings.default())
    model = record.with_suffix(".xml")
    model.write_text(model.read_text().replace('mass="8.3"', 'mass="8.4"'))
    assert folders.check(workdir, config)  # what acts in this process was read before
    files_of.cache_clear()  # as in another one
    with pytest.raises(InputError, match="belongs to another robot"):
        folders.check(workdir, config)
    with pytest.raises(InputError, match="belongs to another robot"):
        folders.check_robot(workdir, config)
    model.unlink()
    files_of.cache_clear()
    with pytest.raises(InputError, match=r"config.robot: .* is no file"):
        folders.check(workdir, config)


@pytest.mark.parametrize(
    ("robot", "backend", "says"),
    [
        ("pandas", "auto", 'config.robot is "pandas"; it must be panda, or the record'),
        ("arm.xml", "auto", "the record"),
        ("arm.json", "mjx", "which simulates the panda only"),
    ],
)
def test_what_cannot_be_a_robot(robot, backend, says):
    config = settings.default()
    config.robot, config.sim.backend = robot, backend
    with pytest.raises(InputError, match=says):
        settings.validate(config)


def test_a_missing_record_is_bad_input(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("from coda_jax.config import default as get_config\n")
    assert main.main(["--config=mine.py", "--config.robot=gone.json"]) == main.BAD_INPUT
    assert f"config.robot: {tmp_path / 'gone.json'} is no file" in capsys.readouterr().err
    assert not (tmp_path / "runs" / "mine" / "config.json").exists()
    assert main.main(["--config=mine.py", "--config.robot=gone.json", "--dry_run"]) == main.BAD_INPUT


def test_a_picture_for_a_run_shows_its_robot(record, tmp_path, monkeypatch, capsys):
    config, workdir, drawn = config_with(record), tmp_path / "run", []
    with folders.open_run(workdir, config):
        (workdir / "commits.jsonl").write_text("")
    picture = view.films.picture
    monkeypatch.setattr(view.films, "picture", lambda *a, **k: drawn.append(a[2].name) or picture(*a, **k))
    assert main.main(["--mode=view", f"--workdir={workdir}"]) == main.DONE
    assert drawn == ["six_joint_arm"] and list((workdir / "videos").iterdir())


def test_how_many_scenes_of_the_suites_it_reaches(record):
    config = config_with(record)
    config.evaluate.suites, config.evaluate.scenes = ("id", "layouts"), 3
    assert foreign_suites.within_reach(settings.default()) == {} and foreign_suites.describe("panda", {}) == ""
    found = foreign_suites.within_reach(config)
    assert found == {"pick_place": {"id": Tally(3, 3), "layouts": Tally(3, 3)}}
    assert "within reach of six_joint_arm: pick_place id 3/3, layouts 3/3" in foreign_suites.describe("six_joint_arm", found)


@pytest.mark.slow
def test_a_run_from_scenes_to_the_report(record, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.py").write_text("from tests.loop.small import small_config as get_config\n")
    command = ["--config=small.py", f"--config.robot={record}", "--workdir=run"]
    assert main.main(command) == main.DONE
    summary = read_summary(tmp_path / "run")
    assert summary.robot == "six_joint_arm" and summary.within_reach["pick_place"]["id"] == Tally(3, 3)
    assert summary.suites["pick_place"]["id"]["after"].n == 3
    assert "certified with the panda" in capsys.readouterr().out
    assert "six_joint_arm reaches 6 of their 6 scenes" in (tmp_path / "run" / "report.html").read_text()
