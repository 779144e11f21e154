"""The whole job at its smallest: real scenes, physics, planner, training and rollouts; interrupted anywhere it ends the same."""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from coda_jax import config as settings
from coda_jax import main as command_line
from coda_jax import runtime
from coda_jax.evaluation.metrics import read_metrics, read_summary
from coda_jax.evaluation.records import read_records
from coda_jax.loop import cloning, coevolve, compare, demonstrations, evaluate, evaluation, seed_scenes
from coda_jax.loop.checkpoint import folder_digest
from coda_jax.loop.journal import read_commits
from coda_jax.loop.run import opened
from coda_jax.memory.store import FILE, Memory
from coda_jax.programs.errors import ErrorKind, ProgramError
from coda_jax.runtime import InputError, Stopped
from coda_jax.sim.checks.record import Failure
from coda_jax.sim.validity import Report
from tests.loop.small import EXPERIMENT, outcome, small_config


@pytest.fixture(scope="module")
def config():
    return small_config()


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    coevolve.run(config, folder, dry_run=False)
    return folder


@pytest.fixture
def copy(whole, tmp_path):
    """The finished run, to damage."""
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def parameters(config, folder):
    state = cloning.committed_state(config, folder, read_commits(folder)[-1])
    return np.concatenate([np.ravel(np.asarray(x)) for x in jax.tree.leaves(state)])


def rewind(folder: Path, keep) -> None:
    """Cut the memory to the commits for which ``keep`` holds: what a kill before the next one leaves."""
    kept = [keep(dataclasses.asdict(commit)) for commit in read_commits(folder)]
    with Memory.open(folder / FILE) as memory:
        memory.truncate(kept.index(False) if False in kept else len(kept))


def test_the_job_leaves_its_results(config, whole):
    summary, records = read_summary(whole), read_records(whole)
    assert {(r.suite, r.split) for r in records} == {("id", "validation"), ("tasks", "validation")}
    assert summary.suites["pick_place"]["id"]["after"].n == 3
    assert summary.suites["pick_place"]["tasks"]["after"].k == sum(r.success for r in records if r.suite == "tasks")
    assert all(r.success == (r.phase_failed is None) for r in records)
    assert summary.accepted >= 6 and summary.sim_steps > 6 * 20 * 20
    rows = read_metrics(whole / "metrics.jsonl")
    assert [r["name"] for r in rows if r["kind"] == "stage"] == ["scenes", "demonstrations", "clone", "evaluate"]
    assert sum(r["n"] for r in rows if r["kind"] == "planner") >= 6
    page = (whole / "report.html").read_text()
    assert records[0].instruction in page and not re.search(r'src="http', page)
    films = [r.film for r in records if r.film]
    assert films and all((whole / f).stat().st_size > 1000 for f in films)
    ledger = json.loads((whole / "ledger.json").read_text())["stages"]
    assert ledger["evaluate"]["rollouts"] == 6
    assert ledger["demonstrations"]["simulated_s"] + ledger["evaluate"]["simulated_s"] == pytest.approx(summary.sim_steps * 0.005, abs=0.01)


def test_nothing_compiles_for_new_scenes_goals_and_programs(whole):
    assert read_summary(whole).compiles_per_round == [0]
    stages = json.loads((whole / "ledger.json").read_text())["stages"]
    assert {name: cost["compiles"] for name, cost in stages.items() if name != "warm-up"} == dict.fromkeys(
        ("scenes", "demonstrations", "clone", "evaluate"), 0
    )


def test_a_finished_run_does_nothing_again(config, copy):
    before = read_commits(copy), (copy / "metrics.jsonl").read_bytes()
    coevolve.run(config, copy, dry_run=False)
    assert (read_commits(copy), (copy / "metrics.jsonl").read_bytes()) == before


@pytest.mark.parametrize(
    ("cut", "keep"),
    [
        ("after the scenes", lambda c: c["checkpoint"] is None and c["demos"] == 0),
        ("in the demonstrations", lambda c: c["demos"] <= 4),
        ("in cloning", lambda c: (c["checkpoint"] or 0) <= 40 and "clone" not in c["done"]),
        ("in the evaluation", lambda c: c["suites"] != ["id", "tasks"]),
    ],
)
def test_a_run_killed_anywhere_ends_the_same_bit_for_bit(cut, keep, config, whole, copy):
    rewind(copy, keep)
    with (copy / "metrics.jsonl").open("ab") as file:
        file.write(b'{"kind": "train", "step": 9999}\n{"kind": "tr')  # rows that no commit names
    (copy / "episodes" / "demos_0007.npz").write_bytes(b"an orphan")
    coevolve.run(config, copy, dry_run=False)
    assert not (copy / "episodes" / "demos_0007.npz").exists()
    assert outcome(copy) == outcome(whole)
    np.testing.assert_array_equal(parameters(config, copy), parameters(config, whole))
    assert read_summary(copy).compiles_per_round == [0]


def test_a_damaged_checkpoint_is_named_and_the_commit_before_restored(config, whole, copy, caplog):
    victim = max((p for p in (copy / "checkpoints" / "60").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    coevolve.run(config, copy, dry_run=False)
    assert "checkpoints/60 is damaged" in caplog.text
    assert outcome(copy) == outcome(whole)
    np.testing.assert_array_equal(parameters(config, copy), parameters(config, whole))


def test_damaged_demonstrations_are_named_and_collected_again(config, whole, copy, caplog):
    (copy / "episodes" / "demos_0001.npz").write_bytes(b"garbage")
    coevolve.run(config, copy, dry_run=False)
    assert "demos_0001.npz is damaged" in caplog.text
    assert outcome(copy) == outcome(whole)


@pytest.mark.parametrize(
    "damage",
    [Path.unlink, lambda p: p.write_bytes(p.read_bytes().replace(b'"success":false', b'"success":true ')), lambda p: p.write_text("x\n")],
)
def test_records_of_the_evaluation_belong_to_its_commit(damage, config, whole, copy, caplog):
    damage(copy / "episodes" / "eval_after_id.jsonl")
    (copy / "episodes" / "eval_before_id.jsonl").write_text("an orphan")
    coevolve.run(config, copy, dry_run=False)
    assert re.search(r"eval_after_id.jsonl is (gone|damaged)", caplog.text)
    assert outcome(copy) == outcome(whole)
    assert read_summary(copy).suites == read_summary(whole).suites


def kept(folder: Path) -> dict[str, int]:
    """Everything that work left, with its size."""
    names = [p for part in ("episodes", "checkpoints", "metrics.jsonl") for p in ((folder / part).rglob("*"), [folder / part])]
    return {str(p.relative_to(folder)): p.stat().st_size for paths in names for p in paths if p.is_file()}


def _lose(copy: Path) -> None:
    for path in copy.glob(f"{FILE}*"):
        path.unlink()


def _foreign(copy: Path) -> None:
    with Memory.open(copy / FILE) as memory, memory.transaction() as transaction:
        transaction.commit("evaluate", 0, '{"demos": 6, "a_field_to_come": 1}')


def _first_file(copy: Path) -> None:
    (copy / "episodes" / "scenes_0000.jsonl").write_text("x")


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_lose, "memory.sqlite is gone"),
        (_foreign, "a_field_to_come"),
        (_first_file, r"none of the \d+ commits .*scenes_0000.jsonl is damaged"),
    ],
)
def test_work_is_never_removed_because_its_commits_cannot_be_read(harm, message, config, copy):
    harm(copy)
    before = kept(copy)
    for _ in range(2):
        with pytest.raises(InputError, match=f"{message}.*Nothing was changed"):
            coevolve.run(config, copy, dry_run=False)
    assert kept(copy) == before and len(before) > 10


def test_half_written_files_of_a_killed_process_are_removed(config, copy):
    left = [copy / ".ledger.json.ab.tmp", copy / "episodes" / ".demos_0000.npz.ab.tmp", copy / "videos" / ".x.png.ab.tmp"]
    for path in left:
        path.write_text("x")
    coevolve.run(config, copy, dry_run=False)
    assert not any(path.exists() for path in left)


def test_a_damaged_line_of_the_log_is_named(config, copy):
    path = copy / "metrics.jsonl"
    path.write_bytes(b"x" + path.read_bytes()[1:])
    with pytest.raises(InputError, match=r"metrics.jsonl:1 is not JSON .*write as many blanks over it"):
        coevolve.run(config, copy, dry_run=False)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([b" " * len(lines[0]), *lines[1:]]))
    coevolve.run(config, copy, dry_run=False)


def with_revisions(rows, value):
    changed = json.loads(rows.tobytes())
    changed[0]["revisions"] = value
    return np.frombuffer(json.dumps(changed).encode(), np.uint8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("rows"), "it lacks rows"),
        (lambda a: a.update(actions=a["actions"].astype(str)), "actions holds <U"),
        (lambda a: a.update(mask=a["mask"][1:]), "mask has shape"),
        (lambda a: a.update(length=-a["length"]), "no list of positive numbers"),
        (lambda a: a.update(view_pos=np.full_like(a["view_pos"], np.nan)), "NaN"),
        (lambda a: a.update(executed=2 * np.ones_like(a["executed"])), r"actions in \[-1, 1\]"),
        (lambda a: a.update(rows=np.frombuffer(b'[{"roles": 1}]', np.uint8)), "rows: 0"),
        (lambda a: a.update(rows=with_revisions(a["rows"], -1)), "rows: 0.revisions: .*greater than or equal to 0"),
        (lambda a: a.update(rows=with_revisions(a["rows"], "2")), "rows: 0.revisions: .*valid integer"),
    ],
)
def test_demonstrations_of_another_shape_are_named(change, message, whole, copy):
    commit = read_commits(copy)[-1]
    path = copy / "episodes" / "demos_0001.npz"
    arrays = dict(np.load(path))
    change(arrays)
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=rf"demos_0001.npz is no file of demonstrations \(.*{message}"):
        demonstrations.load(copy, commit)


def test_the_scenes_stage_commits_often_and_goes_on(tmp_path, monkeypatch):
    config = small_config()
    config.sim.worlds, config.demos.count = 2, 20

    def scenes(folder, stop_after=None):
        folder.mkdir(exist_ok=True)
        with monkeypatch.context() as patch, opened(config, folder) as job:
            if stop_after:
                patch.setattr(seed_scenes.runtime, "check_stop", lambda: len(read_commits(folder)) == stop_after and halt())
                with pytest.raises(Stopped):
                    seed_scenes.run(job)
            else:
                seed_scenes.run(job)

    def halt():
        raise Stopped("by the test")

    scenes(tmp_path / "whole")
    last = read_commits(tmp_path / "whole")[-1]
    assert len(read_commits(tmp_path / "whole")) >= 3 and last.accepted >= 20
    scenes(tmp_path / "broken", stop_after=1)
    scenes(tmp_path / "broken", stop_after=2)
    assert not read_commits(tmp_path / "broken")[-1].accepted >= 20
    scenes(tmp_path / "broken")
    again = read_commits(tmp_path / "broken")[-1]
    assert again == dataclasses.replace(last, wall_s=again.wall_s, compiles=again.compiles)
    assert read_metrics(tmp_path / "broken" / "metrics.jsonl") == read_metrics(tmp_path / "whole" / "metrics.jsonl")


def test_a_layout_of_which_no_draw_is_valid_is_told(config, tmp_path, monkeypatch, capsys):
    real = seed_scenes.check

    def never_the_first(specs, catalogue, validity):
        first, *others = real(specs, catalogue, validity)
        return [Report(first.scene_id, (Failure("settle", "", "", 0.0, "", "it rolls"),)), *others]

    monkeypatch.setattr(seed_scenes, "check", never_the_first)
    monkeypatch.setattr(seed_scenes, "_LEAST_DRAWS", 1)
    with opened(config, tmp_path) as job, seed_scenes.SceneSource(job) as source:
        source.more()
        (layout,) = [k for k, reasons in source.never_valid().items() if "settle 1" in reasons]
        assert layout not in {s.spec.spatial.layout.partition("@")[0] for s in source.scenes}
    with opened(config, tmp_path) as job:
        seed_scenes.run(job)
    assert f"warning: no draw of {layout} was a valid scene (settle 1): nothing will be learned of it" in capsys.readouterr().err


def test_workers_that_die_cost_no_scene(tmp_path, monkeypatch):
    config = small_config()
    real, left = seed_scenes.evaluate_scene, [2, 0, 1]

    def dying(text, sandbox, catalogue):
        if left and left[0]:
            left[0] -= 1
            raise ProgramError(ErrorKind.CRASHED, "the program's worker process died")
        if left:
            left.pop(0)
        return real(text, sandbox, catalogue)

    for name in ("whole", "dying"):
        if name == "dying":
            monkeypatch.setattr(seed_scenes, "evaluate_scene", dying)
        (tmp_path / name).mkdir()
        with opened(config, tmp_path / name) as job:
            seed_scenes.run(job)
    whole, other = (read_commits(tmp_path / name)[-1] for name in ("whole", "dying"))
    assert not left
    assert other == dataclasses.replace(whole, wall_s=other.wall_s, compiles=other.compiles)
    (tmp_path / "dead").mkdir()
    with opened(config, tmp_path / "dead") as job:
        left[:] = [99]
        with pytest.raises(Stopped, match="failed 3 times"):
            seed_scenes.run(job)


def test_a_signal_stops_at_the_next_commit(config, whole, copy, monkeypatch):
    rewind(copy, lambda c: c["demos"] == 0)

    def stop():
        if read_commits(copy)[-1].checkpoint == 20:
            raise Stopped("stopped by the test")

    with monkeypatch.context() as patch:
        patch.setattr(runtime, "check_stop", stop)
        with pytest.raises(Stopped):
            coevolve.run(config, copy, dry_run=False)
    assert read_commits(copy)[-1].checkpoint == 20
    coevolve.run(config, copy, dry_run=False)
    assert outcome(copy) == outcome(whole)


def test_a_run_of_another_seed_differs(config, whole, tmp_path):
    other = small_config()
    other.seed = 1
    other.clone.steps, other.evaluate.suites = 20, ("id",)
    coevolve.run(other, tmp_path, dry_run=False)
    scenes = [seed_scenes.load(f, read_commits(f)[-1])[0].spec.scene_id for f in (whole, tmp_path)]
    assert scenes[0] != scenes[1]


def test_evaluating_again_leaves_the_run_alone(config, whole, copy, capsys, monkeypatch):
    before = {p.name: p.read_bytes() for p in copy.glob("*.*")}
    again = small_config()
    again.evaluate.executed, again.evaluate.suites = 8, ("id",)
    evaluate.run(again, copy, dry_run=True)
    assert "rollouts on validation: id 3" in capsys.readouterr().out
    evaluate.run(again, copy, dry_run=False)
    folder = copy / "evaluations" / "validation-e8-id-3scenes"
    assert [r.suite for r in read_records(folder)] == ["id"] * 3
    assert read_summary(folder).suites["pick_place"]["id"]["after"].n == 3
    assert {p.name: p.read_bytes() for p in copy.glob("*.*")} == before
    same = small_config()
    evaluate.run(same, copy, dry_run=False)
    own = read_records(copy / "evaluations" / "validation-e4-id+tasks-3scenes")
    assert [(r.scene_id, r.success, r.steps) for r in own] == [(r.scene_id, r.success, r.steps) for r in read_records(whole)]
    (copy / "config.json").write_text(json.dumps({"config": settings.to_dict(config)}))
    capsys.readouterr()
    compare.run(copy, [folder, copy / "evaluations" / "validation-e4-id+tasks-3scenes"])
    out = capsys.readouterr().out
    assert f"{copy.name}/evaluations/validation-e8-id-3scenes against {copy.name}: " in out
    assert [line.split()[0] for line in out.splitlines() if not line.startswith(copy.name)] == ["suite", "id", "suite", "id", "tasks"]
    with pytest.raises(InputError, match="name one of them: .*/validation-e8-id-3scenes"):
        compare.run(copy, [folder.parent])
    monkeypatch.chdir(folder)
    compare.run(Path("."), [Path("../..")])  # paths without names
    assert capsys.readouterr().out.startswith(f"{copy.name} against {copy.name}/evaluations/{folder.name}: ")


def test_an_evaluation_goes_on_where_it_was_stopped(config, copy, monkeypatch, caplog):
    other = small_config()
    other.evaluate.seeds = 2
    folder = copy / "evaluations" / "validation-e4-id+tasks-3scenes-2seeds"
    ran = []
    real = evaluation.run_suite

    def watched(config, folder, suite, *rest, **named):
        if suite == "tasks" and "tasks" not in ran and not (folder / "summary.json").exists() and len(ran) == 1:
            ran.append("stopped")
            raise Stopped("by the test")
        ran.append(suite)
        return real(config, folder, suite, *rest, **named)

    monkeypatch.setattr(evaluation, "run_suite", watched)
    with pytest.raises(Stopped):
        evaluate.run(other, copy, dry_run=False)
    evaluate.run(other, copy, dry_run=False)
    assert ran == ["id", "stopped", "tasks"]
    rows, records, summary = read_metrics(folder / "metrics.jsonl"), read_records(folder), read_summary(folder)
    assert [(r["suite"], r["n"]) for r in rows] == [("id", 6), ("tasks", 6)]
    evaluate.run(other, copy, dry_run=False)  # everything is there
    assert ran == ["id", "stopped", "tasks"] and read_summary(folder) == summary
    (folder / "episodes" / "eval_after_id.jsonl").write_text("x")
    evaluate.run(other, copy, dry_run=False)
    assert ran[3:] == ["id"] and "suite id is rolled out again" in caplog.text
    assert read_records(folder) == records and read_summary(folder).sim_steps == summary.sim_steps
    assert read_summary(folder).wall_s < 3 * summary.wall_s + 1


def test_an_evaluation_takes_the_committed_checkpoint_alone(config, copy):
    arrays, seal = copy / "checkpoints" / "60", copy / "checkpoints" / "seal_60.json"
    (arrays / "extra").write_text("x")
    seal.write_text(json.dumps(json.loads(seal.read_text()) | {"sha256": folder_digest(arrays)}))
    with pytest.raises(InputError, match="checkpoint 60 in .* is not the one that was committed"):
        evaluate.run(config, copy, dry_run=False)


def test_evaluating_an_unfinished_run_is_refused(config, copy):
    rewind(copy, lambda c: c["checkpoint"] is None)
    with pytest.raises(InputError, match="has no trained policy yet"):
        evaluate.run(config, copy, dry_run=False)


def test_roles_can_be_given_away(config, tmp_path):
    told = small_config()
    told.policy.given_roles = True
    told.clone.steps, told.evaluate.suites = 20, ("id",)
    coevolve.run(told, tmp_path, dry_run=False)
    assert len(read_records(tmp_path)) == 3
    assert read_summary(tmp_path).compiles_per_round == [0]


def test_dry_run_starts_nothing(config, tmp_path, capsys):
    coevolve.run(config, tmp_path, dry_run=True)
    text = capsys.readouterr().out
    for expected in (
        "demonstrations  6, each",
        "updates         60 of 32",
        "6 on validation: id 3, tasks 3",
        "f6g6 (native)",
        "memory",
        "time",
    ):
        assert expected in text
    assert not any(tmp_path.iterdir())


def test_stored_demonstrations_are_fit_to_learn_from(config, whole):
    demos = demonstrations.load(whole, read_commits(whole)[-1])
    assert len(demos) == 6
    for demo in demos:
        assert np.abs(demo.actions).max() <= 1.0
        assert demo.obs["pos"].shape == (len(demo.actions), 8, 3)
        assert all(str(demo.names[role]) in demo.instruction for role in demo.roles)
    assert cloning.dataset(config, demos, coevolve.parts.encoder_of()).size == sum(len(d.actions) for d in demos)


def test_a_planner_that_fails_stops_the_run(config, tmp_path):
    hopeless = small_config()
    hopeless.horizon.pick_place, hopeless.demos.count = 3, 70
    with pytest.raises(InputError, match=r"the planner solved 0 of 64 scenes \(\d+ times .*check config.planner"):
        coevolve.run(hopeless, tmp_path, dry_run=False)


def test_settings_under_which_no_scene_is_valid_stop_the_run(config, tmp_path):
    strict = small_config()
    strict.validity.scale = (5.0, 6.0)
    with pytest.raises(InputError, match=r"only 0 of 8 programs gave a valid scene \(scale 8\)"):
        coevolve.run(strict, tmp_path, dry_run=False)


def test_missing_suite_and_encoder_are_named_before_anything_starts(config, tmp_path, monkeypatch):
    absent = small_config()
    absent.evaluate.split = "test"
    monkeypatch.setattr(evaluation.suites, "_package_data", lambda: tmp_path)
    with pytest.raises(InputError, match="pick_place.id.test.jsonl is not in"):
        coevolve.run(absent, tmp_path / "run", dry_run=False)
    assert not (tmp_path / "run").exists()


def test_a_disk_without_space_exits_3_and_names_the_bytes(config, copy, monkeypatch, capsys):
    rewind(copy, lambda c: c["demos"] <= 4)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 17))  # type: ignore[attr-defined]
    monkeypatch.setattr(command_line, "dispatch", lambda _: coevolve.run(config, copy, dry_run=False))
    assert command_line.main(["--mode=doctor"]) == command_line.RESUMABLE
    assert re.search(r"the disk is full \(\d+ bytes are needed, 17 are free", capsys.readouterr().err)
    assert read_commits(copy)[-1].demos == 4


def test_a_damaged_memory_is_named_and_says_what_to_do(config, copy, monkeypatch, capsys):
    path = copy / FILE
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    monkeypatch.setattr(command_line, "dispatch", lambda _: coevolve.run(config, copy, dry_run=False))
    assert command_line.main(["--mode=doctor"]) == command_line.BAD_INPUT
    assert re.search(r"memory.sqlite is damaged .*; restore it from a copy, or begin anew", capsys.readouterr().err)


def test_a_full_disk_at_a_commit_exits_3_and_the_run_goes_on(config, whole, copy, monkeypatch, capsys):
    rewind(copy, lambda c: c["demos"] <= 4)

    def fill(memory: Memory) -> Memory:
        memory.select("VACUUM")
        memory.select(f"PRAGMA max_page_count = {memory.select('PRAGMA page_count')[0][0]}")
        return memory

    opened = Memory.open
    with monkeypatch.context() as patch:
        patch.setattr(Memory, "open", lambda *arguments: fill(opened(*arguments)))
        patch.setattr(command_line, "dispatch", lambda _: coevolve.run(config, copy, dry_run=False))
        assert command_line.main(["--mode=doctor"]) == command_line.RESUMABLE
    assert re.search(r"the disk is full .*memory.sqlite", capsys.readouterr().err)
    assert "evaluate" not in read_commits(copy)[-1].done
    coevolve.run(config, copy, dry_run=False)
    assert outcome(copy) == outcome(whole)


def test_a_folder_of_an_earlier_version_is_left_alone(config, tmp_path):
    (tmp_path / "commits.jsonl").write_text('{"demos": 3}\n')
    with pytest.raises(InputError, match="earlier version"):
        coevolve.run(config, tmp_path, dry_run=False)
    assert [p.name for p in tmp_path.iterdir()] == ["commits.jsonl"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_that_is_stopped_or_killed_goes_on(number, config, whole, tmp_path, repository):
    experiment = tmp_path / "small.py"
    experiment.write_text(EXPERIMENT)
    run = tmp_path / "run"
    command = [sys.executable, "-m", "coda_jax.main", f"--config={experiment}", f"--workdir={run}"]
    environment = os.environ | {"PYTHONPATH": str(repository)}
    process = subprocess.Popen(command, cwd=repository, env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (commits := read_commits(run)) or commits[-1].demos < 4:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(60) == (3 if number == signal.SIGTERM else -number)
    assert "evaluate" not in read_commits(run)[-1].done
    subprocess.run(command, cwd=repository, env=environment, check=True, capture_output=True)
    assert outcome(run) == outcome(whole)
    np.testing.assert_array_equal(parameters(config, run), parameters(config, whole))
