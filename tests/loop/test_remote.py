"""A run's policy evaluated over the network: by itself served, it does what it does at home."""

import os
import signal
import subprocess
import sys

import pytest

from coda_jax import main as command_line
from coda_jax.doors import serving
from coda_jax.doors.server import PolicyServer, ServeSettings
from coda_jax.evaluation.metrics import read_summary
from coda_jax.evaluation.records import read_records
from coda_jax.learning.policies.remote import RemotePolicy, RemoteSettings
from coda_jax.loop import coevolve, workdir
from coda_jax.runtime import InputError
from tests.loop.small import EXPERIMENT, small_config


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run."""
    folder, config = tmp_path_factory.mktemp("served"), small_config()
    with workdir.open_run(folder, config):
        coevolve.run(config, folder, dry_run=False)
    return folder


def results(folder):
    return [(r.suite, r.scene_id, r.seed, r.success, r.steps, r.phase_failed) for r in read_records(folder)]


@pytest.mark.slow
def test_a_served_run_is_evaluated_as_at_home_and_goes_on_where_it_was(whole, tmp_path, capsys):
    (tmp_path / "experiment.py").write_text(EXPERIMENT)
    served = serving.of_run(workdir.read_config(whole), whole)
    assert served.metadata["families"] == ["pick_place"] and len(served.metadata["policy_sha256"]) == 64
    with PolicyServer(served.infer, served.metadata, ServeSettings("127.0.0.1", 0, 4, 1.0)) as server:
        command = [
            "--mode=evaluate",
            f"--config={tmp_path / 'experiment.py'}",
            "--config.policy.kind=remote",
            f"--config.remote.address=ws://127.0.0.1:{server.port}",
            f"--workdir={tmp_path / 'remote'}",
        ]
        assert command_line.main([*command, "--dry_run"]) == 0 and not (tmp_path / "remote").exists()
        assert command_line.main(command) == 0, capsys.readouterr().err
        folder = tmp_path / "remote" / "evaluations" / "validation-e4-id+tasks-3scenes"
        assert results(folder) == results(whole)
        assert read_summary(folder).suites == read_summary(whole).suites
        asked = server.answered
        assert asked > 0 and command_line.main(command) == 0
        assert "done already: id, tasks" in capsys.readouterr().out and server.answered == asked
    assert command_line.main(command) == 2
    assert "no policy server answers" in capsys.readouterr().err


@pytest.mark.slow
def test_serving_ends_with_ctrl_c(whole):
    command = [sys.executable, "-m", "coda_jax.main", "--mode=serve", f"--workdir={whole}", "--config.serve.port=0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if " at ws://127.0.0.1:" in line)
        address = "ws://" + line.split("ws://")[1].split(",")[0]
        with RemotePolicy(RemoteSettings(address, 20.0, 0, 1)) as policy:
            with pytest.raises(InputError, match="coda/ee_pos is missing"):
                policy.chunks([{"prompt": "put the red mug on the tray"}], 4)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0 and "refused 1 messages" in out, (out, err)
