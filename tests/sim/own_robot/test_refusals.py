"""Models that nobody should simulate: each is refused in one sentence that names the part and says what to change."""

import dataclasses
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from coda_jax.sim.own_robot import record as record_module
from coda_jax.sim.own_robot import text
from coda_jax.sim.own_robot.errors import RobotError
from coda_jax.sim.own_robot.load import robot_from_mjcf, robot_of
from coda_jax.sim.own_robot.record import files_of, fingerprint, read_record
from tests.sim.own_robot.arms import EXAMPLE, EXAMPLE_PARTS

XML = EXAMPLE.read_text()
RECORD = json.loads(EXAMPLE.with_suffix(".json").read_text())
PAN = '<joint name="pan" axis="0 0 1"/>'
END = "</mujoco>"


def refused(tmp_path, xml: str, **parts) -> str:
    path = tmp_path / "arm.xml"
    path.write_text(xml)
    with pytest.raises(RobotError) as error:
        robot_from_mjcf(path, **EXAMPLE_PARTS | parts)
    message = str(error.value)
    assert message.isprintable() and len(message) < 400 and ":" in message  # what is wrong: what to change
    return message


# what is replaced in the example, by what, and what the refusal says; none of these gets as far as MuJoCo
TEXTS = {
    "entity": (
        '<mujoco model="six_joint_arm">', '<!DOCTYPE m [<!ENTITY a "aaaa">]><mujoco model="six_joint_arm">',
        "remove the declaration",
    ),
    "global": ('angle="degree"', 'angle="degree" coordinate="global"', "global coordinates"),
    "strange mesh": ("<worldbody>", '<asset><mesh file="a&#10;b.obj"/></asset><worldbody>', "rename file"),
    "long mesh": ("<worldbody>", f'<asset><mesh file="{"a" * 500}.obj"/></asset><worldbody>', "rename file"),
    "not xml": (END, "", "is no XML"),
    "urdf": ("mujoco", "robot", "convert the model to MJCF"),
    "include": (END, '<include file="/etc/passwd"/></mujoco>', "includes another file"),
    "nested include": (PAN, f'{PAN}<include file="more.xml"/>', "includes another file"),
    "plugin": (END, '<extension><plugin plugin="mujoco.sdf.bolt"/></extension></mujoco>', "<extension> cannot be part"),
    "plugin of a body": (PAN, f'{PAN}<plugin plugin="x"/>', "<plugin> within <body>"),
    "composite": (PAN, f'{PAN}<composite type="cable" count="1000000 1 1"/>', "<composite> within <body>"),
    "replicate": (PAN, f'{PAN}<replicate count="1000000"><geom size="1"/></replicate>', "<replicate> within <body>"),
    "height field": (
        "<worldbody>", '<asset><hfield name="h" nrow="2" ncol="2" size="1 1 1 1"/></asset><worldbody>',
        "<hfield> within <asset>",
    ),
    "model": ("<worldbody>", '<asset><model name="m" file="/etc/passwd"/></asset><worldbody>', "<model> within <asset>"),
    "far mesh": ("<worldbody>", '<asset><mesh file="/etc/passwd.obj"/></asset><worldbody>', "outside the folder"),
    "mesh above": ("<worldbody>", '<asset><mesh file="../../secret.obj"/></asset><worldbody>', "outside the folder"),
    "far folder": ("<worldbody>", '<compiler meshdir="/etc"/><asset><mesh file="a.obj"/></asset><worldbody>', "outside the folder"),
    "no mesh": ("<worldbody>", '<asset><mesh file="passwd"/></asset><worldbody>', "convert it"),
    "mesh gone": ("<worldbody>", '<asset><mesh file="gone.obj"/></asset><worldbody>', "is no file"),
    "many bodies": (PAN, PAN + "<body/>" * 60, "elements <body>, at most 60"),
    "many geoms": (PAN, PAN + '<geom size="1"/>' * 200, "elements <geom>, at most 200"),
    "deep": (PAN, PAN + "<body>" * 70 + "</body>" * 70, "64 levels"),
    "long": (PAN, PAN + "<light/>" * 5000, "4000 elements"),
    "large": (PAN, PAN + " " * text.MAX_BYTES, "more than 1 MiB"),
}  # fmt: skip


@pytest.mark.parametrize("case", TEXTS)
def test_texts(tmp_path, monkeypatch, case):
    monkeypatch.setattr("coda_jax.sim.own_robot.load.facts_of", lambda *a: pytest.fail("MuJoCo was asked"))
    old, new, says = TEXTS[case]
    assert old in XML
    assert says in refused(tmp_path, XML.replace(old, new))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_no_encoding_hides_a_declaration(tmp_path, encoding):
    path = tmp_path / "arm.xml"
    head = f'<?xml version="1.0" encoding="{encoding}"?>'
    path.write_bytes((head + '<!DOCTYPE m [<!ENTITY a "aaaa">]><mujoco model="&a;"/>').encode(encoding))
    with pytest.raises(RobotError, match="remove the declaration"):
        text.read(path)
    path.write_bytes((head + "<mujoco><worldbody/></mujoco>").encode(encoding))
    assert "worldbody" in text.read(path).xml


HAND_AXIS = '<joint name="jaw_left" type="slide" axis="0 1 0" range="0 0.045"/>'
PALM = '<geom type="box" size="0.03 0.08 0.04" pos="0 0 0.04" mass="0.6"/>'
MODELS = {
    "no limits": (
        '<joint name="elbow" axis="0 1 0" range="-170 170"/>', '<joint name="elbow" axis="0 1 0" limited="false"/>',
        "has no limits",
    ),
    "five joints": (PAN, "", "5 joints lead to the hand"),
    "slide in the arm": (PAN, '<joint name="pan" type="slide" axis="0 0 1" range="0 1"/>', "of type slide"),
    "ball": (PAN, '<joint name="pan" type="ball" range="0 90"/>', "of type ball"),
    "free": ('<body name="pedestal">', '<body name="pedestal"><freejoint/>', "of type free"),
    "two joints in a body": (PAN, f'{PAN}<joint name="more" axis="1 0 0"/>', "has two joints"),
    "a joint beside": (
        "</worldbody>", '<body name="lamp"><joint name="lamp"/><geom size="0.1"/></body></worldbody>',
        "neither in the arm nor a finger",
    ),
    "hinged finger": (HAND_AXIS, '<joint name="jaw_left" axis="1 0 0" range="0 45"/>', "by one slide joint"),
    "tendon in the arm": (
        "<equality>", '<tendon><fixed><joint joint="pan" coef="1"/></fixed></tendon><equality>',
        "other than the two finger joints",
    ),
    "weld": ("<equality>", '<equality><weld body1="gripper" body2="pedestal"/>', "other than the two finger joints"),
    "fingers askew": (HAND_AXIS, HAND_AXIS.replace("0 1 0", "0.2 1 0"), "parallel"),
    "opens too little": ('range="0 0.045"', 'range="0 0.03"', "0.04 m on each side"),
    "does not close": ('range="0 0.045"', 'range="0.01 0.045"', "let it reach the middle"),
    "site too high": ('pos="0 0 0.125"', 'pos="0 0 0.09"', "move the site along its z axis by +0.0350 m"),
    "site askew": ('pos="0 0 0.125"', 'pos="0 0 0.125" euler="30 0 0"', "turn the site"),
    "site looks at the palm": ('pos="0 0 0.125"', 'pos="0 0 0.125" euler="180 0 0"', "past site"),
    "wide pads": ('size="0.009 0.005 0.02"', 'size="0.02 0.005 0.02"', "use smaller pads"),
    "no pads": (
        '<default class="pad">\n      <geom', '<default class="pad">\n      <geom contype="0" conaffinity="0"',
        "no geom that collides",
    ),
    "large palm": (PALM, PALM.replace("0.08", "0.2"), "use a smaller palm"),
    "near palm": (PALM, PALM.replace('pos="0 0 0.04"', 'pos="0 0 0.06"'), "longer fingers"),
    "weightless": ('size="0.06 0.065" mass="3.7"', 'size="0.06 0.065" mass="0.0005"', "weighs 0.0005 kg"),
    "heavy": ('mass="8.3"', 'mass="800"', "weighs 800 kg"),
    "not a number": ('pos="0.392 0 0"', 'pos="nan 0 0"', "not finite"),
    "far away": ('pos="0.392 0 0"', 'pos="1e9 0 0"', "not finite or beyond"),
    "reversed": ("-170 170", "170 -170", "the lower end first"),
    "mass far away": (PAN, f'{PAN}<inertial pos="30 0 0" mass="1" diaginertia="1 1 1"/>', "lies 30 m from it"),
    "inertia of another unit": (PAN, f'{PAN}<inertial pos="0 0 0" mass="1" diaginertia="900 900 900"/>', "lies 30 m from it"),
    "mujoco refuses": (PAN, '<joint name="pan" axis="0 0 0"/>', "MuJoCo refuses"),
    "short arm": ("0.425", "0.1", "give a home posture nearer"),
    "plane": ('<body name="turret"', '<geom type="plane" size="1 1 1"/><body name="turret"', "of type plane"),
}  # fmt: skip


@pytest.mark.parametrize("case", MODELS)
def test_models(tmp_path, monkeypatch, case):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    old, new, says = MODELS[case]
    assert old in XML
    assert says in refused(tmp_path, XML.replace(old, new))
    assert not list(here.iterdir())  # such as a log of MuJoCo


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"grip_site": "nowhere"}, "there is no site 'nowhere' (there are: 'between_tips')"),
        ({"hand_body": "fist"}, "hand_body names the body 'fist'"),
        ({"fingers": ("jaw_left", "thumb")}, "fingers names the body 'thumb'"),
        ({"fingers": ("jaw_left", "jaw_left")}, "between two fingers"),
        ({"fingers": ("jaw_left", "forearm")}, "by one slide joint"),
        ({"hand_body": "forearm"}, "must hang on the hand"),
        ({"home": (0.0,) * 5}, "home has 5 values: give 6"),
        ({"home": (0.0, -1.6, float("nan"), 1.2, 0, 0)}, "home has 6 values"),
        ({"home": (0.0, -92.0, 115.0, 69.0, 0.0, 90.0)}, "home turns joint 'lift' to -92 rad, beyond its -6.28 to 6.28"),
        ({"home": ("a",) * 6}, "give 6 joint angles"),
        ({"home": "ready"}, "no keyframe 'ready' (there are: none)"),
        ({"home": (0.0, 1.5, -2.0, 1.9, 0.0, 1.57)}, "with the elbow up"),
        ({"stiffness": (100.0,) * 5}, "stiffness has 5 values"),
        ({"stiffness": (-1.0,) * 6}, "each of 10 to 100000"),
        ({"name": "panda"}, "cannot be called 'panda'"),
        ({"name": "../arm"}, "cannot be called"),
    ],
)
def test_what_is_said_of_the_model(tmp_path, parts, says):
    assert says in refused(tmp_path, XML, **parts)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 2}, "format 2"),
        ({"mjcf": "../arm.xml"}, "beside the record"),
        ({"mjcf": "/etc/passwd"}, "beside the record"),
        ({"mjcf": "a\nb.xml"}, "beside the record"),
        ({"mjcf": "a" * 500}, "beside the record"),
        ({"a\nb" * 500: 1}, "is unknown"),
        ({"mjcf": "gone.xml"}, "is no file"),
        ({"home": [0.0, "1"]}, "home"),
        ({"fingers": ["one"]}, "fingers"),
        ({"speed": 1}, "json: 'speed' is unknown: docs"),
        ({"gripsite": "grip"}, "json: 'gripsite' is unknown, did you mean grip_site"),
        ({"home": [0.0, "1"], "Fingers": 1}, "home must be a list of joint angles in rad, .*; 'Fingers' is unknown, did you mean fingers"),
        ({"stiffness": [float("inf")] * 6}, "stiffness"),
    ],
)
def test_records(tmp_path, change, says):
    path = tmp_path / "arm.json"
    path.write_text(json.dumps(RECORD | change))
    with pytest.raises(RobotError, match=says):
        fingerprint(path)
    with pytest.raises(RobotError, match=says) as error:
        robot_of(path)
    assert str(error.value).isprintable() and len(str(error.value)) < 400


def test_a_misspelt_field_is_not_called_missing_too(tmp_path):
    path = tmp_path / "arm.json"
    renamed = {"gripsite" if name == "grip_site" else name: value for name, value in RECORD.items() if name != "home"}
    path.write_text(json.dumps(renamed))
    with pytest.raises(RobotError, match=r"json: 'gripsite' is unknown, did you mean grip_site\?; home is missing, a list") as error:
        read_record(path)
    assert "grip_site is missing" not in str(error.value)
    path.write_text("{")
    with pytest.raises(RobotError, match="json: the text is no JSON object"):
        read_record(path)
    assert set(record_module._TAKES) == {f.name for f in dataclasses.fields(record_module.Record)}


def test_a_record_says_what_the_call_says(tmp_path):
    for name in ("six_joint_arm.json", "six_joint_arm.xml"):
        (tmp_path / name).write_text((EXAMPLE.parent / name).read_text())
    record = tmp_path / "six_joint_arm.json"
    robot = robot_of(record)
    assert robot.name == "six_joint_arm"
    np.testing.assert_allclose(robot.home_rad, robot_from_mjcf(EXAMPLE, **EXAMPLE_PARTS).home_rad, atol=1e-4)
    assert read_record(record).fingers == ("jaw_left", "jaw_right")
    before = fingerprint(record)
    (tmp_path / "six_joint_arm.xml").write_text(XML.replace("<!--", "<!-- of mine:", 1))
    files_of.cache_clear()  # as in another process
    assert fingerprint(record) == before  # a comment is no part of the robot
    (tmp_path / "six_joint_arm.xml").write_text(XML.replace('mass="8.3"', 'mass="8.4"'))
    assert fingerprint(record) == before  # and what acts in this process is what was read
    files_of.cache_clear()
    assert fingerprint(record) != before


def test_meshes_become_boxes_and_nothing_outside_the_file_is_read(tmp_path):
    corners = [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    faces = ["1 2 4", "1 4 3", "5 7 8", "5 8 6", "1 5 6", "1 6 2", "3 4 8", "3 8 7", "1 3 7", "1 7 5", "2 6 8", "2 8 4"]
    obj = (
        "mtllib /etc/passwd\n"
        + "".join(f"v {0.03 * x} {0.02 * y} {0.05 * z}\n" for x, y, z in corners)
        + "".join(f"f {f}\n" for f in faces)
    )
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "block.obj").write_text(obj)
    xml = XML.replace('<compiler angle="degree"/>', '<compiler angle="degree" meshdir="parts"/><asset><mesh file="block.obj"/></asset>')
    xml = xml.replace(PAN, f'{PAN}<geom type="mesh" mesh="block" contype="0" conaffinity="0"/>')
    (tmp_path / "arm.xml").write_text(xml)
    robot = robot_from_mjcf(tmp_path / "arm.xml", **EXAMPLE_PARTS)
    boxes = [part.split('"')[1].split() for part in robot.bodies_xml.split('type="box" size=')[1:]]
    assert any(sorted(map(float, box)) == pytest.approx((0.02, 0.03, 0.05)) for box in boxes)
    assert "mesh" not in robot.bodies_xml
    (tmp_path / "parts" / "block.obj").write_bytes(b"\x00\xff" * 1000)
    with pytest.raises(RobotError, match="MuJoCo"):
        robot_from_mjcf(tmp_path / "arm.xml", **EXAMPLE_PARTS)


def test_a_link_out_of_the_folder_is_no_way_out(tmp_path):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "secret.obj").write_text("v 0 0 0")
    (inside / "mine.obj").symlink_to(outside / "secret.obj")
    assert "outside the folder" in refused(inside, XML.replace("<worldbody>", '<asset><mesh file="mine.obj"/></asset><worldbody>'))


def test_a_mesh_that_links_to_itself(tmp_path):
    (tmp_path / "m.obj").symlink_to(tmp_path / "m.obj")
    assert "copy the file" in refused(tmp_path, XML.replace("<worldbody>", '<asset><mesh file="m.obj"/></asset><worldbody>'))


@pytest.mark.skipif(not Path("/proc/self/pagemap").exists(), reason="needs a file that claims to be empty")
def test_a_file_larger_than_it_claims(tmp_path):
    (tmp_path / "arm.xml").symlink_to("/proc/self/pagemap")
    with pytest.raises(RobotError, match="more than 1 MiB"):
        text.read(tmp_path / "arm.xml")


def test_a_file_that_became_a_pipe(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "arm.xml")
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    with pytest.raises(RobotError, match="it is no plain file"):
        text.read(tmp_path / "arm.xml")


def test_a_keyframe_without_numbers(tmp_path):
    key = '<keyframe><key name="ready" qpos="nan 0 0 0 0 0 0 0"/></keyframe></mujoco>'
    assert "keyframe 'ready' has an angle that is no number" in refused(tmp_path, XML.replace(END, key), home="ready")


def test_from_any_folder_and_leaving_nothing_there(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    refused(tmp_path, XML.replace('pos="0.392 0 0"', 'pos="nan 0 0"'))  # of which MuJoCo writes a log
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_total_mass_is_the_models(tmp_path):
    (tmp_path / "arm.xml").write_text(XML.replace('angle="degree"', 'angle="degree" settotalmass="9"'))
    robot = robot_from_mjcf(tmp_path / "arm.xml", **EXAMPLE_PARTS)
    assert sum(float(m) for m in re.findall(r' mass="([^"]+)" diaginertia', robot.bodies_xml)) < 9
