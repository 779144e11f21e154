"""The JSON record beside an MJCF that says which of its parts are what, and the fingerprint of both; imports neither jax nor MuJoCo."""

from __future__ import annotations

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
        first = error.errors()[0]
        where = shown(".".join(map(str, first["loc"])))[1:-1]
        raise RobotError(f"{path}: {where or 'the text'}: {first['msg']}: docs/own_robot.md shows a whole record") from error
    if record.format != FORMAT:
        raise RobotError(f"{path} has format {record.format}: this version reads {FORMAT}")
    if Path(record.mjcf).name != record.mjcf or odd(record.mjcf):
        raise RobotError(f"{path}: mjcf is {shown(record.mjcf)}: put the model beside the record and give its file name alone")
    return record


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
