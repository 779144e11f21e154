"""A run that begins with another one's memory: the file is hostile, its programs are written anew, its statistics are priors."""

import dataclasses
import sqlite3
from pathlib import Path

import pytest

from coda_jax import main as command_line
from coda_jax.evaluation.metrics import read_metrics
from coda_jax.loop import coevolve, starting_memory
from coda_jax.loop import workdir as folders
from coda_jax.loop.journal import read_commits
from coda_jax.loop.run import opened
from coda_jax.loop.stages import next_stage, run_stage
from coda_jax.memory.provenance import provenance
from coda_jax.memory.rows import ControlTest, Diagnosis, Mode, Program, Scene
from coda_jax.memory.store import FILE, Memory
from coda_jax.runtime import InputError
from tests.memory import made

REPOSITORY = Path(__file__).parents[2]
NANO = REPOSITORY / "experiments" / "nano.py"
MASS = 'result = generation(factor="attributes", roles=[role("target")], edits=[edit("mass", low=0.1, high=1.0)], level=0.5)\n'


def nano(path: Path, start_mode: str = "live"):
    config = command_line.load_config(str(NANO))
    config.memory.start, config.memory.start_mode = str(path), start_mode
    config.seed, config.rounds.count = 1, 1
    config.evaluate.suites, config.evaluate.scenes, config.evaluate.films = ("id",), 1, 0
    config.demos.count, config.clone.steps = 8, 60
    config.diagnose.failures, config.engine.modes, config.control.modes, config.control.rollouts = 1, 3, 3, 1  # room for imported modes
    config.allocation.novelty = 0.0
    return config


def store(folder: Path, *rows) -> Path:
    """A memory as a finished run leaves it."""
    folder.mkdir(exist_ok=True)
    with Memory.open(folder / FILE) as memory, memory.transaction() as t:
        for row in rows:
            t.add(row)
        t.commit("evaluate", 0, "{}")
    return folder / FILE


HEAVY = made.mode("mass of target high", factor="ATTRIBUTE", phase="transport", severity=0.3, importance=0.4, status="kept", round=3)
CLEAR = made.mode("gap to neighbour low", importance=0.2, round=2)
GONE = made.mode("turn of target high", status="removed", round=2)


@pytest.fixture
def other(tmp_path):
    rows = [HEAVY, CLEAR, GONE]
    rows = [dataclasses.replace(m, version=1) for m in rows]
    clearance = 'result = generation(factor="spatial", roles=[role("target"), role("neighbour")], edits=[edit("clearance")], level=0.4)'
    turn = 'result = generation(factor="spatial", roles=[role("target")], edits=[edit("yaw")], level=0.4)'
    programs = [
        made.program(MASS, mode_id=HEAVY.mode_id, status="active", verdict="confirmed", level=0.75),
        made.program(clearance, mode_id=CLEAR.mode_id, verdict="undecided"),
        made.program(turn, mode_id=GONE.mode_id, status="retired", verdict="refuted"),
    ]
    return store(tmp_path / "other", *rows, *programs)


@pytest.mark.parametrize("start_mode", ["live", pytest.param("frozen", marks=pytest.mark.slow)])
def test_a_run_begins_with_the_memory_of_another(start_mode, other, tmp_path):
    config, folder = nano(other, start_mode), tmp_path / "run"
    with folders.open_run(folder, config):
        coevolve.run(config, folder, dry_run=False)
    first = read_commits(folder)[0]
    assert (first.stage, first.done) == ("memory", ["memory"])
    with Memory.reading(folder / FILE) as memory:
        modes, programs = memory.rows(Mode, "ORDER BY mode_id, version"), memory.rows(Program)
        imported = {m.mode_id: m for m in modes if m.round == 0}
        assert set(imported) == {m.mode_id for m in ((HEAVY, CLEAR, GONE) if start_mode == "live" else (HEAVY, CLEAR))}
        assert {(m.version, m.severity) for m in imported.values()} == {(1, None)}  # what another policy did says nothing of this one
        assert imported[HEAVY.mode_id].importance == 0.4
        begun = [p for p in programs if p.round == 0]
        assert len(begun) == len(imported) and all(p.verdict is None and p.version == 1 for p in begun)
        assert all("result = generation(" in p.text and p.text.startswith("# ") for p in begun)
        later_programs, later_modes = [p for p in programs if p.round], [m for m in modes if m.round]
        of_imported = [p for p in later_programs if p.mode_id in imported]
        assert of_imported  # the run works with them
        tests, diagnoses = memory.rows(ControlTest), memory.rows(Diagnosis)
        if start_mode == "frozen":
            assert not {m.mode_id for m in later_modes} & set(imported)
            assert not {p.program_id for p in later_programs} & {p.program_id for p in begun}
            assert all(p.text.startswith("# as imported program") or p.mode_id not in imported for p in later_programs)
        else:
            assert {p.program_id for p in of_imported} & {p.program_id for p in begun}
        assert tests and all(t.mode_id in {p.mode_id for p in later_programs} for t in tests)
        made_here = [s for s in memory.rows(Scene) if s.program_id in {p.program_id for p in begun}]
        for scene in made_here:
            assert provenance(memory, scene.scene_id).imported == (scene.program_id,)
        assert made_here or start_mode == "frozen"
    rows = read_metrics(folder / "metrics.jsonl")
    (told,) = [r for r in rows if r["kind"] == "starting_memory"]
    assert told["start_mode"] == start_mode and set(told["programs"]) == {p.program_id for p in begun}
    assert {r["mode"] for r in rows if r["kind"] == "imported"} == set(imported)
    assert (">imported<" in (folder / "report.html").read_text()) == bool(set(imported) - {d.mode_id for d in diagnoses})


def test_what_was_imported_is_not_read_again(other, tmp_path):
    config, folder = nano(other), tmp_path / "run"
    folder.mkdir()
    with opened(config, folder) as job:
        stage = next_stage(config, job.state)
        assert stage is not None and stage.name == "memory"
        run_stage(job, stage)
        stored = job.memory.rows(Mode), job.memory.rows(Program)
    other.unlink()
    starting_memory.check(config, folder)
    with opened(config, folder) as job:
        stage = next_stage(config, job.state)
        assert stage is not None and stage.name == "scenes"
        assert (job.memory.rows(Mode), job.memory.rows(Program)) == stored and len(stored[0]) == len(stored[1]) == 3


def test_what_cannot_be_used_is_left_out_and_counted(tmp_path):
    odd = made.mode("turn \u202e high", status="kept")
    accented = made.mode("turn h\u00efgh")
    nowhere = made.mode("turn high", phase="dancing")
    elsewhere = made.mode("turn high", family="pouring")
    away = 'result = generation(factor="spatial", roles=[role("target")], edits=[edit("yaw")], level=0.5)\n'
    path = store(
        tmp_path / "other",
        *(dataclasses.replace(m, version=1) for m in (HEAVY, CLEAR, odd, accented, nowhere, elsewhere)),
        made.program(MASS + "# and a remark", mode_id=HEAVY.mode_id, status="active", verdict="confirmed", level=0.75),
        made.program(away, mode_id=HEAVY.mode_id),
        made.program(MASS + "#", mode_id=HEAVY.mode_id, status="active", level=0.75),
        made.program("open('/etc/passwd')\n" + MASS, mode_id=HEAVY.mode_id),
        made.program('result = generation(factor="attributes", roles=[role("target")], edits=[edit("weight")])', mode_id=HEAVY.mode_id),
        made.program(MASS + "# odd", mode_id=odd.mode_id),
        made.program("tools()", kind="training", mode_id=HEAVY.mode_id),
    )
    (tmp_path / "run").mkdir()
    with opened(nano(path), tmp_path / "run") as job:
        finished = starting_memory.run_stage(job)
        job.metrics.commit()
    modes = [r for r in finished.rows if isinstance(r, Mode)]
    programs = [r for r in finished.rows if isinstance(r, Program)]
    assert {m.mode_id for m in modes} == {HEAVY.mode_id, CLEAR.mode_id}
    (kept,) = programs
    assert (kept.level, kept.status, kept.verdict, kept.round) == (0.75, "candidate", None, 0)
    assert "remark" not in kept.text and 'edit("mass", low=0.1, high=1.0)' in kept.text  # only what it says
    (told,) = [r for r in read_metrics(tmp_path / "run" / "metrics.jsonl") if r["kind"] == "starting_memory"]
    assert sum(told["refused"].values()) == 10 and told["refused"]["program: the same as another one"] == 1
    assert told["refused"]["program: of another factor than its mode"] == 1
    assert len(told["sha256"]) == 64 and list(told["programs"]) == [kept.program_id]


def test_a_program_that_stalls_every_worker_refuses_the_file(tmp_path):
    path = store(tmp_path / "other", dataclasses.replace(HEAVY, version=1), made.program("while True:\n    pass\n", mode_id=HEAVY.mode_id))
    config = nano(path)
    config.sandbox.time_s = config.sandbox.grace_s = 0.1
    (tmp_path / "run").mkdir()
    with opened(config, tmp_path / "run") as job, pytest.raises(InputError, match="kills or stalls every worker"):
        starting_memory.run_stage(job)


def test_a_file_that_changes_while_it_is_read_is_refused(other, tmp_path, monkeypatch):
    read = starting_memory.read

    def read_and_change(config):
        found = read(config)
        with Memory.open(other) as memory, memory.transaction() as t:
            t.add(made.scene(7))
            t.commit("evaluate", 0, "{}")
        return found

    monkeypatch.setattr(starting_memory, "read", read_and_change)
    (tmp_path / "run").mkdir()
    with opened(nano(other), tmp_path / "run") as job, pytest.raises(InputError, match="was written while it was read"):
        starting_memory.run_stage(job)


def _absent(path: Path) -> None:
    path.unlink()


def _text(path: Path) -> None:
    path.write_text("no database at all")


def _foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE modes (mode_id TEXT)")


def _trigger(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TRIGGER evil AFTER INSERT ON scenes BEGIN DELETE FROM scenes; END")


def _changed(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE mode_versions SET importance = 0.9")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def _no_modes(path: Path) -> None:
    path.unlink()
    store(path.parent, made.scene())


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_absent, "cannot be read: No such file"),
        (_text, "is no SQLite file"),
        (_foreign, "another program wrote this SQLite file"),
        (_trigger, "it holds the trigger 'evil'"),
        (_changed, "are not what was committed"),
        (_cut, "damaged"),
        (_no_modes, "it knows no difficulty mode of pick_place"),
    ],
)
def test_a_file_that_cannot_be_used_ends_with_2_before_anything_runs(harm, message, other, tmp_path, monkeypatch, capsys):
    harm(other)
    monkeypatch.setattr(coevolve, "warm_up", lambda job: pytest.fail("the run began"))
    command = [f"--config={NANO}", f"--config.memory.start={other}", f"--workdir={tmp_path / 'run'}"]
    for more in ([], ["--dry_run"]):
        assert command_line.main([*command, *more]) == command_line.BAD_INPUT
        error = capsys.readouterr().err
        assert message in error and str(other) in error
    assert not (tmp_path / "run" / "config.json").exists()  # the folder is free for mended settings


@pytest.mark.parametrize("change", ["--config.strategy=uniform", "--config.strategy=coda_no_memory", "--config.rounds.count=0"])
def test_a_run_that_uses_no_memory_takes_none(change, other, tmp_path, capsys):
    command = [f"--config={NANO}", f"--config.memory.start={other}", f"--workdir={tmp_path / 'run'}", change]
    assert command_line.main(command) == command_line.BAD_INPUT
    assert "uses none; leave it empty" in capsys.readouterr().err
