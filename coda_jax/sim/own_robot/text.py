"""Reading an MJCF file that nobody vouches for: of it only bodies, joints, geoms, sites, meshes and keyframes go on, and no file outside
its folder is opened. Nothing here runs MuJoCo."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

from coda_jax.foreign import read_plain
from coda_jax.sim.own_robot.errors import RobotError, shown

MAX_BYTES, MAX_MESH_BYTES = 2**20, 32 * 2**20
MAX_ELEMENTS, MAX_DEPTH = 4000, 64
MOST = {"body": 60, "geom": 200, "mesh": 120, "site": 60, "key": 20}
LONGEST_NAME = 120  # of a file, characters
MESH_SUFFIXES = (".obj", ".stl", ".msh")

_DROPPED = {"option", "size", "visual", "statistic", "custom", "actuator", "sensor", "contact"}  # the template has its own
_COUPLINGS = {"equality", "tendon"}
_KEPT: dict[str, set[str]] = {  # children that go on; those of _LEFT_OUT are dropped, any other is refused
    "default": {"default", "mesh", "material", "joint", "geom", "site"},
    "asset": {"mesh", "material"},
    "worldbody": {"body", "geom", "site", "frame"},
    "body": {"body", "geom", "site", "frame", "inertial", "joint", "freejoint"},
    "frame": {"body", "geom", "site", "frame"},
    "keyframe": {"key"},
}
_LEFT_OUT = {
    "default": {"camera", "light", "pair", "equality", "tendon", "general", "motor", "position", "velocity", "intvelocity", "damper"}
    | {"cylinder", "muscle", "adhesion"},
    "asset": {"texture"},
    "worldbody": {"camera", "light"},
    "body": {"camera", "light"},
    "frame": {"camera", "light"},
}
_COMPILER = {"angle", "eulerseq", "autolimits", "boundmass", "boundinertia", "balanceinertia", "settotalmass", "inertiafromgeom"}
_COMPILER |= {"inertiagrouprange"}
_DIRECTORIES = {"meshdir", "assetdir", "texturedir"}


@dataclasses.dataclass(frozen=True)
class Source:
    """xml: the part of the file that matters, meshes as ``files`` by name. couplings: joints that each equality or tendon ties together."""

    xml: str
    files: dict[str, bytes]
    couplings: tuple[tuple[str, ...], ...]


def read(path: Path) -> Source:
    """The MJCF in a file, reduced to what is used of it.

    Raises:
      RobotError: it is too large, no MJCF, has elements that a robot cannot have, or names files outside its folder.
    """
    root = _parsed(path)
    compiler = {k: v for e in root.findall("compiler") for k, v in e.attrib.items()}
    if compiler.get("coordinate", "local") != "local":
        raise RobotError(f"{path.name} counts in global coordinates, which MuJoCo reads no more: save it with local ones")
    made = ET.Element("mujoco")
    ET.SubElement(made, "compiler", {k: v for k, v in compiler.items() if k in _COMPILER} | {"fitaabb": "true"})
    couplings: list[tuple[str, ...]] = []
    for section in root:
        if section.tag in _COUPLINGS:
            couplings += _coupled(section)
        elif section.tag in _KEPT and section.tag not in ("body", "frame"):
            made.append(_reduced(section, path))
        elif section.tag not in _DROPPED | {"compiler"}:
            raise RobotError(f"{path.name}: <{section.tag}> cannot be part of a robot: remove it")
    for kind, most in MOST.items():
        if (found := sum(1 for _ in made.iter(kind))) > most:
            raise RobotError(f"{path.name} has {found} elements <{kind}>, at most {most}: use a simpler model")
    files = _meshes(made, path, compiler.get("meshdir", compiler.get("assetdir", "")))
    return Source(ET.tostring(made, encoding="unicode"), files, tuple(couplings))


def _parsed(path: Path) -> ET.Element:
    content = read_bytes(path, MAX_BYTES)
    try:
        root = ET.fromstring(content, ET.XMLParser(target=_Plain()))
    except _Declared:
        raise RobotError(f"{path.name} declares a document type or entities: remove the declaration") from None
    except (ET.ParseError, ValueError, LookupError) as error:
        raise RobotError(f"{path.name} is no XML ({str(error)[:80]}): save the model as MJCF") from None
    if root.tag != "mujoco":
        raise RobotError(f"{path.name} begins with <{str(root.tag)[:40]}>, not <mujoco>: convert the model to MJCF")
    for number, (depth, element) in enumerate(_walk(root)):
        if number >= MAX_ELEMENTS or depth > MAX_DEPTH:
            raise RobotError(f"{path.name} has more than {MAX_ELEMENTS} elements or {MAX_DEPTH} levels: use a simpler model")
        if element.tag == "include":
            raise RobotError(f"{path.name} includes another file: put everything into one file (MjSpec.to_xml writes it)")
    return root


class _Declared(Exception):
    """A document type is declared, in whatever encoding."""


class _Plain(ET.TreeBuilder):
    """Builds a tree; the parser calls ``doctype`` before it reads any entity."""

    def doctype(self, *_: object) -> None:
        raise _Declared


def _walk(root: ET.Element) -> Iterator[tuple[int, ET.Element]]:
    waiting = [(0, root)]
    while waiting:
        depth, element = waiting.pop()
        yield depth, element
        waiting += [(depth + 1, child) for child in element]


def read_bytes(path: Path, most: int) -> bytes:
    """The content of a plain file of at most ``most`` bytes. Raises RobotError."""
    try:
        if not path.is_file():
            raise RobotError(f"{path} is no file: give the path of one that exists")
        content = read_plain(path, most)
    except OSError as error:
        raise RobotError(f"{path} cannot be read ({error.strerror}): give a plain file that can") from error
    if len(content) > most:
        raise RobotError(f"{path.name} has more than {most / 2**20:.3g} MiB: use a simpler model")
    return content


def odd(name: str) -> bool:
    """Whether a file's name out of a foreign file is too long or too strange to stand in a message."""
    return len(name) > LONGEST_NAME or not name.isprintable()


def _reduced(element: ET.Element, path: Path) -> ET.Element:
    """A copy with only what is in _KEPT below it."""
    made = ET.Element(element.tag, dict(element.attrib))
    if element.tag == "geom" and made.get("type") == "mesh":
        made.set("type", "box")  # MuJoCo fits a box to the mesh: a template is compiled for every scene, and pictures are rays
    if element.tag == "material":
        made.attrib.pop("texture", None)
    if element.tag == "key":
        made.attrib = {k: v for k, v in made.attrib.items() if k in ("name", "qpos")}
    kept, dropped = _KEPT.get(element.tag, set()), _LEFT_OUT.get(element.tag, set())
    for child in element:
        if child.tag in kept:
            made.append(_reduced(child, path))
        elif child.tag not in dropped and not (element.tag == "material" and child.tag == "layer"):
            raise RobotError(f"{path.name}: <{str(child.tag)[:40]}> within <{element.tag}> cannot be part of a robot: remove it")
    return made


def _coupled(section: ET.Element) -> list[tuple[str, ...]]:
    """Joints that each element ties together; empty where it ties something else."""
    found = []
    for element in section:
        if section.tag == "equality":
            found.append(tuple(element.get(k, "") for k in ("joint1", "joint2")) if element.tag == "joint" else ())
        else:
            found.append(tuple(j.get("joint", "") for j in element) if element.tag == "fixed" else ())
    return found


def _meshes(made: ET.Element, path: Path, folder: str) -> dict[str, bytes]:
    """Contents of the meshes by the name that the reduced text has for them."""
    files: dict[str, bytes] = {}
    left = MAX_MESH_BYTES
    for element in made.iter():
        name = element.get("file")
        if name is None:
            continue
        if element.tag != "mesh":
            raise RobotError(f"{path.name}: <{element.tag}> reads the file {shown(name)}: only meshes may come from files, leave it out")
        base = path.parent.resolve()
        if odd(folder) or odd(name):
            raise RobotError(f"{path.name}: the mesh {shown(name)} has a long or strange name: rename file and folder")
        try:
            target = (base / folder / name).resolve()
        except (OSError, RuntimeError):  # links in a ring
            raise RobotError(f"{path.name}: the mesh {shown(name)} is a link to itself: copy the file there") from None
        if Path(name).is_absolute() or Path(folder).is_absolute() or not target.is_relative_to(base):
            raise RobotError(
                f"{path.name}: the mesh {shown(name)} lies outside the folder of the model: copy it there and name it by itself"
            )
        if target.suffix.lower() not in MESH_SUFFIXES:
            raise RobotError(f"{path.name}: the mesh {shown(name)} is no {', '.join(MESH_SUFFIXES)} file: convert it")
        content = read_bytes(target, left)
        left -= len(content)
        if element.get("name") is None:
            element.set("name", Path(name).stem)
        short = f"mesh{len(files)}{target.suffix.lower()}"
        element.set("file", short)
        files[short] = content
    return files
