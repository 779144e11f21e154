"""A user's own assets: the record that ``import_mesh`` writes, read back with everything checked, and made known to the catalogue."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path

import pydantic
from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from coda_jax.foreign import read_plain
from coda_jax.scenes.assets import SHAPES, Asset
from coda_jax.scenes.catalogue import CATEGORIES, register
from coda_jax.scenes.language import COLOURS
from coda_jax.scenes.ranges import RESERVED_NAMES
from coda_jax.scenes.shapes.build import MAX_ABOVE_GRIP_M, MAX_GRASP_WIDTH_M, MIN_GRIP_HEIGHT_M, bounding_box
from coda_jax.scenes.words import strange_instruction_word

MAX_BYTES = 256 * 2**10
FORMAT = 1
_CATEGORY = re.compile(r"^[a-z]{3,20}$")
SIDES_M = (0.002, 0.3)
_CONFIG = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class OwnAssetError(ValueError):
    """A record that cannot be used; the message names the field and what to change."""


@dataclass(frozen=True, config=_CONFIG)
class Provenance:
    """Where an asset comes from. sha256: of the mesh file. overlap: how well the primitives fill the mesh, 0..1. solid_m3: its volume."""

    file: str
    sha256: str
    source: str
    licence: str
    density_kg_m3: float
    solid_m3: float
    overlap: float


@dataclass(frozen=True, config=_CONFIG)
class OwnAsset:
    """An asset with where it comes from; ``format`` is FORMAT."""

    format: int
    asset: Asset
    provenance: Provenance


_ADAPTER: TypeAdapter[OwnAsset] = TypeAdapter(OwnAsset)


def check_category(name: str) -> None:
    """Refuse what cannot name a thing in an instruction.

    Raises:
      OwnAssetError: it is not one word of small letters, or means something already.
    """
    if not _CATEGORY.match(name):
        raise OwnAssetError(f"category {name!r}: use one word of 3 to 20 letters a to z, such as duck")
    if name in CATEGORIES or name in COLOURS or name in RESERVED_NAMES or strange_instruction_word(name, ()) is None:
        raise OwnAssetError(f"category {name!r} has a meaning in instructions already: use another noun")


def check_asset(asset: Asset) -> None:
    """Refuse an asset that the simulation or the planner could not use.

    Raises:
      OwnAssetError: the first finding.
    """
    check_category(asset.category)

    def need(holds: bool, message: str) -> None:
        if not holds:
            raise OwnAssetError(f"{asset.asset_id[:40]}: {message}")

    need(re.fullmatch(rf"{asset.category}_\d\d", asset.asset_id) is not None, f"the id must be {asset.category}_00 to {asset.category}_99")
    need(asset.kind in ("object", "support"), f"kind {asset.kind!r}: use object or support")
    need(asset.split == "train", "own assets belong to training: split must be train")
    need(1 <= len(asset.primitives) <= 6, f"{len(asset.primitives)} primitives: 1 to 6 fit a slot")
    for p in asset.primitives:
        sizes = {"box": p.size_m, "ellipsoid": p.size_m, "sphere": p.size_m[:1]}.get(p.shape, p.size_m[:2])
        need(p.shape in SHAPES, f"shape {p.shape!r}: use one of {', '.join(SHAPES)}")
        need(all(0.0005 <= s <= 0.5 for s in sizes), f"a {p.shape} of size {p.size_m} m: sizes lie between 0.0005 and 0.5")
        need(abs(math.hypot(*p.quat_wxyz) - 1) < 1e-4, "a quaternion is not of unit length")
        need(max(map(abs, p.pos_m)) <= 0.5, "a primitive lies more than 0.5 m from the centre")
    low, high = bounding_box(asset.primitives)
    need(
        all(abs(h - e) < 1e-4 and abs(v + e) < 1e-4 for v, h, e in zip(low, high, asset.half_extent_m, strict=True)),
        "half_extent_m is not the box around the primitives, centred on the origin",
    )
    need(
        all(SIDES_M[0] <= 2 * e <= SIDES_M[1] for e in asset.half_extent_m),
        f"its sides must lie between {SIDES_M[0]} and {SIDES_M[1]} m",
    )
    need(0.005 <= asset.mass_kg <= 2.0, f"mass {asset.mass_kg} kg: 0.005 to 2 are fair")
    need(bool(asset.colours) and set(asset.colours) <= COLOURS.keys(), f"colours: use some of {', '.join(COLOURS)}")
    affords = ("graspable",) if asset.kind == "object" else ("supports",)
    need(asset.affordances == affords, f"affordances of a {asset.kind}: {affords[0]}")
    need(bool(asset.grasps) == (asset.kind == "object"), "an object needs grasps, a support has none")
    hz = asset.half_extent_m[2]
    for g in asset.grasps:
        need(0.01 <= g.width_m <= MAX_GRASP_WIDTH_M, f"a grasp is {g.width_m} m wide: 0.01 to {MAX_GRASP_WIDTH_M}")
        height = hz + g.pos_m[2]
        need(
            height >= MIN_GRIP_HEIGHT_M - 1e-3 and hz - g.pos_m[2] <= MAX_ABOVE_GRIP_M + 1e-3,
            "a grasp is too low, or the palm hits the top",
        )


def to_json(own: OwnAsset) -> str:
    """The record as it is written to a file."""
    return json.dumps(dataclasses.asdict(own), indent=1, sort_keys=True) + "\n"


def from_json(text: str | bytes) -> OwnAsset:
    """A record, strictly validated.

    Raises:
      OwnAssetError: not this format, a field is missing, unknown, of another type or not finite, or the asset cannot be used.
    """
    try:
        own = _ADAPTER.validate_json(text)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise OwnAssetError(f"{where or 'the text'}: {first['msg']}: write the file with python -m coda_jax.loop.import_mesh") from error
    if own.format != FORMAT:
        raise OwnAssetError(f"format {own.format}: this version reads {FORMAT}: import the mesh again")
    check_asset(own.asset)
    return own


def read(path: Path) -> OwnAsset:
    """The record in a file.

    Raises:
      OwnAssetError: see ``from_json``; the file is missing or too large.
    """
    try:
        content = read_plain(path, MAX_BYTES)
    except OSError as error:
        raise OwnAssetError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise OwnAssetError(f"{path} is larger than {MAX_BYTES // 1024} KiB: it is no record of an asset")
    try:
        return from_json(content)
    except OwnAssetError as error:
        raise OwnAssetError(f"{path}: {error}") from error


def add_folder(folder: Path) -> tuple[OwnAsset, ...]:
    """Make every record (``*.json``) of a folder known to the catalogue for this process, in the order of their names.

    Raises:
      OwnAssetError: there is no such folder, no record in it, two have the same id, or one cannot be used.
    """
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not paths:
        raise OwnAssetError(f"{folder} holds no record (.json) of an asset: make one with python -m coda_jax.loop.import_mesh")
    return add(read(p) for p in paths)


def add(records: Iterable[OwnAsset]) -> tuple[OwnAsset, ...]:
    """Make records known to the catalogue for this process. Raises OwnAssetError where two have the same id."""
    added = tuple(records)
    for own in added:
        try:
            register(own.asset)
        except ValueError as error:
            raise OwnAssetError(str(error)) from error
    return added


def digest(content: bytes) -> str:
    """SHA-256 of a file's content, in hex."""
    return hashlib.sha256(content).hexdigest()
