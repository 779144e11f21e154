"""Files of LIBERO records: written, continued, and read as what a stranger wrote."""

import dataclasses
import json
import os

import pytest

from coda_jax.evaluation.libero.records import append, of_source, read
from coda_jax.evaluation.libero.totals import totals
from coda_jax.runtime import InputError
from tests.evaluation.libero.made import episode, failed, lost


def test_what_is_written_is_read_and_a_later_record_counts(tmp_path):
    path = tmp_path / "deep" / "records.jsonl"
    append(path, [lost(), failed(init_index=3)])
    append(path, [episode()])
    assert read(path) == [failed(init_index=3), episode()]


def test_what_a_kill_cut_short_is_left_out_and_taken_away(tmp_path):
    path = tmp_path / "records.jsonl"
    append(path, [episode(init_index=i) for i in range(2)])
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert [e.init_index for e in read(path)] == [0]
    append(path, [episode(init_index=1)])
    assert path.read_bytes() == whole


def test_the_official_runner_and_we_write_the_same(tmp_path, repository, monkeypatch):
    monkeypatch.syspath_prepend(str(repository / "third_party" / "libero_pro"))
    import written

    path, made = tmp_path / "records.jsonl", episode()
    values = json.loads(json.dumps(dataclasses.asdict(made)))
    same = {name: values.pop(name) for name in written.SAME if name != "format"}
    values.pop("format")
    theirs = written.Records(path, same)
    theirs.add(values)
    theirs.close()
    assert read(path) == [made]
    assert written.Records(path, same).done == {made.key}


def changed(**values):
    return json.dumps(json.loads(json.dumps(dataclasses.asdict(episode()))) | values).encode()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "Invalid JSON"),
        (b"\xff\xfe", "Invalid JSON"),
        (b"[]", "object"),
        (b"", "Invalid JSON"),
        (changed(stranger=1), "stranger"),
        (changed(format=2), "format"),
        (changed(format=True), "format"),
        (changed(format=1.0), "format"),
        (changed(seed=7.0), "seed"),
        (changed(wall_s=True), "wall_s"),
        (changed(solved_by_settling=0), "solved_by_settling"),
        (changed(final_qpos=[]), "final_qpos"),
        (changed(final_qpos=[1e300]), "final_qpos"),
        (changed(fixtures={"rack": []}), "fixtures.rack"),
        (changed(observes="x")[:-1] + b', "seed": ' + b"9" * 5000 + b"}", "number out of range"),
        (changed(observes="\ud800"), "Invalid JSON"),
        (changed(steps=301), "301 steps are more than the limit"),
        (changed(steps=-1), "steps"),
        (changed(steps=True), "steps"),
        (changed(outcome="won"), "outcome"),
        (changed(outcome="error"), "only errors have one"),
        (changed(error="x"), "only errors have one"),
        (changed(suite="../../etc"), "suite"),
        (changed(suite="a\nb"), "suite"),
        (changed(init_sha256="z" * 64), "init_sha256"),
        (changed(wall_s=float("inf")), "wall_s"),
        (changed(final_qpos=[float("nan")]), "final_qpos"),
        (changed(final_qpos=[0.0] * 501), "final_qpos"),
        (changed(prompt="x" * 3000), "prompt"),
        (changed(prompt_source="mine"), "prompt_source"),
        (changed(error="x" * 70_000), "no record is that long"),
        (changed(**{"x" * 60_000: 1}), "Unexpected keyword"),
        (changed(**{"\x1b[2J\n": 1}), "([2J : Unexpected keyword"),
        (changed(versions={"\x1b[2J": "1"}), "versions. [2J"),
        (b"[" * 60_000, "Invalid JSON"),
    ],
)
def test_lines_that_are_no_record_are_named(tmp_path, line, said):
    path = tmp_path / "records.jsonl"
    path.write_bytes(changed() + b"\n" + line + b"\n")
    with pytest.raises(InputError, match="records.jsonl:2 .*") as error:
        read(path)
    assert said in str(error.value)
    assert str(error.value).isprintable() and len(str(error.value)) < 600


def test_files_that_hold_none(tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(2**28 + 1)
    for path, said in (
        (empty, "holds no records"),
        (tmp_path, "cannot be read"),
        (tmp_path / "pipe", "it is no plain file"),
        (tmp_path / "device", "it is no plain file"),
        (tmp_path / "large", "more than 256 MB"),
        (tmp_path / "absent", "cannot be read"),
    ):
        with pytest.raises(InputError, match=said):
            read(path)


def test_a_prompt_of_both_sources_counts_for_each():
    made = [episode(), episode(prompt_source="both", init_index=1), episode(prompt_source="filename", init_index=2)]
    assert [e.init_index for e in of_source(made, "bddl")] == [0 + 17, 1]
    assert [e.init_index for e in of_source(made, "filename")] == [1, 2]


def test_an_episode_that_was_run_for_one_source_and_then_for_both_counts_once():
    made = [failed(), episode(prompt_source="both"), failed(init_index=3)]
    assert [(e.init_index, e.outcome) for e in of_source(made, "bddl")] == [(17, "success"), (3, "failure")]
    (total, _) = totals(made)
    assert (total.source, total.k, total.n) == ("bddl", 1, 2)


def test_every_seed_of_a_configuration_can_be_written(tmp_path):
    made = episode(seed=2**32 - 1, fixture_seed=2**32 - 1)
    append(tmp_path / "records.jsonl", [made])
    assert read(tmp_path / "records.jsonl") == [made]
