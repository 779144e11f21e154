"""Results of a stage that are committed before its end, and what a stage begun again gets back."""

import json
from pathlib import Path

import pytest

from coda_jax.loop.journal import file_sha256
from coda_jax.loop.substeps import Substeps


class Disk:
    """What a run is to its sub-steps: a folder and the files that are committed. A kill is a new ``substeps``."""

    def __init__(self, folder: Path):
        self.folder, self.files, self.commits = folder, {"episodes/demos_0000.npz": "abc"}, 0
        (folder / "episodes").mkdir()

    def substeps(self, every: int | None, stage: str = "r1.collect") -> Substeps:
        return Substeps(stage, self.folder, every, self.files, self._commit)

    def _commit(self, files: dict[str, str]) -> None:
        assert files and all(file_sha256(self.folder / name) == sha256 for name, sha256 in files.items())
        self.files, self.commits = self.files | files, self.commits + 1

    def left(self) -> list[str]:
        return sorted(p.name for p in (self.folder / "episodes").iterdir())


def save(path, results):
    path.write_text(json.dumps(list(results)))


def load(path):
    return json.loads(path.read_text())


def work(substeps: Substeps, jobs=("abcde", "fg", "hij"), kill_at: str = "") -> tuple[list[str], str]:
    """A stage of three batches: its results, and what was computed in this process."""
    results, computed = [], ""
    for names in jobs:
        batch = substeps.batch(save, load)
        results += batch.known
        for name in [n for n in names if n not in batch.known]:
            if name == kill_at:
                return results, computed
            computed += name
            batch.add(name)
            results.append(name)
    return results, computed


@pytest.fixture
def disk(tmp_path):
    return Disk(tmp_path)


@pytest.mark.parametrize(("kill_at", "redone"), [("c", ""), ("e", ""), ("f", "e"), ("h", "g"), ("i", ""), ("j", "i")])
def test_what_was_committed_is_not_done_again(kill_at, redone, disk):
    """Commits come after b, d, f (with e of the batch before), h and j."""
    _, first = work(disk.substeps(2), kill_at=kill_at)
    results, second = work(disk.substeps(2))
    assert sorted(results) == list("abcdefghij")
    assert "".join(sorted(set(first) & set(second))) == redone


def test_killed_at_every_result_it_still_ends(disk):
    computed = [work(disk.substeps(1), kill_at=name)[1] for name in "bcdefghij"]
    assert computed == list("abcdefghi")
    assert work(disk.substeps(1)) == (list("abcdefghij"), "j")


@pytest.mark.parametrize(("every", "commits"), [(1, 10), (4, 2), (10, 1), (11, 0), (None, 0)])
def test_so_many_results_make_a_commit(every, commits, disk):
    assert work(disk.substeps(every))[1] == "abcdefghij"
    assert disk.commits == commits


def test_without_a_stage_nothing_is_kept(disk):
    substeps = disk.substeps(None)
    batch = substeps.batch(save, load)
    batch.add("a")
    assert not batch.pending and not disk.left()


def test_the_end_of_a_stage_drops_and_removes_its_pieces_alone(disk):
    substeps = disk.substeps(3)
    work(substeps)
    (disk.folder / "episodes" / "demos_0000.npz").write_text("x")
    assert len(disk.files) == 1 + 5  # abc; de f; g hi
    assert substeps.dropped(disk.files) == {"episodes/demos_0000.npz": "abc"}
    substeps.remove()
    assert disk.left() == ["demos_0000.npz"]


def test_stages_do_not_read_each_others_pieces(disk):
    work(disk.substeps(1))
    assert work(disk.substeps(1, "r2.collect"))[1] == "abcdefghij"
    assert work(disk.substeps(1, "r1.coll"))[1] == "abcdefghij"
