from __future__ import annotations

import hashlib
import itertools
import json
from importlib import resources

import pytest

from coda_jax.scenes import suites
from coda_jax.scenes.suites import SuiteError, frozen_scenes, load, suite_specs, version_of, write

MANIFEST_SHA256 = "530dbd42ef47597b2e0c21dfe38ceb0b5ba993dfa57805b0d05b40c306733a44"


@pytest.fixture(scope="module")
def specs():
    return list(itertools.islice(suite_specs("pick_place", "id", "validation"), 4))


def test_round_trip(tmp_path, specs):
    write(tmp_path, "pick_place", "id", "validation", specs[:3])
    assert load("pick_place", "id", "validation", tmp_path) == tuple(specs[:3])
    assert set(frozen_scenes(tmp_path)) == {s.scene_id for s in specs[:3]}


def test_frozen_suites_are_replaced_by_a_new_version_only(tmp_path, specs):
    path = write(tmp_path, "pick_place", "id", "validation", specs[:2])
    before = path.read_bytes()
    with pytest.raises(SuiteError, match=r"pick_place\.id\.validation\.jsonl is frozen already \(version 1\)"):
        write(tmp_path, "pick_place", "id", "validation", specs[2:])
    assert path.read_bytes() == before and version_of(tmp_path, "pick_place", "id", "validation") == 1
    write(tmp_path, "pick_place", "id", "validation", specs[2:], new_version=True)
    assert version_of(tmp_path, "pick_place", "id", "validation") == 2
    assert load("pick_place", "id", "validation", tmp_path) == tuple(specs[2:])
    assert version_of(tmp_path, "pick_place", "id", "test") == 0
    (tmp_path / "pick_place.id.test.jsonl").write_text("")  # a file that no manifest knows is not overwritten either
    with pytest.raises(SuiteError, match="frozen already"):
        write(tmp_path, "pick_place", "id", "test", specs[:2])


def test_the_packaged_suites_are_the_frozen_ones():
    """Every result of this version was measured on these files; a new version of them is a new number here, made on purpose."""
    data = resources.files("coda_jax.scenes") / "data"
    assert hashlib.sha256((data / "manifest.json").read_bytes()).hexdigest() == MANIFEST_SHA256
    frozen = list(suites.frozen_specs())
    assert len(frozen) == 4 * 5 * (50 + 100) and {s.scene_id for _, s in frozen} == set(frozen_scenes())


def test_candidates_resume_at_any_seed(specs):
    assert next(suite_specs("pick_place", "id", "validation", start=2)).scene_id == specs[2].scene_id


def test_changed_file_is_refused(tmp_path, specs):
    path = write(tmp_path, "pick_place", "id", "validation", specs[:2])
    path.write_text(path.read_text().replace('"yaw_rad":', '"yaw_rad": ', 1))
    with pytest.raises(SuiteError, match="changed after freezing"):
        load("pick_place", "id", "validation", tmp_path)


def test_other_catalogue_is_refused(tmp_path, specs, monkeypatch):
    write(tmp_path, "pick_place", "id", "validation", specs[:2])
    monkeypatch.setattr(suites, "catalogue_hash", lambda: "0" * 16)
    with pytest.raises(SuiteError, match=r"this is catalogue 0{16}.*new version"):
        load("pick_place", "id", "validation", tmp_path)


def test_missing_and_unknown_and_damaged(tmp_path):
    with pytest.raises(SuiteError, match=r"pick_place\.tasks\.test\.jsonl is not in"):
        load("pick_place", "tasks", "test", tmp_path)
    with pytest.raises(SuiteError, match="unknown suite 'colours'"):
        load("pick_place", "colours", "test", tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(SuiteError, match="not a manifest"):
        load("pick_place", "tasks", "test", tmp_path)


def test_duplicates_are_refused_within_and_across_suites(tmp_path, specs):
    with pytest.raises(SuiteError, match="same scene twice"):
        write(tmp_path, "pick_place", "id", "validation", [specs[0], specs[0]])
    write(tmp_path, "pick_place", "id", "validation", specs[:2])
    with pytest.raises(SuiteError, match=r"is in pick_place\.id\.validation"):
        write(tmp_path, "pick_place", "id", "test", specs[1:3])
    assert list(json.loads((tmp_path / "manifest.json").read_text())["files"]) == ["pick_place.id.validation.jsonl"]


@pytest.mark.parametrize("content", [b"", b"null\n", b"[]\n", b"\xff\n", b"[" * 10_000, b'{"task": 1}\n'])
def test_a_file_changed_together_with_its_manifest(tmp_path, specs, content):
    path = write(tmp_path, "pick_place", "id", "validation", specs[:2])
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    path.write_bytes(content)
    manifest["files"][path.name]["sha256"] = hashlib.sha256(content).hexdigest()
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(SuiteError, match="restore"):
        load("pick_place", "id", "validation", tmp_path)
    if content:
        with pytest.raises(SuiteError, match="line 1, holds no scene"):
            list(suites.frozen_specs(tmp_path))


@pytest.mark.parametrize("change", [{"sha256": 1}, {"scene_ids": None}, {"scene_ids": [1]}, {"version": "2"}, {"catalogue_hash": None}])
def test_a_damaged_entry_of_the_manifest(tmp_path, specs, change):
    path = write(tmp_path, "pick_place", "id", "validation", specs[:2])
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["files"][path.name] |= change
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    for ask in (lambda: load("pick_place", "id", "validation", tmp_path), lambda: frozen_scenes(tmp_path)):
        with pytest.raises(SuiteError, match="not a manifest of format 1"):
            ask()


def test_a_manifest_nested_too_deep(tmp_path):
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(SuiteError, match="not a manifest"):
        frozen_scenes(tmp_path)
