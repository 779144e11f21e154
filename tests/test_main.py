"""The command line: one clear message and the right exit code for each mistake."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coda_jax import config as settings
from coda_jax import main as command_line
from coda_jax import runtime
from coda_jax.main import BAD_INPUT, BUG, DONE, MODES, RESUMABLE


@pytest.fixture
def experiment(tmp_path) -> Path:
    path = tmp_path / "small.py"
    path.write_text(
        "from coda_jax import config as settings\n"
        "def get_config(variant=''):\n"
        "    config = settings.default()\n"
        "    if variant:\n"
        "        config.clone.stpes = 3\n"
        "    return config\n"
    )
    return path


def test_help_names_every_mode_and_the_exit_codes(capsys):
    assert command_line.main(["--help"]) == DONE
    text = capsys.readouterr().out
    assert all(f"\n  {mode} " in text for mode in MODES)
    assert "exit codes: 0 done" in text


def test_no_arguments_print_the_help(capsys):
    assert command_line.main([]) == BAD_INPUT
    assert "usage:" in capsys.readouterr().out


REMOTE = ["--mode=evaluate", "--config=EXPERIMENT", "--config.policy.kind=remote", "--workdir=TMP"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config=EXPERIMENT", "--config.clone.stpes=3"], "did you mean config.clone.steps"),
        (["--config.clone.steps=x", "--config=EXPERIMENT"], "config.clone.steps"),
        (["--config=EXPERIMENT", "--config.clone.steps", "x"], 'given as "x"'),
        (["--config=EXPERIMENT", "--config.seed"], "--config.seed needs a value"),
        (["--config=EXPERIMENT:typo"], "line 5"),
        (["--config=missing/nothing.py"], "there is no experiment file"),
        (["--mode=serve"], "--mode=serve needs --workdir=FOLDER of a run, or --config=FILE.py"),
        (["--config=EXPERIMENT", "--config.policy.kind=remote"], "--mode=run needs a policy that was trained here"),
        (["--mode=sweep", "--config=EXPERIMENT", "--config.policy.kind=remote"], "--mode=sweep needs a policy that was trained here"),
        (["--mode=serve", "--config=EXPERIMENT", "--workdir=nowhere"], "nowhere holds no run"),
        (["--config=EXPERIMENT", "--config.remote.address=localhost"], "config.remote.address must be the address of a policy server"),
        (["--config=EXPERIMENT", "--config.remote.address=ws://me:secret@host"], "without a password"),
        (["--config=EXPERIMENT", "--config.remote.address=ws://host:99999"], "config.remote.address must be"),
        (["--config=EXPERIMENT", "--config.remote.key_variable=my key"], "must be the name of an environment variable"),
        (["--config=EXPERIMENT", "--config.serve.port=70000"], "config.serve.port is 70000; it must be at most"),
        (
            [
                "--mode=evaluate",
                "--config=EXPERIMENT",
                "--config.policy.kind=remote",
                "--config.remote.address=ws://localhost:9",
                "--workdir=TMP",
            ],
            "no policy server answers at ws://localhost:9 ",
        ),
        (
            [
                "--mode=evaluate",
                "--config=EXPERIMENT",
                "--config.policy.kind=remote",
                "--config.remote.key_variable=NO_SUCH_KEY",
                "--workdir=TMP",
            ],
            "the environment variable NO_SUCH_KEY, which config.remote.key_variable names, is not set",
        ),
        (["--mode=rum"], "use one of: run"),
        (["--cofig=x"], "Did you mean: config"),
        (["stray"], '"stray" is no flag'),
        (["--mode=run"], "needs --config=FILE.py"),
        (["--mode=check"], "needs --program"),
        (["--mode=check", "--program=nothing.py"], "does not exist"),
        (["--mode=report"], "needs --workdir"),
        (["--mode=report", "--workdir=nowhere"], "is no run folder"),
        (["--mode=evaluate", "--workdir=nowhere"], "is no run folder"),
        (["--mode=report", f"--workdir={'x' * 300}"], "File name too long"),
        ([f"--config={'x' * 300}"], "xxx cannot be used (File name too long"),
        (["--config=EXPERIMENT", f"--workdir={'x' * 300}"], "File name too long"),
        (["--mode=check", f"--program={'x' * 300}"], "File name too long"),
        (["--config=EXPERIMENT", "--workdir="], "--workdir is empty; name a folder"),
        (["--config=EXPERIMENT", "--config.evaluate.suites="], "config.evaluate.suites is ()"),
        (["--mode=evaluate", "--config.seed=3"], "--mode=evaluate needs --workdir=FOLDER of a run, or --config=FILE.py"),
        (["--mode=view", "--catalogue=all", "--config.scenes.own_assets=nowhere"], "config.scenes.own_assets: nowhere"),
        (
            ["--config=EXPERIMENT", "--config.agents.kind=llm"],
            "set --config.agents.llm.model=NAME, or the environment variable CODA_JAX_MODEL",
        ),
        (["--config=EXPERIMENT", "--config.agents.llm.replay=x"], "but no agent asks a language model"),
        (["--config=EXPERIMENT", "--config.seed=4294967296"], "config.seed is 4294967296; it must be at most"),
    ],
)
def test_bad_input_exits_2_with_one_message(arguments, message, experiment, capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("CODA_JAX_MODEL", raising=False)
    given = [a.replace("EXPERIMENT", str(experiment)).replace("TMP", str(tmp_path / "new")) for a in arguments]
    assert command_line.main(given) == BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.startswith("error: ") and captured.err.count("error: ") == 1
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def get_config(:\n", "line 1"),
        ("x = 1\n", "get_config"),
        ("def get_config():\n    return 3\n", "returned a int"),
        ("import no_such_module\n", "line 1: ModuleNotFoundError"),
        (
            "from ml_collections import ConfigDict\ndef get_config():\n    return ConfigDict({'seed': 0})\n",
            "is missing: begin the experiment file",
        ),
    ],
)
def test_broken_experiment_files_are_named(text, message, tmp_path, capsys):
    path = tmp_path / "broken.py"
    path.write_text(text)
    assert command_line.main([f"--config={path}"]) == BAD_INPUT
    error = capsys.readouterr().err
    assert str(path) in error or "begin the experiment file" in error
    assert message in error


def test_overrides_are_taken_from_anywhere(experiment):
    command = command_line.parse(["--config.clone.steps=700", f"--config={experiment}", "--config.sim.backend", "native", "--dry_run"])
    assert command.config is not None
    assert (command.config.clone.steps, command.config.sim.backend, command.dry_run) == (700, "native", True)
    assert command.workdir == Path("runs/small")


@pytest.mark.parametrize("mode", ["check", "view", "doctor"])
def test_overrides_without_a_configuration_change_the_defaults(mode, tmp_path, experiment):
    from coda_jax.loop import workdir as folders

    def seed_of(*arguments: str) -> int:
        command = command_line.parse([f"--mode={mode}", f"--program={experiment}", "--config.sim.worlds=3", *arguments])
        assert command.config is not None and command.config.sim.worlds == 3
        return command.config.seed

    assert seed_of() == seed_of(f"--workdir={tmp_path / 'none'}") == settings.default().seed
    given = command_line.parse([f"--config={experiment}", "--config.seed=7"]).config
    assert given is not None
    with folders.open_run(tmp_path / "run", given):
        pass
    assert seed_of(f"--workdir={tmp_path / 'run'}") == 7


def test_variant_names_its_own_workdir(repository):
    assert command_line.parse([f"--config={repository}/experiments/quickstart.py:smoke"]).workdir == Path("runs/quickstart-smoke")


def test_every_experiment_is_valid(repository):
    for path in sorted((repository / "experiments").rglob("*.py")):
        command_line.parse([f"--config={path}"])


def test_workdir_of_another_configuration_is_refused_before_jax(experiment, tmp_path, capsys):
    workdir = tmp_path / "run"
    from coda_jax.loop import workdir as folders

    command = command_line.parse([f"--config={experiment}", f"--workdir={workdir}"])
    assert command.config is not None
    with folders.open_run(workdir, command.config):
        pass
    before = {p.name: p.read_bytes() for p in workdir.iterdir()}
    code = (
        "import sys; from coda_jax.main import main; "
        f"rc = main(['--config={experiment}', '--workdir={workdir}', '--config.clone.steps=7000']); "
        "print('jax' in sys.modules); sys.exit(rc)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == BAD_INPUT
    assert f"clone.steps: {command.config.clone.steps} -> 7000" in done.stderr
    assert done.stdout.strip() == "False"
    assert {p.name: p.read_bytes() for p in workdir.iterdir()} == before
    mistyped = [f"--config={experiment}", f"--workdir={workdir}", "--config.own_families=no_such_module_of_mine"]
    assert command_line.main(mistyped) == BAD_INPUT
    assert "no_such_module_of_mine cannot be imported" in capsys.readouterr().err
    assert command_line.main([f"--config={experiment}", f"--workdir={workdir}", "--config.clone.steps=7000", "--dry_run"]) == DONE
    out = capsys.readouterr().out
    assert "updates         7,000" in out and "goes on" not in out
    assert f"REFUSED         {workdir} belongs to another configuration" in out
    assert {p.name: p.read_bytes() for p in workdir.iterdir()} == before


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (runtime.InputError("mug_1 is too heavy"), BAD_INPUT, "error: mug_1 is too heavy"),
        (runtime.Stopped("stopped after the last commit"), RESUMABLE, "stopped after the last commit"),
        (KeyboardInterrupt(), RESUMABLE, "goes on from the last commit"),
        (OSError(28, "No space left on device", "x"), RESUMABLE, "the disk is full"),
        (OSError(30, "Read-only file system", "runs/x"), BAD_INPUT, "error: runs/x cannot be used (Read-only file system)"),
        (PermissionError(13, "Permission denied", "runs/x"), BAD_INPUT, "error: runs/x cannot be used (Permission denied)"),
        (ZeroDivisionError("no"), BUG, "a bug in coda_jax (ZeroDivisionError"),
    ],
)
def test_exit_codes(raised, code, message, monkeypatch, capsys):
    def dispatch(command):
        raise raised

    monkeypatch.setattr(command_line, "dispatch", dispatch)
    assert command_line.main(["--mode=doctor"]) == code
    assert message in capsys.readouterr().err


def test_a_report_without_its_summary_is_refused(experiment, tmp_path, capsys):
    from coda_jax.loop import workdir as folders

    config = command_line.parse([f"--config={experiment}"]).config
    with folders.open_run(tmp_path / "run", config):
        pass
    assert command_line.main(["--mode=report", f"--workdir={tmp_path / 'run'}"]) == BAD_INPUT
    assert "summary.json does not exist: run --mode=run" in capsys.readouterr().err
    (tmp_path / "run" / "summary.json").write_text("{")
    assert command_line.main(["--mode=report", f"--workdir={tmp_path / 'run'}"]) == BAD_INPUT
    assert "summary.json does not follow" in capsys.readouterr().err


def test_check_prints_one_json_line_each_and_exits_2(tmp_path, capsys):
    (tmp_path / "a_loop.py").write_text("while True:\n    pass\n")
    (tmp_path / "b_syntax.py").write_text("result = scene(\n")
    (tmp_path / "c_binary.py").write_bytes(b"\xff\xfe")
    (tmp_path / "notes.md").write_text("not a program")
    arguments = ["--mode=check", f"--program={tmp_path}", "--config=EXPERIMENT", "--config.sandbox.time_s=0.2"]
    config = tmp_path.parent / "check_config.py"
    config.write_text("from coda_jax.config import default as get_config\n")
    assert command_line.main([a.replace("EXPERIMENT", str(config)) for a in arguments if ":" not in a]) == BAD_INPUT
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(Path(r["program"]).name, r["accepted"], r["kind"]) for r in rows] == [
        ("a_loop.py", False, "limit_time"),
        ("b_syntax.py", False, "syntax"),
        ("c_binary.py", False, "text"),
    ]
