"""The doctor finds what is wrong and names the command."""

import importlib.metadata

import pytest

from coda_jax import config as settings
from coda_jax.learning.encoders import minilm
from coda_jax.loop import doctor


def test_this_machine_can_run(capsys, tmp_path):
    doctor.run(settings.default(), tmp_path)
    out = capsys.readouterr().out
    for name in ("devices", "physics", "sandbox"):
        assert f"ok       {name} " in out


def test_missing_text_encoder_prints_the_command(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    finding = doctor.text_encoder()
    assert finding.level == doctor.PROBLEM
    assert finding.remedy.endswith(minilm.INSTALL_COMMAND)


def test_little_disk_is_a_problem(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "NEEDED_DISK_BYTES", 2**60)
    finding = doctor.disk(tmp_path / "not" / "there")
    assert finding.level == doctor.PROBLEM
    assert "GiB" in finding.remedy


def test_sandbox_that_lets_a_file_through_is_a_problem(monkeypatch):
    monkeypatch.setattr(doctor.Sandbox, "evaluate", lambda self, text: 45)
    finding = doctor.sandbox(settings.default())
    assert finding.level == doctor.PROBLEM
    assert "not refused" in finding.text


def test_layers_of_the_worker_are_told():
    finding = doctor.sandbox_layers(settings.default())
    assert finding.level in (doctor.OK, doctor.NOTE)
    if finding.level == doctor.OK:
        assert "seccomp; refused inside: " in finding.text and "connect" in finding.text


def test_a_layer_that_is_missing_is_told_with_its_reason(monkeypatch):
    left_out = doctor.confine.Confinement(
        {"landlock": "Function not implemented"}, {"read a file": "", "connect": "Operation not permitted"}
    )
    monkeypatch.setattr(doctor.confine, "measure", lambda without: left_out)
    finding = doctor.sandbox_layers(settings.default())
    if "alone" in finding.text:
        pytest.skip("no layers here")
    assert finding.level == doctor.NOTE
    assert "landlock (Function not implemented)" in finding.text and "possible inside: read a file" in finding.text


@pytest.mark.parametrize("missing", ["jax", "mujoco-mjx"])
def test_missing_package_is_a_problem(monkeypatch, missing):
    versions = {k: v for k, v in doctor.runtime.versions().items() if k != missing}
    monkeypatch.setattr(doctor.runtime, "versions", lambda: versions)
    assert doctor.packages().level == doctor.PROBLEM
    assert missing in doctor.packages().text
