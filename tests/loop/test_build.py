"""``--mode=build``: a described scene becomes a checked program with its picture; without one the reasons are printed."""

import io
import json
import time
from typing import ClassVar

import pytest
from PIL import Image

from coda_jax import main as command_line
from coda_jax.agents.llm.budget import Asked
from coda_jax.agents.llm.chat import CallError, CallErrorKind, Request
from coda_jax.agents.llm.recording import FILE, OwnRecording
from coda_jax.agents.llm.tally import Tally
from coda_jax.loop import build, coevolve, films, seed_scenes, user_scenes
from coda_jax.loop import workdir as folders
from coda_jax.loop.run import opened
from coda_jax.loop.seed_scenes import SceneSource
from coda_jax.loop.told import Told
from coda_jax.runtime import InputError
from tests.agents.llm import fake_server as fake
from tests.agents.llm.transcripts import load
from tests.loop.small import small_config

GOOD = {t.name: t.replies[-1] for t in load("scene")}


def _build(server, *arguments):
    flags = [f"--config.agents.llm.base_url={server.url}", "--config.agents.llm.model=fake", "--config.agents.llm.tools=false"]
    return command_line.main(["--mode=build", *flags, *arguments])


def test_a_text_becomes_a_program_and_a_picture(tmp_path, capsys):
    out = tmp_path / "ring.py"
    with fake.FakeServer(fake.says("Hm."), otherwise=fake.says(GOOD["pick_place_ring"])) as server:
        assert _build(server, "--text=an apple in a ring", f"--output={out}") == command_line.DONE
    printed, said = capsys.readouterr()
    assert out.read_text() in printed
    for expected in (
        f"the calls are recorded in {tmp_path / 'ring_calls'}",
        "question 1: asked",
        "question 1: no_program",
        "question 2: answered (",
        "question 2: accepted, repaired",
        "fake: 2 questions, 2 answered;",
    ):
        assert expected in said
    assert (tmp_path / "ring_calls" / FILE).exists()
    row = json.loads(printed.splitlines()[-1])
    assert row["accepted"] and row["counts"]["no_program"] == 1 and row["counts"]["repaired"] == 1
    assert Image.open(out.with_suffix(".png")).size == (960, 360)
    assert "an apple in a ring" in json.dumps(server.bodies[0]["messages"]) and "tools" not in server.bodies[0]
    assert command_line.main(["--mode=check", f"--program={out}"]) == command_line.DONE


def test_a_picture_is_sent_and_refusals_end_with_their_counts(tmp_path, capsys):
    picture = tmp_path / "table.jpg"
    Image.new("RGB", (2000, 40), "red").save(picture)
    with fake.FakeServer(otherwise=fake.says("```python\nresult = scene(\n```")) as server:
        code = _build(server, f"--picture={picture}", f"--output={tmp_path / 'x.py'}")
    assert code == command_line.BAD_INPUT and not (tmp_path / "x.py").exists()
    row = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert row == {"accepted": False, "counts": {"answered": 3, "fenced": 3, "rejected:syntax": 3}}
    assert "data:image/png;base64," in json.dumps(server.bodies[0]["messages"])


def test_an_answer_that_the_deadline_cut_says_what_to_change(tmp_path, capsys):
    with fake.FakeServer(otherwise=fake.stall) as server:
        code = _build(server, "--text=an apple", f"--output={tmp_path / 'x.py'}", "--config.agents.llm.deadline_s=0.5")
    said = capsys.readouterr().err
    assert code == command_line.BAD_INPUT
    assert "question 1: no answer, deadline: no answer within 0.5 s; ask a faster model, or raise config.agents.llm.deadline_s" in said
    assert f"no program was accepted; what was asked and answered stands in {tmp_path / 'x_calls' / FILE}" in said


def test_a_wait_is_heard_of():
    class Slow:
        asked: ClassVar[dict[str, Asked]] = {}

        def ask(self, requests):
            time.sleep(0.3)
            return [CallError(CallErrorKind.EMPTY, "nothing") for _ in requests]

    said: list[str] = []
    Told(Slow(), Tally(), said.append, 9.0, every_s=0.1).ask([Request("x", (), 0, 1)])  # type: ignore[arg-type]
    assert said[0] == "question 1: asked" and said[1].startswith("question 1: waiting for 0 s, at most 9 s")


def test_without_an_experiment_file_a_scene_is_built_by_the_defaults():
    config = command_line.parse(["--mode=build", "--text=an apple"]).config
    assert config is not None and config.agents.engine == "llm"


def test_two_builds_of_one_output_do_not_write_one_recording(tmp_path, capsys):
    calls = tmp_path / "x_calls"
    calls.mkdir()
    with fake.FakeServer() as server, OwnRecording(calls / FILE, 0):
        assert _build(server, "--text=an apple", f"--output={tmp_path / 'x.py'}") == command_line.BAD_INPUT
    assert f"{calls / FILE} is being written by another process" in capsys.readouterr().err and not server.seen


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\nnot one", b"\xff\xd8\xff" + b"0" * 100])
def test_files_that_are_no_pictures_are_refused(content, tmp_path):
    path = tmp_path / "x.png"
    path.write_bytes(content)
    with pytest.raises(InputError, match="picture"):
        build.picture_of(path)


def test_flags_are_checked_before_anything_starts(tmp_path):
    for arguments in ([], ["--text= "], [f"--picture={tmp_path / 'none.png'}"]):
        with pytest.raises(InputError):
            command_line.parse(["--mode=build", *arguments])


# a user's own scenes in a run


def _program(name: str) -> str:
    return GOOD[name].split("```python\n")[1].split("```")[0]


def test_own_scene_programs_are_the_first_training_scenes(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    for name in ("pick_place_ring", "articulated_door", "pick_place_spoons"):
        (own / f"{name}.py").write_text(_program(name))
    config = small_config()
    config.scenes.own_programs = str(own)
    plain = small_config()
    found = {}
    for name, chosen in (("own", config), ("plain", plain)):
        folder = tmp_path / name / "run"
        with folders.open_run(folder, chosen), opened(chosen, folder) as run, SceneSource(run) as source:
            source.more()
            found[name] = source.scenes, dict(source.rejected)
    scenes, rejected = found["own"]
    assert [s.program for s in scenes[:2]] == [_program("pick_place_ring"), _program("pick_place_spoons")]
    assert rejected["program: invalid_scene"] == 1  # the door, which no training scene of this family has
    others = {s.seed: s for s in found["plain"][0]}
    assert all(others[s.seed].spec == s.spec for s in scenes[2:])
    assert isinstance(scenes[0], seed_scenes.Scene)


def test_a_folder_that_cannot_be_used_is_refused(tmp_path):
    config = small_config()
    assert user_scenes.texts(config) == {}
    for path in (tmp_path / "none", tmp_path):
        config.scenes.own_programs = str(path)
        with pytest.raises(InputError):
            user_scenes.texts(config)


def test_a_run_goes_on_only_with_the_programs_it_began_with(tmp_path):
    own, folder = tmp_path / "own", tmp_path / "run"
    (own / "more").mkdir(parents=True)
    (own / "b.py").write_text(_program("pick_place_ring"))
    (own / "more" / "c.py").write_text(_program("pick_place_spoons"))
    config = small_config()
    config.scenes.own_programs, config.sim.worlds = str(own), 1

    def one_more():
        with folders.open_run(folder, config), opened(config, folder) as run, SceneSource(run) as source:
            source.more()
            run.charge(seed_scenes.NAME)
            run.commit(**source.store())
            return source.scenes[-1].program

    assert one_more() == _program("pick_place_ring")
    (own / "a.py").write_text(_program("pick_place_ring"))
    with pytest.raises(InputError, match=r"added: a\.py\): set it back"):
        one_more()
    with folders.open_run(folder, config), pytest.raises(InputError, match="added"):  # which ends the command with BAD_INPUT
        coevolve.run(config, folder, dry_run=False)
    (own / "a.py").unlink()
    (own / "b.py").write_text("result = 1")
    (own / "more" / "c.py").rename(own / "d.py")
    with pytest.raises(InputError, match=r"added: d\.py; removed: more/c\.py; changed: b\.py"):
        one_more()
    (own / "d.py").rename(own / "more" / "c.py")
    (own / "b.py").write_text(_program("pick_place_ring"))
    assert one_more() == _program("pick_place_spoons")


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_drawn():
    buffer = io.BytesIO()
    Image.new("1", (8000, 8000)).save(buffer, "PNG")
    with pytest.raises(ValueError, match="8000x8000 pixels, at most"):
        films.as_png(buffer.getvalue())


def test_a_scene_is_built_from_a_recording_without_naming_who_asks(tmp_path):
    flags = ["--mode=build", "--text=x", "--config.agents.llm.model=m", f"--config.agents.llm.replay={tmp_path}"]
    config = command_line.parse(flags).config
    assert config is not None and config.agents.engine == "llm"
