"""The JSON record beside an MJCF that says which of its parts are what, and the fingerprint of both; imports neither jax nor MuJoCo."""

from __future__ import annotations

import difflib
import functools
import hashlib
import re
from pathlib import Path

import pydantic
from pydantic import ConfigDict, TypeAdapter

from coda_jax.sim.own_robot.errors import RobotError, shown
from coda_jax.sim.own_robot.text import Source, odd, read, read_bytes

FORMAT = 1
_BYTES = 64 * 2**10
_NAME = re.compile(r"^[a-z][a-z0-9_]{0,30}$")
_BUILT_IN = "panda"


@pydantic.dataclasses.dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False))
class Record:
    """mjcf: name of the file beside the record. home: joint angles as the model counts them (rad), or the name of a keyframe.

    grip_site, hand_body, fingers, stiffness: as in ``load.robot_from_mjcf``. format: FORMAT.
    """

    format: int
    mjcf: str
    grip_site: str
    hand_body: str
    fingers: tuple[str, str]
    home: tuple[float, ...] | str
    stiffness: tuple[float, ...] | None = None


_TAKES = {
    "format": f"the number {FORMAT}",
    "mjcf": "the name of the model's file",
    "grip_site": "the name of a site",
    "hand_body": "the name of a body",
    "fingers": "the names of two bodies, the left finger's first",
    "home": "a list of joint angles in rad, or the name of a keyframe",
    "stiffness": "a list of numbers in N m/rad, one for each joint",
}
_ADAPTER: TypeAdapter[Record] = TypeAdapter(Record)


def check_name(name: str) -> None:
    """Raises RobotError where a robot cannot be called so."""
    if not _NAME.match(name) or name == _BUILT_IN:
        raise RobotError(
            f"a robot cannot be called {shown(name)}: use small letters, digits and _, beginning with a letter, and not {_BUILT_IN}"
        )


def read_record(path: Path) -> Record:
    """The record in a file; the robot is called like it.

    Raises:
      RobotError: the file is no such record; the message names the field.
    """
    check_name(path.stem)
    try:
        record = _ADAPTER.validate_json(read_bytes(path, _BYTES))
    except pydantic.ValidationError as error:
        raise RobotError(f"{path}: {_said(error)}: docs/own_robot.md shows a whole record") from error
    if record.format != FORMAT:
        raise RobotError(f"{path} has format {record.format}: this version reads {FORMAT}")
    if Path(record.mjcf).name != record.mjcf or odd(record.mjcf):
        raise RobotError(f"{path}: mjcf is {shown(record.mjcf)}: put the model beside the record and give its file name alone")
    return record


def _said(error: pydantic.ValidationError) -> str:
    """What is wrong with a record's text, field by field, the first few."""
    found = error.errors(include_url=False, include_context=False)
    wrong = {e["loc"][0]: e["type"] for e in reversed(found) if e["loc"]}  # of each field the first thing
    if not wrong:
        return "the text is no JSON object of this kind"
    missing, said = [name for name in _TAKES if wrong.get(name) == "missing"], []
    for name, kind in reversed(wrong.items()):
        if name not in _TAKES:
            guess = difflib.get_close_matches(str(name), missing or list(_TAKES), n=1)
            said.append(f"{shown(name)} is unknown" + (f", did you mean {guess[0]}?" if guess else ""))
            missing = [m for m in missing if m not in guess]
        elif kind != "missing":
            said.append(f"{name} must be {_TAKES[str(name)]}")
    said += [f"{name} is missing, {_TAKES[name]}" for name in missing]
    return "; ".join(said[:3])


@functools.cache
def files_of(path: Path) -> tuple[Record, Source]:
    """A record and its model as this process read them first, so that what is fingerprinted is what acts, whatever becomes of the files.

    Args:
      path: absolute, of the record.

    Raises:
      RobotError: as ``read_record`` and ``text.read``.
    """
    record = read_record(path)
    return record, read(path.parent / record.mjcf)


def fingerprint(path: Path) -> str:
    """SHA-256 of a record with all that is used of its model, in hex. Arguments and errors: as ``files_of``."""
    record, source = files_of(path)
    contents = hashlib.sha256(repr((record, source.couplings)).encode())
    for content in (source.xml.encode(), *(source.files[name] for name in sorted(source.files))):
        contents.update(hashlib.sha256(content).digest())
    return contents.hexdigest()
