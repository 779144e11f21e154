"""Frozen suites: loading them, and the manifest that proves they are what was frozen.

A suite is a JSON-lines file of canonical specs; the manifest beside the files records catalogue version and hash, the scene ids in order
and each file's SHA-256. Freezing needs physics, a planner that judges a
suite as a whole, and their settings, and lives in evaluation/freeze_suites.py; here are the candidates, writing and loading.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from coda_jax.scenes import families
from coda_jax.scenes.catalogue import VERSION, Catalogue, catalogue_hash
from coda_jax.scenes.generate import SUITES, sample_spec
from coda_jax.scenes.spec import SceneSpec, from_json, to_json

SIZES = {"validation": 50, "test": 100}
MANIFEST = "manifest.json"
_FORMAT = 1


class SuiteError(ValueError):
    """A suite that is missing, damaged or of another catalogue; the message says which and what to do."""


def _freeze_command(family: str, split: str) -> str:
    """How the suites of a family and split are frozen; the module of a user's family is the one that its class is in."""
    module = type(families.get(family)).__module__
    own = "" if module.partition(".")[0] == __name__.partition(".")[0] else f" --own_families={module}"
    return f"python -m coda_jax.loop.freeze_suites{own} --family={family} --split={split}"


def _how_to_freeze(folder: Traversable, family: str, split: str) -> str:
    command = _freeze_command(family, split)
    if any(version_of(folder, family, suite, split) for suite in SUITES):
        return f"freeze the {family} suites of {split} again ({command} --new_version), which makes a new version of them"
    return f"freeze the {family} suites of {split} first ({command})"


def file_name(family: str, suite: str, split: str) -> str:
    return f"{family}.{suite}.{split}.jsonl"


def suite_specs(family: str, suite: str, split: str, start: int = 0) -> Iterator[SceneSpec]:
    """Endless candidates of a suite, one per seed from ``start``; the freezer keeps those that physics finds valid."""
    catalogue = Catalogue.all()
    seed = start
    while True:
        yield sample_spec(catalogue, family, suite, split, seed)
        seed += 1


def _check_names(family: str, suite: str, split: str) -> None:
    for what, value, valid in (("family", family, families.names()), ("suite", suite, SUITES), ("split", split, tuple(SIZES))):
        if value not in valid:
            raise SuiteError(f"unknown {what} {value!r}: use one of {', '.join(valid)}")


def _package_data() -> Traversable:
    return resources.files("coda_jax.scenes") / "data"


def _manifest(folder: Traversable) -> dict:
    path = folder / MANIFEST
    if not path.is_file():
        return {"format": _FORMAT, "files": {}}
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest["format"] != _FORMAT or not isinstance(manifest["files"], dict):
            raise ValueError(f"format {manifest['format']!r}")
        for name, entry in manifest["files"].items():
            _check_entry(name, entry)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise SuiteError(f"{path} is not a manifest of format {_FORMAT} ({error}): restore it, or freeze the suites again") from error
    return manifest


def _check_entry(name: str, entry: dict) -> None:
    ids, version = entry["scene_ids"], entry.get("version", 1)
    texts = [entry["sha256"], entry["catalogue_hash"], *ids] if isinstance(ids, list) else [ids]
    if not (isinstance(ids, list) and all(isinstance(t, str) for t in texts) and type(version) is int and "catalogue_version" in entry):
        raise ValueError(f"the entry of {name} is damaged")


def _scenes_of(name: str, content: bytes) -> Iterator[SceneSpec]:
    """The scenes of a suite's file, one a line. Raises SuiteError for a line that holds none."""
    for number, line in enumerate(content.splitlines(), 1):
        try:
            yield from_json(line)
        except ValueError:  # pydantic's says it in several lines
            raise SuiteError(f"{name}, line {number}, holds no scene of this version: restore the file") from None


def version_of(folder: Traversable, family: str, suite: str, split: str) -> int:
    """Version of a frozen suite, from 1; 0 where nothing is frozen. A file that the manifest does not know counts as version 1."""
    name = file_name(family, suite, split)
    entry = _manifest(folder)["files"].get(name)
    if entry is None:
        return int((folder / name).is_file())
    return entry.get("version", 1)


def refuse_frozen(folder: Traversable, family: str, suite: str, split: str) -> None:
    """Raises SuiteError where a suite is frozen already."""
    if version := version_of(folder, family, suite, split):
        raise SuiteError(
            f"{file_name(family, suite, split)} is frozen already (version {version}) and results on another version cannot be compared "
            "with it: freeze into another folder, or add --new_version"
        )


def write(
    folder: str | os.PathLike[str], family: str, suite: str, split: str, specs: Sequence[SceneSpec], new_version: bool = False
) -> Path:
    """Write one suite and its line of the manifest; both appear whole or not at all.

    Args:
      new_version: replace a suite that is frozen already; its version rises by one.

    Raises:
      SuiteError: unknown names, no scenes, the same scene twice, a scene that is in another frozen suite of the folder, or the suite is
        frozen already and ``new_version`` is not set.
    """
    _check_names(family, suite, split)
    ids = [s.scene_id for s in specs]
    if not ids:
        raise SuiteError(f"suite {suite}/{split} has no scenes: generate more candidates")
    if len(set(ids)) < len(ids):
        raise SuiteError(f"suite {suite}/{split} holds the same scene twice: {next(i for i in ids if ids.count(i) > 1)}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    manifest, name = _manifest(folder), file_name(family, suite, split)
    if not new_version:
        refuse_frozen(folder, family, suite, split)
    for other, entry in manifest["files"].items():
        if other != name and (shared := set(ids) & set(entry["scene_ids"])):
            raise SuiteError(f"scene {min(shared)} of {name} is in {other} too: use other seeds")
    content = "".join(to_json(s) + "\n" for s in specs).encode()
    manifest["files"][name] = {
        "sha256": hashlib.sha256(content).hexdigest(),
        "catalogue_version": VERSION,
        "catalogue_hash": catalogue_hash(),
        "scene_ids": ids,
        "version": version_of(folder, family, suite, split) + 1,
    }
    _replace(folder / name, content)
    _replace(folder / MANIFEST, (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode())
    return folder / name


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_suffix(path.suffix + ".part")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def load(family: str, suite: str, split: str = "test", folder: Traversable | None = None) -> tuple[SceneSpec, ...]:
    """The frozen scenes of a suite, in order, after their hashes were checked.

    Args:
      folder: where the files lie; None for the ones that come with the package. A family that brings its suites with it has none.

    Raises:
      SuiteError: unknown names, the suite is not frozen, was changed, or belongs to another catalogue.
    """
    own = families.get(family).frozen(suite, split) if family in families.names() else None
    if own is not None:
        return own
    _check_names(family, suite, split)
    folder = _package_data() if folder is None else folder
    name = file_name(family, suite, split)
    entry = _manifest(folder)["files"].get(name)
    if entry is None or not (folder / name).is_file():
        raise SuiteError(f"the suite {name} is not in {folder}: {_how_to_freeze(folder, family, split)}")
    if entry["catalogue_hash"] != catalogue_hash():
        raise SuiteError(
            f"{name} was frozen with catalogue {entry['catalogue_hash']} (version {entry['catalogue_version']}), "
            f"this is catalogue {catalogue_hash()} (version {VERSION}): {_how_to_freeze(folder, family, split)}"
        )
    content = (folder / name).read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != entry["sha256"]:
        raise SuiteError(f"{name} was changed after freezing (sha256 {found[:12]}..., frozen {entry['sha256'][:12]}...): restore the file")
    specs = tuple(_scenes_of(name, content))
    if len(specs) != len(entry["scene_ids"]):
        raise SuiteError(f"{name} holds {len(specs)} scenes and the manifest {len(entry['scene_ids'])}: restore both files")
    for line, (spec, frozen) in enumerate(zip(specs, entry["scene_ids"], strict=True), 1):
        if spec.scene_id != frozen:
            raise SuiteError(
                f"{name}, line {line}: scene id is {spec.scene_id}, frozen as {frozen}: this version hashes scenes differently"
            )
    return specs


@dataclasses.dataclass(frozen=True)
class FrozenScene:
    """Where a scene id is frozen."""

    scene_id: str
    file: str


def _frozen_in(folder: Traversable) -> dict[str, FrozenScene]:
    return {i: FrozenScene(i, name) for name, entry in _manifest(folder)["files"].items() for i in entry["scene_ids"]}


def frozen_specs(folder: Traversable | None = None) -> Iterator[tuple[str, SceneSpec]]:
    """(file name, scene) of every frozen scene, whatever the catalogue: what is held out stays held out.

    Raises:
      SuiteError: a damaged manifest, or a file of it that is missing or damaged.
    """
    folder = _package_data() if folder is None else folder
    for name in _manifest(folder)["files"]:
        if not (folder / name).is_file():
            raise SuiteError(f"{name} of the manifest is not in {folder}: restore the file")
        for spec in _scenes_of(name, (folder / name).read_bytes()):
            yield name, spec


@functools.cache
def _frozen_in_package() -> dict[str, FrozenScene]:
    return _frozen_in(_package_data())


def frozen_scenes(folder: Traversable | None = None) -> dict[str, FrozenScene]:
    """Scene id to its frozen suite, for every suite of the manifest (empty before the first freeze).

    The package's own manifest (``folder`` None) is read once a process. Raises SuiteError for a damaged manifest.
    """
    return _frozen_in_package() if folder is None else _frozen_in(folder)
