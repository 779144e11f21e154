"""A sweep of kept checkpoints: the cells are what each checkpoint does alone, and a stopped sweep goes on."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from coda_jax import config as settings
from coda_jax import main as command_line
from coda_jax import runtime
from coda_jax.evaluation.records import read_records
from coda_jax.evaluation.sweep_results import read_cells
from coda_jax.loop import coevolve, evaluate, sweep
from coda_jax.loop import workdir as folders
from coda_jax.loop.checkpoint import Checkpoints
from coda_jax.loop.run import CHECKPOINTS
from coda_jax.runtime import InputError
from coda_jax.sim.bucket import Bucket
from tests.loop.small import small_config


@pytest.fixture(scope="module")
def job():
    """Of the run."""
    config = small_config()
    config.checkpoint.keep = 3
    config.demos.count = 4
    config.evaluate.suites, config.evaluate.scenes, config.evaluate.films = ("id",), 1, 0
    return config


@pytest.fixture(scope="module")
def config(job):
    """Of its sweeps: short episodes."""
    return changed(
        job, evaluate__suites=("id", "tasks"), evaluate__scenes=3, sweep__temperatures=(0.0, 1.0), horizon__pick_place=16, sweep__block=0
    )


@pytest.fixture(scope="module")
def whole(job, config, tmp_path_factory):
    """A finished run, and its sweep with every policy asked by itself."""
    folder = tmp_path_factory.mktemp("whole")
    with folders.open_run(folder, job):
        coevolve.run(job, folder, dry_run=False)
    sweep.run(config, folder, (), dry_run=False)
    return folder


@pytest.fixture
def copy(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "copy"))


@pytest.fixture
def unswept(copy):
    shutil.rmtree(copy / sweep.FOLDER)
    return copy


def cells_of(folder):
    return {(c.step, c.suite, c.temperature): c for c in read_cells(folder / sweep.FOLDER / "cells.jsonl")}


def changed(config, **values):
    other = config.copy_and_resolve_references()
    for key, value in values.items():
        section, name = key.split("__")
        other[section][name] = value
    return other


def test_a_cell_is_what_evaluating_its_checkpoint_alone_gives(config, copy, capsys):
    cells = cells_of(copy)
    assert set(cells) == {(step, suite, t) for step in (20, 40, 60) for suite in ("id", "tasks") for t in (0.0, 1.0)}
    evaluate.run(config, copy, dry_run=False)  # the newest checkpoint, without a temperature
    records = read_records(copy / "evaluations" / evaluate.folder_name(config))
    for suite in ("id", "tasks"):
        own = [r for r in records if r.suite == suite]
        assert cells[60, suite, 1.0].verdicts == "".join("01"[r.success] for r in own)
        assert cells[60, suite, 1.0].control_steps == sum(r.steps for r in own)
    capsys.readouterr()
    sweep.run(config, copy, (), dry_run=False)
    out = capsys.readouterr().out
    assert "12 cells, 12 done already, 0 rollouts to do" in out
    assert re.search("^(no )?best of id: (copy step|every cell has)", out, re.M)
    page = (copy / sweep.FOLDER / "sweep.html").read_text()
    assert "temperature 0" in page and "<script" not in page and 'aria-label="tasks"' in page


def test_blocks_of_worlds_give_the_same_verdicts(config, whole, unswept):
    sweep.run(changed(config, sweep__block=4), unswept, (), dry_run=False)
    exact, stacked = cells_of(whole), cells_of(unswept)
    assert {k: c.verdicts for k, c in stacked.items()} == {k: c.verdicts for k, c in exact.items()}
    assert all(stacked[k].conditions != exact[k].conditions for k in exact)


def test_a_second_start_does_what_is_missing(config, copy, capsys):
    path = copy / sweep.FOLDER / "cells.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]) + lines[-1][:30])  # what a kill leaves
    capsys.readouterr()
    sweep.run(config, copy, (), dry_run=True)
    assert "12 cells, 10 done already, 6 rollouts to do" in capsys.readouterr().out
    sweep.run(config, copy, (), dry_run=False)
    named = re.search(rb'"run":"\w+"', lines[0])
    assert named is not None
    again = [line.replace(b'"run":"copy"', named[0]) for line in path.read_bytes().splitlines(keepends=True)]
    assert sorted(again) == sorted(lines)
    path.write_bytes(b'{"run": "x"}\n' + b"".join(lines))
    with pytest.raises(InputError, match=r"cells\.jsonl:1 is no cell of a sweep"):
        sweep.run(config, copy, (), dry_run=False)


def test_equal_checkpoints_are_measured_once_and_shown_each(config, copy, tmp_path, capsys):
    other = Path(shutil.copytree(copy, tmp_path / "other"))
    capsys.readouterr()
    sweep.run(config, copy, (other,), dry_run=False)
    out = capsys.readouterr().out
    assert "6 checkpoints x 2 temperatures x 2 suites" in out and "12 cells, 12 done already" in out
    rows = [line.split("  ")[0].strip() for line in out.splitlines() if " step " in line and "best of" not in line]
    assert rows == 2 * [f"{run} step {step}" for run in ("copy", "other") for step in (20, 40, 60)]
    page = (copy / sweep.FOLDER / "sweep_other.html").read_text()
    assert "12 cells, 36 rollouts" in page and page.count('"best"') <= 2
    assert "other step" not in (copy / sweep.FOLDER / "sweep.html").read_text()


def test_the_newest_checkpoint_is_so_where_an_older_one_holds_the_same(config, copy):
    """The last update went back to the first checkpoint."""
    kept = sweep.kept(config, copy, ())
    back = [*kept[:2], dataclasses.replace(kept[2], sha256=kept[0].sha256)]
    scenes = sweep.evaluation.chosen_scenes(config)["id"]
    wanted = sweep._wanted(config, "id", scenes, back, Bucket(6, 6))
    assert [cell.policy for cell in wanted.values()] == [0, 0, 1, 1]
    measured = {
        key: dataclasses.replace(read_cells(copy / sweep.FOLDER / "cells.jsonl")[0], sha256=key[0], temperature=key[2]) for key in wanted
    }
    shown = sweep._of_every_checkpoint(config, "id", scenes, back, Bucket(6, 6), measured)
    assert [(c.step, c.temperature) for c in shown] == [(step, t) for step in (20, 40, 60) for t in (0.0, 1.0)]
    usual = sweep.usual_of(shown, back[-1])
    assert (usual.step, usual.temperature, usual.sha256) == (60, 1.0, kept[0].sha256)


def test_other_runs_stand_beside(config, unswept, tmp_path):
    copy, other = unswept, Path(shutil.copytree(unswept, tmp_path / "other"))
    with Checkpoints(other / CHECKPOINTS, 3) as checkpoints:
        for step in (20, 40):  # or both hold the same and are one
            tree = checkpoints.restore(sweep.cloning.template(config, step), step).tree
            checkpoints.save(step, jax.tree.map(lambda x: x + 1e-3 if x.dtype == np.float32 else x, tree))
    newest = changed(config, sweep__checkpoints=1, evaluate__suites=("id",))
    assert [(k.run, k.step) for k in sweep.kept(newest, copy, (other,))] == [("copy", 60), ("other", 60)]
    (other / CHECKPOINTS / "seal_60.json").unlink()
    sweep.run(newest, copy, (other,), dry_run=False)
    assert {(c.run, c.step) for c in read_cells(copy / sweep.FOLDER / "cells.jsonl")} == {("copy", 60), ("other", 40)}
    stored = json.loads((other / "config.json").read_text())
    stored["config"]["policy"]["euler_steps"] = 3
    (other / "config.json").write_text(json.dumps(stored))
    with pytest.raises(InputError, match="policy.euler_steps 5 -> 3"):
        sweep.run(newest, copy, (other,), dry_run=True)


def test_damaged_and_unusable_checkpoints_are_refused(config, unswept, caplog):
    copy = unswept
    with Checkpoints(copy / CHECKPOINTS, 3) as checkpoints:
        tree = checkpoints.restore(sweep.cloning.template(config, 40), 40).tree
        checkpoints.save(40, jax.tree.map(lambda x: x * np.nan if x.dtype == np.float32 else x, tree))
    with pytest.raises(InputError, match="checkpoints/40 holds numbers that are not finite"):
        sweep.run(config, copy, (), dry_run=False)
    for step in (20, 40, 60):
        next(p for p in (copy / CHECKPOINTS / str(step)).rglob("*") if p.is_file()).write_bytes(b"damage")
    with pytest.raises(InputError, match="has no intact checkpoint"):
        sweep.run(config, copy, (), dry_run=False)
    assert "is damaged" in caplog.text


def test_the_test_split_is_only_swept_when_asked_for(config, copy, capsys):
    on_test = changed(config, evaluate__split="test")
    with pytest.raises(InputError, match=r"config\.sweep\.test=true"):
        sweep.run(on_test, copy, (), dry_run=True)
    sweep.run(changed(on_test, sweep__test=True), copy, (), dry_run=True)
    assert "on test: 12 cells, 0 done already" in capsys.readouterr().out


def test_the_command_line_reaches_it(config, copy, capsys):
    assert command_line.main(["--mode=sweep", f"--workdir={copy}", "--config.sweep.temperatures=0.5", "--dry_run"]) == command_line.DONE
    assert "3 checkpoints x 1 temperature x 1 suite on validation: 3 cells" in capsys.readouterr().out
    assert command_line.main(["--mode=sweep", f"--workdir={copy}", "--config.sweep.temperatures=-1"]) == command_line.BAD_INPUT
    assert "config.sweep.temperatures is (-1.0,)" in capsys.readouterr().err
    assert command_line.main(["--mode=sweep"]) == command_line.BAD_INPUT


def test_a_stop_keeps_the_finished_cells(config, unswept, monkeypatch):
    copy, calls = unswept, []

    def stop():
        calls.append(1)
        if len(calls) == 20:
            raise runtime.Stopped("by the test")

    monkeypatch.setattr(runtime, "check_stop", stop)
    with pytest.raises(runtime.Stopped):
        sweep.run(config, copy, (), dry_run=False)
    done = cells_of(copy)
    assert 0 < len(done) < 12
    sweep.run(config, copy, (), dry_run=False)
    again = cells_of(copy)
    assert len(again) == 12 and all(again[k] == c for k, c in done.items())


def test_settings_of_sweeps_do_not_bind_a_run(job, whole):
    assert folders.check(whole, changed(job, sweep__temperatures=(0.3,)))
    with pytest.raises(InputError, match="demos.count: 4 -> 5"):
        folders.check(whole, changed(job, demos__count=5))


def test_a_policy_of_pictures_is_refused(tmp_path):
    config = settings.default()
    config.obs = "pixels"
    with pytest.raises(InputError, match=r"policy of pictures \(config\.obs=pixels\).*--mode=evaluate"):
        sweep.kept(config, tmp_path, ())


def test_where_all_cells_are_equal_none_is_the_best(config, copy):
    first = read_cells(copy / sweep.FOLDER / "cells.jsonl")[0]
    alike = [dataclasses.replace(first, temperature=t, verdicts="010") for t in (0.0, 0.5, 1.0)]
    assert sweep.best_of(alike) is None and sweep.best_of(alike[:1]) == alike[0]
    better = dataclasses.replace(first, temperature=2.0, verdicts="011")
    assert sweep.best_of([*alike, better]) == better


def test_whose_figures_a_sweep_gives_is_said(config, copy, capsys):
    """Of a run with rounds and a critic, which chooses in the run's own evaluation."""
    capsys.readouterr()
    sweep.run(config, copy, (), dry_run=False)
    assert "The policy alone acts in a sweep" not in capsys.readouterr().out
    sweep.run(changed(config, rounds__count=1), copy, (), dry_run=False)
    assert "The policy alone acts in a sweep" in capsys.readouterr().out
