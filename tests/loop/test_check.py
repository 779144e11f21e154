"""Every kind of bad program ends in one line that says what to change, and a good one passes physics too."""

import json
import os
import re

import pytest

from coda_jax import config as settings
from coda_jax.loop import check
from coda_jax.loop.check_training import proof
from coda_jax.runtime import InputError
from coda_jax.scenes.families import unregister
from tests import own_family

GOOD = """result = scene(
    instruction="put the red mug on the plate",
    objects=[
        thing("mug_1", asset="mug_00", at=(0.45, 0.1), role="target", colour="red"),
        thing("plate_1", category="plate", instance=1, at=(0.55, -0.1), role="reference"),
    ],
    goal=on("mug_1", "plate_1"),
)
"""
BAD = {
    "syntax": (GOOD[:-3], "syntax", "correct the text"),
    "unknown_asset": (GOOD.replace("mug_00", "unicorn_07"), "unknown_asset", "no 'unicorn_07'"),
    "nan": (GOOD.replace("0.45", 'float("nan")'), "invalid_scene", "not nan"),
    "overlap": (GOOD.replace("0.55, -0.1", "0.46, 0.1"), "invalid_penetration", "move it"),
    "outside": (GOOD.replace("0.45, 0.1", "0.79, 0.49"), "invalid_workspace", "move it 0.040 m along -x"),
    "endless": ("while True: pass", "limit_time", "bound every loop"),
    "flood": ('print("x" * 10_000_000)', "limit_output", "remove print()"),
    "large_value": ('result = "x" * 10_000_000', "not_data", "return less"),
    "other_words": (GOOD.replace("on the plate", "next to the plate"), "invalid_names", "asks for 'beside'"),
    "held_out_phrasing": (
        GOOD.replace("put the red mug on the plate", "please let the red mug rest-on the plate"),
        "held_out_instruction",
        "a phrasing that is held out for test",
    ),
    "held_out_noun": (GOOD.replace("on the plate", "on the plate, goblet"), "held_out_instruction", "names a goblet"),
    "generation": (
        'result = generation(factor="spatial", roles=[], edits=[edit("yaw")])',
        "invalid_generation",
        "give 1 to 5, each made with role",
    ),
    "goal": (GOOD.replace('goal=on("mug_1", "plate_1")', 'goal=at_least(lifted("mug_1"), 1.5)'), "invalid_scene", "none of pick_place"),
    "held_out": (
        GOOD.replace('asset="mug_00"', 'category="pear"').replace("red mug", "pear").replace(', colour="red"', ""),
        "held_out_category",
        "held out for validation",
    ),
}


TRAINING = """up = at_least(lifted("target"), 0.04)
result = training(
    subgoal("lifted", done=up, progress=ramp(lifted("target"), 0, 0.04)),
    subgoal("placed", done=success(), progress=ramp(horizontal_distance("target", "reference"), 0.35, 0)),
)
"""
GENERATION = 'result = generation(factor="spatial", roles=[role("target")], edits=[edit("yaw", low=0.2)], level=0.5)\n'


@pytest.fixture
def config():
    chosen = settings.default()
    chosen.sandbox.time_s, chosen.sim.worlds = 0.3, 4
    return chosen


def test_every_bad_program_is_refused_with_its_reason(tmp_path, config, capsys):
    for name, (text, _, _) in BAD.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "good.py").write_text(GOOD)
    assert not check.run(config, tmp_path)
    rows = {row["program"].rsplit("/", 1)[1][:-3]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows.pop("good")["accepted"]
    assert list(rows) == sorted(BAD)
    for name, row in rows.items():
        assert (row["accepted"], row["kind"]) == (False, BAD[name][1])
        assert BAD[name][2] in row["reason"], row


def test_a_good_program_alone_is_accepted(tmp_path, config, capsys):
    (tmp_path / "good.py").write_text(GOOD)
    assert check.run(config, tmp_path / "good.py")
    assert json.loads(capsys.readouterr().out)["scene_id"]


def test_a_pipe_is_refused_and_not_waited_for(config, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe.py")
    assert not check.run(config, tmp_path / "pipe.py")
    assert "no plain file" in json.loads(capsys.readouterr().out)["reason"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (GOOD, "scene"),
        (GENERATION, "generation"),
        (TRAINING, "training"),
        ("made = training(sparse())\nresult = made\n", "training"),
        ("# not training(...)\n" + GOOD, "scene"),
        ("result = 3", "scene"),
    ],
)
def test_the_kind_of_a_program_is_seen(text, kind):
    assert check.kind_of(text) == kind


def test_training_and_generation_programs(tmp_path, config, capsys):
    """The lift that is lost in the lowering is refused, with the text of a program that passes; that text is accepted."""
    config.potential.gate_demos = 3
    config.sandbox.time_s = 1.0
    texts = {
        "dense": 'result = training(dense(grasped("target"), weight=0.01))\n',
        "generation": GENERATION,
        "hostile": TRAINING.replace("success()", "goal()"),
        "sparse": "result = training(sparse())\n",
        "trap": TRAINING,
        "wrong_verb": GENERATION.replace('"yaw"', '"mass"'),
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert not check.run(config, tmp_path)
    rows = {row["program"].rsplit("/", 1)[1][:-3]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert {name: row["accepted"] for name, row in rows.items()} == {
        "dense": True, "generation": True, "hostile": False, "sparse": True, "trap": False, "wrong_verb": False,
    }  # fmt: skip
    assert rows["generation"]["verbs"] == ["yaw"] and rows["wrong_verb"]["kind"] == "invalid_generation"
    assert (rows["dense"]["training"], rows["sparse"]["training"]) == ("dense", "sparse")
    assert rows["hostile"]["kind"] == "invalid_training" and "must be done=success()" in rows["hostile"]["reason"]
    trap = rows["trap"]
    assert trap["kind"] == "gate_falls" and "subgoals[0] 'lifted' is lost in demonstration" in trap["reason"]
    assert trap["certificate"]["holds"] and trap["certificate"]["deviation"] < 1e-12
    (tmp_path / "mended.py").write_text(trap["repair"])
    assert check.run(config, tmp_path / "mended.py")
    row = json.loads(capsys.readouterr().out)
    assert row["accepted"] and row["subgoals"] == ["lifted", "placed"] and row["program_id"] != trap["program_id"]


def test_a_word_of_ones_own_asset_is_known_with_its_folder(config, tmp_path, capsys):
    program = tmp_path / "anvil.scene"
    hint = "--config.scenes.own_assets=FOLDER"
    for text in (GOOD.replace("mug_1", "anvil_1"), GOOD.replace("red mug", "red anvil"), GOOD.replace("mug_00", "anvil_00")):
        program.write_text(text)
        config.scenes.own_assets = ""
        assert not check.run(config, program) and hint in json.loads(capsys.readouterr().out)["reason"]
        config.scenes.own_assets = "elsewhere"  # named already: it does not hold this one
        assert not check.run(config, program) and hint not in json.loads(capsys.readouterr().out)["reason"]
    program.write_text(GOOD[:-3])
    config.scenes.own_assets = ""
    assert not check.run(config, program) and hint not in json.loads(capsys.readouterr().out)["reason"]


def test_settings_of_the_critic_reach_the_certificate(config):
    found = []
    for name, value in (("gamma", 0.8), ("beta", 0.3), ("gamma_unit", "chunk"), ("backup", "softmax")):
        changed = config.copy_and_resolve_references()
        changed.critic.update({"gamma": 0.9, "beta": 0.5, "backup": "max"})  # the smaller gamma, the sooner it is solved
        changed.critic[name] = value
        row = proof(changed.critic, 2)
        assert row["holds"] and row["deviation"] < 1e-12
        found.append((row["lowest"], row["highest"]))
    assert len(set(found)) == 4


def test_programs_of_a_family_of_ones_own(repository, tmp_path, monkeypatch, capsys):
    own_family.save(repository, tmp_path, monkeypatch, "check_tasks", "gather_checked")
    config = settings.default()
    config.sim.worlds, config.own_families, config.family = 1, "check_tasks", "gather_checked"
    program = tmp_path / "scene.scene"
    text = GOOD.replace("put the red mug on the plate", "bring the red mug over to the plate").replace("0.55, -0.1", "0.55, -0.2")
    text = text.replace('category="plate", instance=1', 'category="can"').replace("plate", "can")
    goal = 'family="gather_checked", goal=at_most(horizontal_distance("mug_1", "can_1"), 0.16)'
    program.write_text(text.replace('goal=on("mug_1", "can_1")', goal))
    try:
        assert check.run(config, program)
        assert json.loads(capsys.readouterr().out)["family"] == "gather_checked"
    finally:
        unregister("gather_checked")


def test_the_programs_of_the_page(repository, tmp_path, config, capsys):
    """The first passes, the trap falls."""
    page = (repository / "docs" / "training_programs.md").read_text()
    for name, text in zip(("first", "trap"), re.findall(r"```python\n(.*?)```", page, re.S), strict=True):
        (tmp_path / f"{name}.py").write_text(text)
    assert not check.run(config, tmp_path)
    first, trap = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["accepted"] and trap["kind"] == "gate_falls" and "is lost in demonstration" in trap["reason"]


def test_a_file_of_another_kind_is_no_program(tmp_path):
    (tmp_path / "notes.md").write_text("# notes")
    with pytest.raises(InputError, match=r"notes.md is no program: the names of programs end with .py, .scene, .txt"):
        check.program_files(tmp_path / "notes.md")
